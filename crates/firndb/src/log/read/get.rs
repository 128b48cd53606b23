//! Gets: a search in the index and one read of the record.

use crate::log::expiry::Entry;
use crate::log::state::lookup::{GROUP, Lookup, entry_at, prefetch_all};
use crate::log::state::shared::Shared;
use crate::{Error, Result};

/// Calls `read` with the value of a key: see `LogStore::get_with`.
#[inline]
pub(crate) fn get_with<T>(
    shared: &Shared,
    key: &[u8],
    read: impl FnOnce(&[u8]) -> T,
) -> Result<Option<T>> {
    let hash = shared.lookup.hash(key);
    let mut read = Some(read);
    shared.lookup.find(key, hash, |_, _, record| {
        read.take().filter(|_| !shared.is_expired(record)).map(|read| read(record.value))
    })
}

/// Calls `read` with the record of a key: see `LogStore::get_entry_with`.
#[inline]
pub(crate) fn get_entry_with<T>(
    shared: &Shared,
    key: &[u8],
    read: impl FnOnce(Entry<'_>) -> T,
) -> Result<Option<T>> {
    let hash = shared.lookup.hash(key);
    let mut read = Some(read);
    shared.lookup.find(key, hash, |segment, location, record| {
        let read = read.take().filter(|_| !shared.is_expired(record))?;
        Some(read(entry_at(segment, location, record)))
    })
}

/// The values of keys, in order: see `LogStore::get_many`.
pub(crate) fn get_many(shared: &Shared, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
    let mut values = Vec::with_capacity(keys.len());
    read_many(shared, keys, |_, value| -> Result<()> {
        values.push(value.map(<[u8]>::to_vec));
        Ok(())
    })?;
    Ok(values)
}

/// Passes the values of keys to `read`, in order: see `LogStore::read_many`.
pub(crate) fn read_many<E: From<Error>>(
    shared: &Shared,
    keys: &[impl AsRef<[u8]>],
    mut read: impl FnMut(usize, Option<&[u8]>) -> Result<(), E>,
) -> Result<(), E> {
    let mut n = 0;
    for group in keys.chunks(GROUP) {
        let mut hashes = [0; GROUP];
        let hashes = &mut hashes[..group.len()];
        hashes.iter_mut().zip(group).for_each(|(h, key)| *h = shared.lookup.hash(key.as_ref()));
        let Lookup { index, segments, prefetch_lines, .. } = &shared.lookup;
        prefetch_all(index, &segments.load(), prefetch_lines.get(), hashes);
        for key in group {
            match get_with(shared, key.as_ref(), |value| read(n, Some(value)))? {
                Some(outcome) => outcome?,
                None => read(n, None)?,
            }
            n += 1;
        }
    }
    Ok(())
}
