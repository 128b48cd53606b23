//! Building a table. `builder.rs` has the public builder. Records pass through `ingest.rs`,
//! `raw.rs`, `partitions.rs` (with memory from `arena.rs`), `gather.rs` and `sort.rs`;
//! `table_writer.rs` packs them into blocks (`encode.rs`, `pack.rs`) and writes the sections.
//! `hashing.rs` and `reseed.rs` handle keys crafted to collide. In key order, `ordered/` takes the
//! place of everything before `encode.rs`.

pub(crate) mod builder;
pub(crate) mod ingest;
pub(crate) mod raw;
pub(crate) mod hashing;
pub(crate) mod arena;
pub(crate) mod partitions;
pub(crate) mod gather;
pub(crate) mod sort;
pub(crate) mod reseed;
pub(crate) mod encode;
pub(crate) mod pack;
pub(crate) mod filter_writer;
pub(crate) mod index_writer;
pub(crate) mod table_writer;
pub(crate) mod ordered;
