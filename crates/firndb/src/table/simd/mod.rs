//! Kernels.

pub(crate) mod kernels;
pub(crate) mod block_search;
#[cfg(target_arch = "x86_64")]
pub(crate) mod block_avx2;

#[cfg(target_arch = "x86_64")]
pub(crate) use block_avx2::Avx2Search;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use block_search::Avx2Search;
