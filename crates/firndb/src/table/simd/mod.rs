//! Inner loops of lookups, on slices of bytes. `kernels.rs` runs on every processor,
//! `block_avx2.rs` where AVX2 is detected at run time.

pub(crate) mod kernels;
pub(crate) mod block_search;
#[cfg(target_arch = "x86_64")]
pub(crate) mod block_avx2;

#[cfg(target_arch = "x86_64")]
pub(crate) use block_avx2::Avx2Search;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use block_search::Avx2Search;
