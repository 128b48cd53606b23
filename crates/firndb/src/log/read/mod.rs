//! Reading.

pub(crate) mod get;
pub(crate) mod snapshot;
