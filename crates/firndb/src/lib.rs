//! FirnDB: embedded storage for data that is written once or in bursts and read all the time.
//!
//! This release holds the **Collection**: documents in immutable partitions that are filtered,
//! sorted, counted, faceted and grouped, and of which one can be replaced while queries run.

mod error;
mod bytes;
mod disk;
mod inspect;
pub mod search;

pub use error::{Error, ErrorKind, Result};
pub use inspect::{InspectedItem, InspectedSection, Inspection, VerifyReport, inspect, verify};
