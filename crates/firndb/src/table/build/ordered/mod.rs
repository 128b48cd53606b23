//! Builds tables in key order. `collect.rs` keeps records in memory (`buffer.rs`). If they exceed
//! the memory, sorted runs go to temporary files (`runs.rs`), which are merged; or, if the keys
//! came in ascending order so far, the table is written while records are added (`direct.rs`).
//! `writer.rs` takes records in key order and writes the table.

pub(crate) mod runs;
pub(crate) mod buffer;
pub(crate) mod origins;
pub(crate) mod writer;
pub(crate) mod direct;
pub(crate) mod collect;
