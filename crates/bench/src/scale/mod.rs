//! One LogStore of any number of keys, up to a billion and more: memory per key, longest put, reads
//! per get, opening after a close and after a kill, and that nothing acknowledged is lost.
//!
//! [`engine`] is the process that holds the store, [`runner`] starts it, kills it and starts it
//! again. [`formulas`] predict memory and disk space, and [`report`] compares them and the bounds
//! with what was measured. [`probe`] measures the disk itself.

pub mod engine;
pub mod formulas;
pub mod probe;
pub mod report;
pub mod runner;
