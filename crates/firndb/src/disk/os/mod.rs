//! The disk of the operating system.
//!
//! `std` retries calls that a signal interrupted (EINTR), continues after a short write, and makes
//! the drive flush its cache on systems where a sync does not (macOS).

mod append_map;
mod held_dir;
mod os_disk;
mod space;
mod unnamed;
#[cfg(target_os = "linux")]
mod writeback;

pub(crate) use os_disk::os;
#[cfg(test)]
pub(crate) use os_disk::portable;
#[cfg(all(test, not(target_os = "linux")))]
pub(super) use unnamed::anonymous;
pub(crate) use unnamed::remove_leftovers;
