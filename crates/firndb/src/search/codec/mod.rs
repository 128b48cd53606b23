//! The encodings of the sections of a partition file: each file encodes a section and reads it back.

pub(crate) mod bitset;
pub(crate) mod column;
pub(crate) mod dictionary;
pub(crate) mod payload;
pub(crate) mod points;
pub(crate) mod postings;
pub(crate) mod slices;
