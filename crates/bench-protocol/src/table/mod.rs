//! The benchmark of the Table: records that every engine makes for itself, and the engine's side
//! of the lines.
//!
//! Nothing is written to a data file: record i can be made from its number alone ([`Records`]), so
//! that a build streams, and whoever gets a key can tell what the value must be.

mod answer;
mod fold;
mod records;
mod serve;

pub use fold::fold;
pub use records::{Key, Records, Workload, key};
pub use serve::{Engine, Handle, Store, serve};
