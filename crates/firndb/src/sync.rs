//! What threads share without a lock, by names of our own.
//!
//! `crates/model` compiles the files that use these once more, with loom's types in their place,
//! and runs them in every order.

pub(crate) use arc_swap::ArcSwap as Swap;
pub(crate) use std::sync::atomic::AtomicU64;
