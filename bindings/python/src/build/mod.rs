//! What builds of tables and collections share: their inputs, and running them so that Ctrl-C ends
//! them.

pub mod arrow;
pub mod bad_rows;
pub mod dialect;
pub mod run;
pub mod target;
