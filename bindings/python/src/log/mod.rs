//! Log stores.

pub mod admin;
pub mod batch;
pub mod iter;
pub mod options;
mod pairs;
pub mod snapshot;
pub mod store;
mod update;
