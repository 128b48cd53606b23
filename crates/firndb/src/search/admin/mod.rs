//! Checks and describes the files of a collection: `firn verify` and `firn inspect`.

pub(crate) mod inspect;
