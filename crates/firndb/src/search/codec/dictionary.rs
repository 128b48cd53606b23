//! Dictionaries: the distinct keys of a field in ascending order. Maps ordinals to keys and keys to
//! ordinals.

use crate::bytes::increasing::{self, Increasing};
use crate::search::model::types::Type;
use crate::search::model::value::{Key, Value, decode_bytes, decode_fixed};
use crate::{Error, Result};
use std::ops::Bound;

/// The distinct keys of a field in ascending order, while a partition is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Fixed(Vec<u64>),
    Bytes(Vec<Vec<u8>>),
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        match self {
            Keys::Fixed(keys) => keys.len(),
            Keys::Bytes(keys) => keys.len(),
        }
    }

    /// Encodes the parts KEYS and KEY_BYTES for a partition of `documents` documents.
    pub(crate) fn encode(&self, documents: usize) -> (Vec<u8>, Option<Vec<u8>>) {
        let min_size = self.len() > documents;
        match self {
            Keys::Fixed(keys) => (encode_sequence(keys.iter().copied(), min_size), None),
            Keys::Bytes(keys) => {
                let mut offsets = Vec::with_capacity(keys.len() + 1);
                let mut area = Vec::new();
                for (i, key) in keys.iter().enumerate() {
                    offsets.push(area.len() as u64 + i as u64);
                    area.extend_from_slice(key);
                }
                offsets.push(area.len() as u64 + keys.len() as u64);
                (encode_sequence(offsets.into_iter(), min_size), Some(area))
            }
        }
    }
}

/// Readers allocate memory in proportion to the number of keys, so this number must be bounded by
/// the size of the file. With `min_size` the encoding itself takes a minimum of bytes per key.
/// Otherwise there are no more keys than documents, whose number the payload offsets bound.
fn encode_sequence(values: impl ExactSizeIterator<Item = u64>, min_size: bool) -> Vec<u8> {
    if min_size { increasing::encode_vouching(values) } else { increasing::encode(values) }
}

/// Reads the distinct keys of a field.
#[derive(Clone, Copy)]
pub(crate) enum Dictionary<'a> {
    Fixed(Increasing<'a>),
    Bytes { offsets: Increasing<'a>, area: &'a [u8] },
}

impl<'a> Dictionary<'a> {
    pub(crate) fn fixed(keys: &'a [u8], distinct: usize) -> Result<Dictionary<'a>> {
        Ok(Dictionary::Fixed(Increasing::new(keys, distinct)?))
    }

    pub(crate) fn bytes(keys: &'a [u8], area: &'a [u8], distinct: usize) -> Result<Dictionary<'a>> {
        let offsets = Increasing::new(keys, distinct + 1)?;
        if offsets.get(distinct) != (area.len() + distinct) as u64 {
            return Err(Error::corrupt("the keys of a field do not fill their section"));
        }
        Ok(Dictionary::Bytes { offsets, area })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Dictionary::Fixed(keys) => keys.len(),
            Dictionary::Bytes { offsets, .. } => offsets.len() - 1,
        }
    }

    /// Key `ord` of a field with 64-bit keys; 0 for other fields.
    #[inline]
    pub(crate) fn fixed_key(&self, ord: u32) -> u64 {
        match self {
            Dictionary::Fixed(keys) => keys.get(ord as usize),
            Dictionary::Bytes { .. } => 0,
        }
    }

    /// Key `ord` of a string or bytes field; empty if the file is corrupt.
    pub(crate) fn bytes_key(&self, ord: u32) -> &'a [u8] {
        match self {
            Dictionary::Fixed(_) => &[],
            Dictionary::Bytes { offsets, area } => {
                let (start, end) = offsets.pair(ord as usize);
                let start = start.wrapping_sub(ord.into()) as usize;
                let end = end.wrapping_sub(u64::from(ord) + 1) as usize;
                area.get(start..end).unwrap_or(&[])
            }
        }
    }

    pub(crate) fn key(&self, ord: u32) -> Key {
        match self {
            Dictionary::Fixed(_) => Key::Fixed(self.fixed_key(ord)),
            Dictionary::Bytes { .. } => Key::Bytes(self.bytes_key(ord).to_vec()),
        }
    }

    pub(crate) fn value(&self, ty: Type, ord: u32) -> Result<Value> {
        match self {
            Dictionary::Fixed(_) => Ok(decode_fixed(ty, self.fixed_key(ord))),
            Dictionary::Bytes { .. } => decode_bytes(ty, self.bytes_key(ord)),
        }
    }

    /// The number of keys below `key`.
    pub(crate) fn lower_bound(&self, key: &Key) -> u32 {
        match (self, key) {
            (Dictionary::Fixed(keys), Key::Fixed(key)) => keys.lower_bound(*key) as u32,
            (Dictionary::Bytes { .. }, Key::Bytes(key)) => self.lower_bound_of_bytes(key),
            _ => 0,
        }
    }

    fn lower_bound_of_bytes(&self, key: &[u8]) -> u32 {
        let wanted = (first_bytes(key), key);
        let (mut low, mut high) = (0, self.len() as u32);
        while low < high {
            let mid = low + (high - low) / 2;
            let found = self.bytes_key(mid);
            if (first_bytes(found), found) < wanted { low = mid + 1 } else { high = mid }
        }
        low
    }

    /// The ordinal of a key; `None` if it is absent.
    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        if let (Dictionary::Fixed(keys), Key::Fixed(key)) = (self, key) {
            return keys.find(*key).map(|i| i as u32);
        }
        let Key::Bytes(key) = key else { return None };
        self.find_bytes(key)
    }

    /// The ordinal of a key of a string or bytes field; `None` if it is absent.
    pub(crate) fn find_bytes(&self, key: &[u8]) -> Option<u32> {
        let ord = self.lower_bound_of_bytes(key);
        let found = (ord as usize) < self.len() && self.bytes_key(ord) == key;
        (found && matches!(self, Dictionary::Bytes { .. })).then_some(ord)
    }

    /// The ordinals `start..end` of the keys between two bounds.
    pub(crate) fn range(&self, low: &Bound<Key>, high: &Bound<Key>) -> (u32, u32) {
        if let (
            Dictionary::Fixed(keys),
            Bound::Included(Key::Fixed(low)),
            Bound::Included(Key::Fixed(high)),
        ) = (self, low, high)
            && let (Some(end), true) = (high.checked_add(1), low <= high)
        {
            let (start, end) = keys.lower_bounds(*low, end);
            return (start as u32, end as u32);
        }
        let after = |key: &Key| {
            let ord = self.lower_bound(key);
            ord + u32::from((ord as usize) < self.len() && self.is(ord, key))
        };
        let start = match low {
            Bound::Unbounded => 0,
            Bound::Included(key) => self.lower_bound(key),
            Bound::Excluded(key) => after(key),
        };
        let end = match high {
            Bound::Unbounded => self.len() as u32,
            Bound::Included(key) => after(key),
            Bound::Excluded(key) => self.lower_bound(key),
        };
        (start, end.max(start))
    }

    fn is(&self, ord: u32, key: &Key) -> bool {
        match key {
            Key::Fixed(key) => self.fixed_key(ord) == *key,
            Key::Bytes(key) => self.bytes_key(ord) == key.as_slice(),
        }
    }
}

/// The first eight bytes of a key as a number with the same order. Most keys differ there, and
/// comparing numbers avoids a call to `memcmp`.
#[inline]
fn first_bytes(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(&first) => u64::from_be_bytes(first),
        None => (0..8).fold(0, |head, i| head << 8 | u64::from(key.get(i).copied().unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_common_prefixes_are_found() {
        let mut texts: Vec<Vec<u8>> = vec![Vec::new()];
        for text in ["\0", "a", "abcdefg", "abcdefgh", "abcdefgh\0x", "abcdefghij", "\u{10FFFF}"] {
            let zeros = (0..10).map(|n| [text.as_bytes(), &vec![0; n]].concat());
            texts.extend(zeros);
        }
        texts.sort_unstable();
        texts.dedup();
        // Every other text is a key.
        let keys: Vec<_> = texts.iter().step_by(2).cloned().collect();
        let (offsets, area) = Keys::Bytes(keys.clone()).encode(keys.len());
        let dictionary = Dictionary::bytes(&offsets, area.as_ref().unwrap(), keys.len()).unwrap();
        for text in &texts {
            assert_eq!(
                dictionary.find_bytes(text),
                keys.iter().position(|key| key == text).map(|ord| ord as u32),
                "{text:?}"
            );
            let below = keys.partition_point(|key| key < text) as u32;
            assert_eq!(dictionary.lower_bound_of_bytes(text), below, "{text:?}");
        }
    }
}
