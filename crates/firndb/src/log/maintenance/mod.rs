//! Maintenance: preparing and sealing segments, checkpoints and compaction. Every step is a plain
//! function that tests and programs may call; `threads.rs` runs them in the background.

pub(crate) mod work_slices;
pub(crate) mod prepare;
pub(crate) mod seal;
pub(crate) mod checkpoint;
pub(crate) mod key_order;
pub(crate) mod compaction;
pub(crate) mod steps;
pub(crate) mod thread_priority;
pub(crate) mod threads;
