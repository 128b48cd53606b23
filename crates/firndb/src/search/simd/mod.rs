//! Inner loops over packed numbers and bitsets. Each has a portable version and versions for AVX2 and
//! AVX-512, chosen at run time.

pub(crate) mod kernels;
pub(crate) mod lists;
pub(crate) mod scan;
#[cfg(target_arch = "x86_64")]
pub(crate) mod unpack_avx2;
