//! Ranges of keys in byte order, for scans of ordered stores and tables.

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys in byte order: made from a Rust range of anything that is bytes, or of all keys
/// with a prefix.
///
/// ```
/// use firndb::KeyRange;
///
/// let orders = KeyRange::prefix("order/");
/// assert!(orders.contains(b"order/17") && !orders.contains(b"orders"));
/// let some = orders.and(&KeyRange::from("order/2"..));
/// assert!(some.contains(b"order/3") && !some.contains(b"order/17"));
/// assert!(KeyRange::from("b".."a").is_empty());
/// assert!(KeyRange::from(..).contains(b""));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
}

impl KeyRange {
    /// The keys between two bounds.
    pub fn new(from: Bound<impl AsRef<[u8]>>, to: Bound<impl AsRef<[u8]>>) -> KeyRange {
        let owned = |key: &[u8]| key.to_vec();
        KeyRange {
            from: from.map(|key| owned(key.as_ref())),
            to: to.map(|key| owned(key.as_ref())),
        }
    }

    /// The keys that begin with these bytes.
    pub fn prefix(prefix: impl AsRef<[u8]>) -> KeyRange {
        let prefix = prefix.as_ref();
        // The first key after all of them: without the 0xFF at the end, and one more.
        let end = prefix.iter().rposition(|&byte| byte != u8::MAX).map(|last| {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        });
        let to = end.map_or(Bound::Unbounded, Bound::Excluded);
        KeyRange { from: Bound::Included(prefix.to_vec()), to }
    }

    /// The keys that are in this range and in another.
    #[must_use]
    pub fn and(&self, other: &KeyRange) -> KeyRange {
        let from = match (from_rank(&self.from), from_rank(&other.from)) {
            (a, b) if a < b => &other.from,
            _ => &self.from,
        };
        let to = match (&self.to, &other.to) {
            (Bound::Unbounded, to) | (to, Bound::Unbounded) => to,
            (a, b) if to_rank(a) <= to_rank(b) => a,
            (_, b) => b,
        };
        KeyRange { from: from.clone(), to: to.clone() }
    }

    /// Whether a key is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.is_after_start(key) && self.is_before_end(key)
    }

    /// Whether a key is not before the range.
    pub fn is_after_start(&self, key: &[u8]) -> bool {
        match &self.from {
            Bound::Included(from) => key >= &from[..],
            Bound::Excluded(from) => key > &from[..],
            Bound::Unbounded => true,
        }
    }

    /// Whether a key is not after the range.
    pub fn is_before_end(&self, key: &[u8]) -> bool {
        match &self.to {
            Bound::Included(to) => key <= &to[..],
            Bound::Excluded(to) => key < &to[..],
            Bound::Unbounded => true,
        }
    }

    /// Whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Excluded(from), Bound::Excluded(to)) => {
                // The first key after `from` has one more byte, a zero.
                from >= to
                    || (to.len() == from.len() + 1 && to.starts_with(from) && to.ends_with(&[0]))
            }
            (Bound::Included(from), Bound::Excluded(to))
            | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
            (_, Bound::Excluded(to)) => to.is_empty(),
            _ => false,
        }
    }

    /// The lower bound.
    pub fn start(&self) -> Bound<&[u8]> {
        self.from.as_ref().map(Vec::as_slice)
    }

    /// The upper bound.
    pub fn end(&self) -> Bound<&[u8]> {
        self.to.as_ref().map(Vec::as_slice)
    }
}

/// Orders lower bounds: a larger one excludes more keys.
fn from_rank(bound: &Bound<Vec<u8>>) -> Option<(&[u8], bool)> {
    match bound {
        Bound::Included(key) => Some((key, false)),
        Bound::Excluded(key) => Some((key, true)),
        Bound::Unbounded => None,
    }
}

/// Orders upper bounds that exist: a smaller one excludes more keys.
fn to_rank(bound: &Bound<Vec<u8>>) -> Option<(&[u8], bool)> {
    match bound {
        Bound::Included(key) => Some((key, true)),
        Bound::Excluded(key) => Some((key, false)),
        Bound::Unbounded => None,
    }
}

impl From<RangeFull> for KeyRange {
    fn from(_: RangeFull) -> KeyRange {
        KeyRange { from: Bound::Unbounded, to: Bound::Unbounded }
    }
}

/// Implements the conversion for types of ranges.
macro_rules! from_ranges {
    ($($range:ident),*) => {$(
        impl<K: AsRef<[u8]>> From<$range<K>> for KeyRange {
            fn from(range: $range<K>) -> KeyRange {
                KeyRange::new(range.start_bound(), range.end_bound())
            }
        }
    )*};
}

from_ranges!(Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive);

impl<K: AsRef<[u8]>> From<(Bound<K>, Bound<K>)> for KeyRange {
    fn from((from, to): (Bound<K>, Bound<K>)) -> KeyRange {
        KeyRange::new(from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Vec<Vec<u8>> {
        let alphabet = [0u8, 1, 0xFE, 0xFF];
        let mut keys = vec![vec![]];
        for length in 1..=3 {
            let shorter: Vec<Vec<u8>> =
                keys.iter().filter(|k| k.len() == length - 1).cloned().collect();
            keys.extend(
                shorter.iter().flat_map(|key| alphabet.map(|byte| [&key[..], &[byte]].concat())),
            );
        }
        keys
    }

    #[test]
    fn a_prefix_has_the_keys_that_begin_with_it() {
        for prefix in keys() {
            let range = KeyRange::prefix(&prefix);
            for key in keys() {
                assert_eq!(range.contains(&key), key.starts_with(&prefix), "{prefix:?} {key:?}");
            }
        }
    }

    #[test]
    fn an_intersection_has_the_keys_of_both() {
        let keys: Vec<Vec<u8>> = keys().into_iter().filter(|key| key.len() < 3).collect();
        let bounds = |key: &Vec<u8>| [Bound::Included(key.clone()), Bound::Excluded(key.clone())];
        let mut all: Vec<Bound<Vec<u8>>> = keys.iter().step_by(3).flat_map(bounds).collect();
        all.push(Bound::Unbounded);
        let ranges: Vec<KeyRange> = all
            .iter()
            .flat_map(|from| all.iter().map(|to| KeyRange::new(from.clone(), to.clone())))
            .collect();
        for a in &ranges {
            for b in ranges.iter().step_by(7) {
                let both = a.and(b);
                for key in &keys {
                    assert_eq!(
                        both.contains(key),
                        a.contains(key) && b.contains(key),
                        "{a:?} {b:?}"
                    );
                }
            }
            if a.is_empty() {
                assert!(!keys.iter().any(|key| a.contains(key)), "{a:?}");
            }
        }
    }
}
