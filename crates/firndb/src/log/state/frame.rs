//! A record that is ready to be appended: everything that can be computed before the writer's lock
//! is taken.

use crate::log::format::record::{self, HEAD_MAX, Record};
use crate::log::index::slot::RecordLocation;

/// A record that is ready to be appended.
pub(crate) struct Frame<'a> {
    pub(crate) record: Record<'a>,
    head: [u8; HEAD_MAX],
    pub(crate) head_length: usize,
    /// XXH3-64 of the record's bytes, for its checksum.
    record_hash: u64,
    /// Hash of the key.
    pub(crate) hash: u64,
    /// The location of the key's record when it was last looked up. May be outdated.
    pub(crate) seen: Option<RecordLocation>,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(record: Record<'a>, hash: u64, seen: Option<RecordLocation>) -> Frame<'a> {
        let (head, head_length) = record.head();
        let record_hash = record::record_hash(&head[..head_length], record.key, record.value);
        Frame { record, head, head_length, record_hash, hash, seen }
    }

    /// The bytes before the key, for a record at this position.
    #[inline]
    pub(crate) fn head_at(&self, segment: u64, offset: u64) -> [u8; HEAD_MAX] {
        let mut head = self.head;
        head[..4].copy_from_slice(&record::checksum(self.record_hash, segment, offset));
        head
    }

    /// Length of the record in bytes.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.head_length + self.record.key.len() + self.record.value.len()
    }
}
