//! Inner loops over packed numbers and bitsets, with portable, AVX2 and AVX-512 versions that are
//! chosen at run time and give the same results.
//!
//! `kernels` detects the instruction set and has the loops over bitsets. `lists` works on packed
//! postings lists, `scan` finds the documents of a set of ordinals in a packed column.
//! `unpack_avx2` unpacks and compares packed numbers, for both. All are functions on slices: what
//! the bytes mean is known only to `codec/` and above.

pub(crate) mod kernels;
pub(crate) mod lists;
pub(crate) mod scan;
#[cfg(target_arch = "x86_64")]
pub(crate) mod unpack_avx2;
