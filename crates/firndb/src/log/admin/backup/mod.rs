//! Backup and restore. A backup is a directory that is a store of its own, made of hard links while
//! writing continues: see [`update`]. A restore makes a store that shares no file with the backup:
//! see [`restore`].

pub(crate) mod copy;
pub(crate) mod target;
pub(crate) mod sealed;
pub(crate) mod update;
pub(crate) mod restore;
