//! A batch: changes that are applied together or not at all.

use super::format::Record;

/// Puts and deletes of any number of keys, for [`LogStore::write`](super::LogStore::write).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Keys and values, one behind the other.
    bytes: Vec<u8>,
    /// End of the key, and end of the value, or `None` for a delete.
    changes: Vec<(usize, Option<usize>)>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets the value of a key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Batch {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.changes.push((key_end, Some(self.bytes.len())));
        self
    }

    /// Removes a key, if it is there.
    pub fn delete(&mut self, key: &[u8]) -> &mut Batch {
        self.bytes.extend_from_slice(key);
        self.changes.push((self.bytes.len(), None));
        self
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is no change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Forgets all changes and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes.clear();
    }

    pub(super) fn records(&self) -> Vec<Record<'_>> {
        let mut start = 0;
        let mut records = Vec::with_capacity(self.changes.len());
        for &(key_end, value_end) in &self.changes {
            let key = &self.bytes[start..key_end];
            start = value_end.unwrap_or(key_end);
            records.push(match value_end {
                Some(end) => Record::put(key, &self.bytes[key_end..end]),
                None => Record::delete(key),
            });
        }
        records
    }
}
