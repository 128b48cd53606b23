//! The benchmark of the Table: records that every engine generates itself, and the engine's side of
//! the protocol.
//!
//! There is no data file: record i is generated from its number alone ([`Records`]), so a build can
//! stream, and a reader can compute the value of any key.

mod answer;
mod fold;
mod records;
mod serve;

pub use fold::fold;
pub use records::{Key, Records, Workload, key};
pub use serve::{Engine, Handle, Store, serve};
