//! The benchmark of the Indexer: the latency from a change to its visibility, and the cost of
//! changes for concurrent queries.
//!
//! [`prepare`] builds an index of car offers, [`visible`] changes single documents and waits until
//! a reader sees them, [`sustained`] alternates queries with and without concurrent changes, and
//! [`swaps`] measures queries while the reader of a catalog switches to new versions.
//! [`markdown`] formats the figures as a page.

pub mod markdown;
pub mod prepare;
pub mod sustained;
pub mod swaps;
pub mod visible;

use prepare::Prepared;
use std::time::Duration;
use sustained::Figures;
use visible::Steps;

/// All figures of a run.
pub struct Report {
    /// The index.
    pub prepared: Prepared,
    /// Steps of single changes.
    pub steps: Vec<Steps>,
    /// Queries with and without concurrent changes.
    pub sustained: Figures,
}

/// Interval at which a reader checks for a newer set.
const POLL: Duration = Duration::from_millis(10);
