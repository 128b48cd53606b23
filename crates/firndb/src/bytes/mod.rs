//! Pure functions over bytes that several stores use.
//!
//! - `int`, `packed`, `prefetch`, `select`: integers, bit-packed arrays, single instructions.
//! - `elias_fano`: the one Elias-Fano encoder. `monotonic`: increasing sequences with search.
//!   `offsets`: where consecutive items begin and end.
//! - `kind`: the kinds of immutable files. `inspection`: what descriptions of files report.
//!   `metric`: figures for monitoring. `key_range`: ranges of keys in byte order. `varint`: numbers
//!   of variable length in sorted keys.
//!
//! Everything on disk is little-endian. Input is never trusted: functions that open a structure
//! check its bounds and return [`crate::ErrorKind::Corrupt`]; accessors of a checked structure
//! return 0, or some number, out of bounds. Unsafe code is limited to single processor instructions
//! in `prefetch.rs` and `monotonic/partitioned.rs`.

pub(crate) mod int;
pub(crate) mod packed;
pub(crate) mod select;
pub(crate) mod elias_fano;
pub(crate) mod monotonic;
pub(crate) mod offsets;
pub(crate) mod kind;
pub(crate) mod key_range;
pub(crate) mod metric;
pub(crate) mod inspection;
pub(crate) mod prefetch;
pub(crate) mod varint;
#[cfg(test)]
pub(crate) mod testing;
