//! Checks and describes the files of a collection, for `firn verify` and `firn inspect`.
//!
//! `inspect` contains the part that is specific to collections; the crate's `inspect` module calls
//! it. The checks of a partition's contents are in `search::partition::verify`.

pub(crate) mod inspect;
