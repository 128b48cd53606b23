//! Opening a store.

pub(crate) mod chain;
pub(crate) mod durable_end;
pub(crate) mod loader;
pub(crate) mod recovery;
pub(crate) mod refresh;
pub(crate) mod store;
