//! The encodings of the sections of a partition file. Each file both encodes a section and reads
//! it.
//!
//! `dictionary` holds the distinct keys of a field, `column` maps documents to ordinals of keys.
//! `postings/` maps keys to documents, and chooses for each key among `slices` (postings lists),
//! `bitset`, runs and the column. `points/` is a k-d tree over two fields, which replaces the
//! postings of both. `payload` holds the payloads. Readers are views over the bytes of a mapped
//! file, whose checksums `partition/` verifies. They check sizes when opened, and stay memory-safe
//! and terminate on any contents.

pub(crate) mod bitset;
pub(crate) mod column;
pub(crate) mod dictionary;
pub(crate) mod payload;
pub(crate) mod points;
pub(crate) mod postings;
pub(crate) mod slices;
