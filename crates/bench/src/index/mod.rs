//! The benchmark of the Indexer: how long until a change is seen, and what changes cost queries.
//!
//! [`prepare`] makes an index of car offers, [`visible`] changes single documents and waits until a
//! reader has them, [`sustained`] runs queries with and without changes in turns. [`markdown`]
//! makes a page of the figures.

pub mod markdown;
pub mod prepare;
pub mod sustained;
pub mod visible;

use prepare::Prepared;
use std::time::Duration;
use sustained::Figures;
use visible::Steps;

/// All figures of a run.
pub struct Report {
    /// The index.
    pub prepared: Prepared,
    /// Of single changes.
    pub steps: Vec<Steps>,
    /// Queries beside changes.
    pub sustained: Figures,
}

/// How often a reader asks whether there is a newer set.
const POLL: Duration = Duration::from_millis(10);
