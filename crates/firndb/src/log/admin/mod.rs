//! Backup, verify, repair and inspect.

pub(crate) mod backup;
pub(crate) mod inspect;
pub(crate) mod repair;
pub(crate) mod verify;
