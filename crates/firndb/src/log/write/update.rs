//! Read-modify-write.
//!
//! The new value is computed outside of the lock from the record that was read, and written if the
//! index still points to that record. Otherwise it is computed again. So some writer always makes
//! progress, and a slow function delays no other writer.

use crate::Result;
use crate::log::expiry::Expiry;
use crate::log::format::record::Record;
use crate::log::index::slot::RecordLocation;
use crate::log::options::WriteOptions;
use crate::log::state::frame::Frame;
use crate::log::state::shared::{Shared, check_key};
use crate::log::write::acknowledge::acknowledge;
use crate::log::write::active_segment::{make_room, need_of};
use crate::log::write::apply::{apply, check_value, current};
use crate::log::write::settle::lock_settled;

/// The change that the closure of [`LogStore::update_with`](crate::log::LogStore::update_with) asks
/// for, and that the call made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Leave the key as it is. Nothing is written.
    Keep,
    /// Set this value.
    Put(Vec<u8>),
    /// Remove the key.
    Delete,
}

impl From<Option<Vec<u8>>> for Update {
    /// [`Update::Put`] of a value, [`Update::Delete`] for `None`.
    fn from(value: Option<Vec<u8>>) -> Update {
        value.map_or(Update::Delete, Update::Put)
    }
}

/// Replaces the value of a key by the result of `change`: see `LogStore::update_with`.
pub(crate) fn update(
    shared: &Shared,
    key: &[u8],
    options: WriteOptions,
    mut change: impl FnMut(Option<&[u8]>) -> Update,
) -> Result<Update> {
    loop {
        check_key(key)?;
        let hash = shared.lookup.hash(key);
        let mut seen: Option<RecordLocation> = None;
        let (mut new, mut kept) = (None, Expiry::Never);
        shared.lookup.find(key, hash, |_, location, record| {
            seen = Some(location);
            let live = Some(record).filter(|record| !shared.is_expired(record));
            // An expired record is absent, and so is its expiry.
            kept = Expiry::of(live.and_then(|record| record.expires));
            new = Some(change(live.map(|record| record.value)));
            Some(())
        })?;
        let new = new.unwrap_or_else(|| change(None));
        let record = match &new {
            Update::Keep => return Ok(new),
            Update::Put(value) => {
                check_value(value)?;
                let expires = shared.expiry(options).unwrap_or(kept).millis();
                Record { expires, ..Record::put(key, value) }
            }
            // Writes a delete over an expired record, as `LogStore::delete` does.
            Update::Delete if seen.is_none() => return Ok(new),
            Update::Delete => Record::delete(key),
        };
        let frame = Frame::new(record, hash, seen);
        let position = {
            let mut writer = lock_settled(shared)?;
            if current(shared, &frame)?.map(|current| current.location) != seen {
                continue; // Another writer changed the key.
            }
            let need = need_of(std::slice::from_ref(&frame));
            make_room(shared, &mut writer, (frame.length() as u64, 1), need)?;
            apply(shared, &mut writer, &frame, need)?;
            writer.position()
        };
        acknowledge(shared, position, options)?;
        return Ok(new);
    }
}
