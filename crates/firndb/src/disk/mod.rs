//! All file access of the library, and the rule behind it: **no byte is written twice**.
//!
//! A file grows at its end under a temporary name, is synced, and then gets its final name by a
//! rename ([`publish`]). After that, nothing changes or truncates it, so readers may map it, copy
//! it or hard-link it without coordination. Only this folder uses `std::fs`, `mmap` and `io_uring`;
//! the rest of the library works on a [`DiskRef`]. Tests pass the simulated disk of `sim/`, which
//! forgets everything that was not synced. `docs/durability.md` lists every sync and its purpose.
//!
//! | part | purpose |
//! |---|---|
//! | `os/` | the disk of the operating system |
//! | `sim/` | a simulated disk that tears writes, loses unsynced data and fails the n-th call |
//! | [`AppendMap`] | a segment of a log: appended by one thread, read through a map by others |
//! | [`Direct`] | reads that bypass the page cache |
//! | [`Map`], [`Slab`], [`Words`] | mapped files and anonymous memory |
//! | [`write_behind()`] | appends on a separate thread |
//! | [`ForkGuard`] | detects that the process was forked |
//!
//! Linux gets `io_uring`, `O_DIRECT`, `O_TMPFILE`, `fallocate` and `sync_file_range`. Other Unix
//! systems run the portable code behind each of these; tests force that code on Linux, too.

mod append_map;
mod direct;
mod fork;
mod map;
mod os;
mod paths;
mod poison;
mod publish;
pub(crate) mod spool;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
mod traits;
mod write_behind;

pub use append_map::AppendMode;
pub(crate) use append_map::{AppendMap, AppendMapWriter};
pub(crate) use direct::Direct;
pub(crate) use fork::ForkGuard;
#[cfg(test)]
pub(crate) use fork::in_child;
pub(crate) use map::{Map, Slab, Words};
#[cfg(test)]
pub(crate) use os::portable;
pub(crate) use os::{os, remove_leftovers};
pub(crate) use paths::{follow, is_temporary, parent, temporary, written_as};
pub(crate) use publish::{publish, stage};
#[cfg(test)]
pub(crate) use sim::{Fault, HookDisk, SimDisk};
#[cfg(test)]
pub(crate) use traits::FileId;
pub(crate) use traits::{Append, Disk, DiskRef, Entry, Lock, ReadAt};
pub(crate) use write_behind::write_behind;
