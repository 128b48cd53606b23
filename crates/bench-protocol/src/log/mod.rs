//! The benchmark of the LogStore: records that change, and the engine's side of the protocol.
//!
//! Version v of record i is generated from these two numbers ([`Records`]), so the child process
//! knows the value of every record after any number of updates, and compares all of them.

mod histogram;
mod records;
mod serve;
mod work;

pub use histogram::Histogram;
pub use records::{Key, Records, Workload, key};
pub use serve::{Engine, Handle, Store, serve};
