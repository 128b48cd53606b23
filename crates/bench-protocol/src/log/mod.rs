//! The benchmark of the LogStore: records that change, and the engine's side of the lines.
//!
//! Record i of version v is made from these two numbers ([`Records`]), so the child process itself
//! knows what every value must be after any number of updates, and compares all of them.

mod histogram;
mod records;
mod serve;
mod work;

pub use histogram::Histogram;
pub use records::{Key, Records, Workload, key};
pub use serve::{Engine, Handle, Store, serve};
