//! The bytes of a log store's files.

pub(crate) mod hint_entries;
pub(crate) mod record;
