//! Lock-free types that threads share, under names of this crate.
//!
//! `crates/model` compiles the files that use them a second time with loom's types in their place,
//! and explores every interleaving.

pub(crate) use arc_swap::{ArcSwap as Swap, Guard};
pub(crate) use std::sync::atomic::AtomicU64;
