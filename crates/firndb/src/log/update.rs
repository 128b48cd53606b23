//! Writes that depend on what is there: read-modify-write, compare-and-set, append.
//!
//! The new value is computed outside of the lock from the record that was read, and written if the
//! index still points to that record; otherwise it is computed again. So somebody always gets on,
//! and a slow function delays nobody.

use super::format::Record;
use super::index::Place;
use super::options::WriteOptions;
use super::reserve::Need;
use super::store::LogStore;
use super::writer::Frame;
use crate::Result;

impl LogStore {
    /// Replaces the value of a key by what `change` makes of it, atomically: `None` stands for an
    /// absent key on both sides. Returns the new value.
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

    /// [`LogStore::update`] with a durability or a time to live of its own, and with a `change`
    /// that may leave things as they are, by returning `None`; then nothing is written and the
    /// result is `None`.
    pub fn update_with(
        &self,
        key: &[u8],
        options: WriteOptions,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Option<Vec<u8>>>,
    ) -> Result<Option<Option<Vec<u8>>>> {
        let shared = &*self.shared;
        loop {
            super::store::check_key(key)?;
            let hash = shared.hash(key);
            let mut seen: Option<Place> = None;
            let mut new = None;
            shared.find(key, hash, |place, record| {
                seen = Some(place);
                let value = (!shared.is_expired(record)).then_some(record.value);
                new = Some((value.is_some(), change(value)));
                Some(())
            })?;
            let (was_there, new) = new.unwrap_or_else(|| (false, change(None)));
            let Some(new) = new else { return Ok(None) };
            let expires = shared.expiry(options);
            let record = match &new {
                Some(value) => {
                    super::write::check_value(value)?;
                    Record { expires, ..Record::put(key, value) }
                }
                None if !was_there => return Ok(Some(None)),
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
    /// `None` to remove the key.
    pub fn compare_and_set(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let change = |old: Option<&[u8]>| (old == expected).then(|| new.map(<[u8]>::to_vec));
        Ok(self.update_with(key, WriteOptions::default(), change)?.is_some())
    }

    /// Sets the value of a key if it is absent; whether it did.
    pub fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.compare_and_set(key, None, Some(value))
    }

    /// Appends bytes to the value of a key, which begins empty; returns its new length. The whole
    /// value is written anew.
    pub fn append(&self, key: &[u8], bytes: &[u8]) -> Result<u64> {
        let longer = |old: Option<&[u8]>| Some([old.unwrap_or_default(), bytes].concat());
        Ok(self.update(key, longer)?.map_or(0, |value| value.len() as u64))
    }
}
