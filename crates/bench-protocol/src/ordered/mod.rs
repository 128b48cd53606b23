//! The benchmark of ranges in the order of keys: records in groups that share a prefix of their
//! key, and the engine's side of the protocol.
//!
//! A store is filled in random order, a table is built from sorted records. Both are read by prefix
//! and as a whole, forward and in reverse.

mod records;
mod serve;
mod work;

pub use records::{Answer, GROUP, Key, PREFIX, Prefix, Records, VALUE};
pub use serve::{Engine, Reader, Store, TableEngine, serve, serve_tables};
