//! Reads that bypass the page cache (`O_DIRECT`), one at a time or many concurrently.
//!
//! The kernel requires such reads to start and end at block boundaries of the file and to go to
//! aligned memory; callers may read any range. On Linux, concurrent reads go through io_uring
//! (`ring`). Each thread keeps one ring and its buffers for all files. Where io_uring is not
//! available (on other systems, and in many containers), reads run one after another.

mod buffer;
mod reads;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(test)]
mod tests;
mod uncached_file;

pub(crate) use reads::Direct;
