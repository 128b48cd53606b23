//! Runs a plan on one partition: binds its conditions to ordinals, chooses which one to walk, and
//! hands the matches to a sink.

pub(crate) mod bind;
pub(crate) mod check;
pub(crate) mod clause;
pub(crate) mod conjunction;
pub(crate) mod context;
pub(crate) mod executor;
pub(crate) mod lead_iter;
pub(crate) mod parallel;
pub(crate) mod scratch;
pub(crate) mod sink;
pub(crate) mod small;
pub(crate) mod windows;
pub(crate) mod workspace;
