//! The bytes of a log store's files: pure functions that encode and decode. No file does I/O.

pub(crate) mod names;
pub(crate) mod record;
pub(crate) mod segment_head;
pub(crate) mod hint_entries;
pub(crate) mod hint;
pub(crate) mod key_block;
pub(crate) mod key_run;
pub(crate) mod checkpoint;
pub(crate) mod durable_end;
pub(crate) mod backup_manifest;
