//! Opening a store: finding the log in a directory, filling the index, and the store itself.

pub(crate) mod chain;
pub(crate) mod checkpoint_file;
pub(crate) mod durable_end;
pub(crate) mod unfinished_backup;
pub(crate) mod key_runs;
pub(crate) mod loader;
pub(crate) mod promotion;
pub(crate) mod recovery;
pub(crate) mod refresh;
pub(crate) mod store;
pub(crate) mod operations;
