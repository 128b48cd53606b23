//! Background work.

pub(crate) mod backpressure;
pub(crate) mod checkpoint;
pub(crate) mod compaction;
pub(crate) mod thread_priority;
pub(crate) mod threads;
