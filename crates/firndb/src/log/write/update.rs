//! Writes that depend on what is there: read-modify-write, compare-and-set, append.
//!
//! The new value is computed outside of the lock from the record that was read, and written if the
//! index still points to that record; otherwise it is computed again. So somebody always gets on,
//! and a slow function delays nobody.

use crate::Result;
use crate::log::expiry::Expiry;
use crate::log::format::record::Record;
use crate::log::index::slot::RecordLocation;
use crate::log::open::store::LogStore;
use crate::log::options::WriteOptions;
use crate::log::segments::reserve::Need;
use crate::log::write::writer::Frame;

impl LogStore {
    /// Replaces the value of a key by what `change` makes of it, atomically: `None` stands for an
    /// absent key on both sides. Returns the new value. The record keeps its expiry; where the key
    /// was absent, or its record had expired, the new one stays.
    ///
    /// `change` is called again whenever another write to the key came between.
    pub fn update(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let written = self.update_with(key, WriteOptions::default(), |old| Some(change(old)))?;
        Ok(written.flatten())
    }

    /// [`LogStore::update`] with a durability or an expiry of its own, and with a `change` that may
    /// leave things as they are, by returning `None`; then nothing is written and the result is
    /// `None`.
    pub fn update_with(
        &self,
        key: &[u8],
        options: WriteOptions,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Option<Vec<u8>>>,
    ) -> Result<Option<Option<Vec<u8>>>> {
        let shared = &*self.shared;
        loop {
            crate::log::open::store::check_key(key)?;
            let hash = shared.hash(key);
            let mut seen: Option<RecordLocation> = None;
            let (mut new, mut kept) = (None, Expiry::Never);
            shared.find(key, hash, |place, record| {
                seen = Some(place);
                let there = Some(record).filter(|record| !shared.is_expired(record));
                // What has expired is gone, and its expiry with it.
                kept = Expiry::of(there.and_then(|record| record.expires));
                new = Some(change(there.map(|record| record.value)));
                Some(())
            })?;
            let Some(new) = new.unwrap_or_else(|| change(None)) else { return Ok(None) };
            let record = match &new {
                Some(value) => {
                    crate::log::write::put::check_value(value)?;
                    let expires = shared.expiry(options).unwrap_or(kept).millis();
                    Record { expires, ..Record::put(key, value) }
                }
                // An expired record is removed for good, as `delete` does it.
                None if seen.is_none() => return Ok(Some(None)),
                None => Record::delete(key),
            };
            let frame = Frame::new(record, hash, seen);
            let position = {
                let mut writer = shared.writer()?;
                if shared.current(&frame)?.map(|current| current.place) != seen {
                    continue; // Somebody else was faster.
                }
                let need = Need::of(std::slice::from_ref(&frame));
                writer.make_room(shared, frame.length() as u64, 1, need)?;
                writer.apply(shared, &frame, need)?;
                writer.position()
            };
            shared.acknowledge(position, options)?;
            return Ok(Some(new));
        }
    }

    /// Sets the value of a key if it is `expected` now (`None`: absent); whether it did. `new` is
    /// `None` to remove the key. The record keeps its expiry.
    pub fn compare_and_set(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.compare_and_set_with(key, expected, new, WriteOptions::default())
    }

    /// [`LogStore::compare_and_set`] with a durability or an expiry of its own.
    pub fn compare_and_set_with(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        let change = |old: Option<&[u8]>| (old == expected).then(|| new.map(<[u8]>::to_vec));
        Ok(self.update_with(key, options, change)?.is_some())
    }

    /// Sets the value of a key if it is absent; whether it did. The record stays.
    pub fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.compare_and_set(key, None, Some(value))
    }

    /// Appends bytes to the value of a key, which begins empty; returns its new length. The whole
    /// value is written anew. The record keeps its expiry.
    pub fn append(&self, key: &[u8], bytes: &[u8]) -> Result<u64> {
        self.append_with(key, bytes, WriteOptions::default())
    }

    /// [`LogStore::append`] with a durability or an expiry of its own.
    pub fn append_with(&self, key: &[u8], bytes: &[u8], options: WriteOptions) -> Result<u64> {
        let longer = |old: Option<&[u8]>| Some(Some([old.unwrap_or_default(), bytes].concat()));
        let written = self.update_with(key, options, longer)?;
        Ok(written.flatten().map_or(0, |value| value.len() as u64))
    }
}
