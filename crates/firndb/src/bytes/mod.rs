//! Pure functions over bytes that several stores use: no files, and no unsafe code but
//! single instructions of processors, in `prefetch.rs` and where `elias_fano.rs` selects bits.
//!
//! Everything on disk is little-endian. Reading functions take what they are given for hostile:
//! they check bounds and answer [`crate::ErrorKind::Corrupt`]; the hot accessors of checked
//! structures answer 0 out of bounds.

pub(crate) mod int;
pub(crate) mod packed;
pub(crate) mod increasing;
pub(crate) mod offsets;
mod lines;
mod elias_fano;
mod divided;
pub(crate) mod select;
pub(crate) mod kind;
pub(crate) mod frozen;
pub(crate) mod verify_report;
pub(crate) mod prefetch;
#[cfg(test)]
pub(crate) mod testing;
