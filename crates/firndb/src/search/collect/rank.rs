//! Orders the documents of one partition by several fields: packs the ranks of their keys into one
//! integer.
//!
//! The rank of a document in a field is the position of its key in the requested direction.
//! Documents without a value have the last rank in either direction. The ranks of all fields and
//! the document number are packed, most significant first, so comparing two documents is comparing
//! two integers. If documents were reordered (`Partition::origins`), the original number is packed
//! before the current one and breaks ties.

use crate::bytes::packed::{Packed as Ordinals, width};
use crate::search::codec::column::Column;
use crate::search::model::query::PageToken;
use crate::search::model::value::{Key, encode};
use crate::search::partition::Partition;
use crate::search::partition::set::PartitionSet;
use crate::search::simd::scan::OrdinalSet;
use crate::{Error, Result};
use std::ops::Bound;

/// The maximum number of sort fields of a query.
pub const MAX_ORDER: usize = 16;

/// One sort key. `field` is a field number of the reader's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortKey {
    pub(crate) field: usize,
    pub(crate) descending: bool,
    /// Whether the keys of the field are 64-bit integers.
    pub(crate) fixed: bool,
}

/// An unsigned integer that is wide enough for the packed ranks of a document.
pub(crate) trait PackedRanks: Copy + Ord {
    const ZERO: Self;
    /// Appends the number `v`, which has `bits` bits.
    fn push(self, bits: u32, v: u32) -> Self;
    /// The lowest 32 bits: the document number.
    fn low(self) -> u32;
    /// The 32 bits above the lowest `bits`.
    fn above(self, bits: u32) -> u32;
}

impl PackedRanks for u128 {
    const ZERO: u128 = 0;

    #[inline(always)]
    fn push(self, bits: u32, v: u32) -> u128 {
        self << bits | u128::from(v)
    }

    fn low(self) -> u32 {
        self as u32
    }

    fn above(self, bits: u32) -> u32 {
        (self >> bits) as u32
    }
}

/// 640 bits, for orders whose ranks do not fit 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WideRanks([u128; 5]);

impl PackedRanks for WideRanks {
    const ZERO: WideRanks = WideRanks([0; 5]);

    fn push(self, bits: u32, v: u32) -> WideRanks {
        if bits == 0 {
            return self;
        }
        let mut words = self.0;
        for i in 0..4 {
            words[i] = words[i] << bits | words[i + 1] >> (128 - bits);
        }
        words[4] = words[4] << bits | u128::from(v);
        WideRanks(words)
    }

    fn low(self) -> u32 {
        self.0[4] as u32
    }

    fn above(self, bits: u32) -> u32 {
        let (word, bit) = (4 - bits as usize / 128, bits % 128);
        let next = if word > 0 && bit > 0 { self.0[word - 1] << (128 - bit) } else { 0 };
        (self.0[word] >> bit | next) as u32
    }
}

/// One sort field in one partition.
struct RankedField<'p> {
    /// The partition's number of the field; `None` if the partition lacks it, so no document has a
    /// value.
    field: Option<usize>,
    column: Option<Column<'p>>,
    descending: bool,
    distinct: u32,
    bits: u32,
}

/// The ranks of the documents of one partition in one order.
pub(crate) struct Ranks<'p> {
    fields: Vec<RankedField<'p>>,
    origins: Option<&'p [u32]>,
}

impl<'p> Ranks<'p> {
    pub(crate) fn new(
        set: &PartitionSet,
        p: usize,
        part: &'p Partition,
        order: &[SortKey],
    ) -> Result<Ranks<'p>> {
        let mut fields = Vec::with_capacity(order.len());
        for sort_key in order {
            let field = set.local(p, sort_key.field);
            let (column, distinct) = match field {
                Some(field) => (Some(part.column_or_derived(field)?), part.meta(field).distinct),
                None => (None, 0),
            };
            let bits = u32::from(width(u64::from(distinct)));
            fields.push(RankedField {
                field,
                column,
                descending: sort_key.descending,
                distinct,
                bits,
            });
        }
        Ok(Ranks { fields, origins: part.origins.as_deref() })
    }

    /// The number of bits of a packed document.
    pub(crate) fn bits(&self) -> u32 {
        let numbers = if self.origins.is_some() { 64 } else { 32 };
        self.fields.iter().map(|f| f.bits).sum::<u32>() + numbers
    }

    /// Packs the ranks and the number of a document.
    #[inline(always)]
    pub(crate) fn pack<K: PackedRanks>(&self, doc: u32) -> K {
        let mut key = K::ZERO;
        for f in &self.fields {
            key = key.push(f.bits, f.rank(doc));
        }
        match self.origins {
            None => key.push(32, doc),
            Some(origins) => {
                key.push(32, origins.get(doc as usize).copied().unwrap_or(doc)).push(32, doc)
            }
        }
    }

    /// Completes packed ranks to the lower bound of all documents numbered `number` or above.
    fn lower_bound<K: PackedRanks>(&self, key: K, number: u32) -> K {
        let key = key.push(32, number);
        if self.origins.is_some() { key.push(32, 0) } else { key }
    }

    /// The smallest packed integer that comes after the page token, and the rank of the page token
    /// in the first field.
    pub(crate) fn after_token<K: PackedRanks>(
        &self,
        set: &PartitionSet,
        p: usize,
        order: &[SortKey],
        token: &PageToken,
    ) -> Result<(K, Option<u32>)> {
        let part = &set.partitions[p];
        let (mut key, mut exact, mut first_rank) = (K::ZERO, true, None);
        for (f, (sort_key, value)) in self.fields.iter().zip(order.iter().zip(&token.keys)) {
            let mut rank = 0;
            if exact {
                let target = match value {
                    Some(value) => Some(encode(set.schema.fields[sort_key.field].ty, value)?),
                    None => None,
                };
                (rank, exact) = f.rank_of(part, target.as_ref())?;
            }
            first_rank.get_or_insert(rank);
            key = key.push(f.bits, rank.min(f.distinct));
            if rank > f.distinct {
                // All documents with these ranks come before the page token: continue with the
                // first integer above them.
                return Ok((self.lower_bound(key, u32::MAX), first_rank));
            }
        }
        let doc = match set.names[p].cmp(&token.partition) {
            _ if !exact => 0,
            std::cmp::Ordering::Less => u32::MAX,
            std::cmp::Ordering::Equal => token.doc.saturating_add(1),
            std::cmp::Ordering::Greater => 0,
        };
        Ok((self.lower_bound(key, doc), first_rank))
    }

    /// The ordinals of the first field whose rank is at most that of `key`, a key of another
    /// partition. `None` if this partition lacks the field.
    pub(crate) fn ordinals_up_to(&self, part: &Partition, key: &Key) -> Result<Option<(u32, u32)>> {
        let f = &self.fields[0];
        let Some(field) = f.field else { return Ok(None) };
        if let (Key::Fixed(key), true) = (key, part.is_ready()) {
            return Ok(Some(match f.descending {
                true => part.ready_range(field, *key, u64::MAX),
                false => part.ready_range(field, 0, *key),
            }));
        }
        let dictionary = part.dictionary(field)?;
        let range = match f.descending {
            true => dictionary.range(&Bound::Included(key.clone()), &Bound::Unbounded),
            false => dictionary.range(&Bound::Unbounded, &Bound::Included(key.clone())),
        };
        Ok(Some(range))
    }

    /// Packs only the rank in the first field and the number of a document.
    #[inline(always)]
    pub(crate) fn pack_first<K: PackedRanks>(&self, doc: u32) -> K {
        let f = &self.fields[0];
        K::ZERO.push(f.bits, f.rank(doc)).push(32, doc)
    }

    /// The column of the first field, and its ordinals whose rank is at most that of `key`. `all`
    /// is true if `key` packs the ranks of all fields, false if it packs the first alone. `None` if
    /// the column cannot be scanned, or if no document can be excluded.
    pub(crate) fn competitive_ordinals<K: PackedRanks>(
        &self,
        key: K,
        all: bool,
    ) -> Option<(Ordinals<'p>, OrdinalSet)> {
        let f = &self.fields[0];
        let Some(Column::Single(column)) = f.column.as_ref().filter(|_| f.distinct > 0) else {
            return None;
        };
        let rank = key.above(if all { self.bits() - f.bits } else { 32 });
        let range = self.ordinals_below(rank.saturating_add(1));
        (rank < f.distinct).then(|| (*column, OrdinalSet::new(&[range], column.raw().1)))
    }

    /// The ordinals of the first field whose rank is below `rank`.
    pub(crate) fn ordinals_below(&self, rank: u32) -> (u32, u32) {
        let f = &self.fields[0];
        let rank = rank.min(f.distinct);
        if f.descending { (f.distinct - rank, f.distinct) } else { (0, rank) }
    }

    pub(crate) fn first_field(&self) -> Option<usize> {
        self.fields[0].field
    }

    pub(crate) fn first_descending(&self) -> bool {
        self.fields[0].descending
    }

    /// The key of a document in sort field number `i`; `None` if it has no value.
    #[inline]
    pub(crate) fn key(&self, part: &Partition, i: usize, doc: u32) -> Result<Option<Key>> {
        let f = &self.fields[i];
        let ord = f.column.as_ref().map_or(f.distinct, |c| c.get(doc));
        match f.field {
            Some(field) if ord < f.distinct => Ok(Some(part.dictionary(field)?.key(ord))),
            _ => Ok(None),
        }
    }
}

impl RankedField<'_> {
    #[inline(always)]
    fn rank(&self, doc: u32) -> u32 {
        let ord = self.column.as_ref().map_or(0, |column| column.get(doc));
        if ord >= self.distinct {
            self.distinct
        } else if self.descending {
            self.distinct - 1 - ord
        } else {
            ord
        }
    }

    /// The rank of a key and `true` if the partition has the key; otherwise the rank of the first
    /// key after it and `false`.
    fn rank_of(&self, part: &Partition, key: Option<&Key>) -> Result<(u32, bool)> {
        let (Some(key), Some(field)) = (key, self.field) else {
            return Ok((self.distinct, key.is_none()));
        };
        let dictionary = part.dictionary(field)?;
        let below = dictionary.lower_bound(key);
        let exact = dictionary.find(key).is_some();
        Ok(match (self.descending, exact) {
            (false, _) => (below, exact),
            (true, true) => (self.distinct - 1 - below, true),
            (true, false) => (self.distinct - below, false),
        })
    }
}

/// Resolves the sort fields of a query. `InvalidArgument` if a field is unknown or not sortable. A
/// field that is repeated counts once.
pub(crate) fn resolve(
    set: &PartitionSet,
    order: &[crate::search::model::query::OrderBy],
) -> Result<Vec<SortKey>> {
    let mut resolved: Vec<SortKey> = Vec::with_capacity(order.len());
    for key in order {
        let found = set.schema.field(&key.field);
        let (field, definition) = found.ok_or_else(|| set.schema.unknown(&key.field))?;
        if !definition.roles.sortable {
            let names = set.schema.fields.iter().filter(|f| f.roles.sortable);
            let names: Vec<String> = names.map(|f| format!("`{}`", f.name)).collect();
            return Err(Error::invalid(format!(
                "field `{}` is not sortable; sortable fields are {}",
                key.field,
                names.join(", ")
            )));
        }
        if !resolved.iter().any(|sort_key| sort_key.field == field) {
            let fixed = definition.ty.is_fixed();
            resolved.push(SortKey { field, descending: key.descending, fixed });
        }
    }
    if resolved.len() > MAX_ORDER {
        return Err(Error::invalid(format!("an order has at most {MAX_ORDER} fields")));
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::testing::Rng;

    /// Checks that `above` returns the first of several packed numbers.
    fn check_above<K: PackedRanks>(rng: &mut Rng, max_bits: u32) {
        for _ in 0..2_000 {
            let (first, bits) = (rng.next() as u32 >> 6, 26);
            let (mut key, mut below) = (K::ZERO.push(bits, first), 0);
            while below + 26 <= max_bits && rng.below(9) > 0 {
                let bits = rng.below(27) as u32;
                key = key.push(bits, (rng.next() & ((1 << bits) - 1)) as u32);
                below += bits;
            }
            assert_eq!(key.above(below), first, "above {below} bits");
        }
    }

    #[test]
    fn above_returns_the_first_packed_number() {
        let mut rng = Rng(0xAB04E);
        check_above::<u128>(&mut rng, 102);
        check_above::<WideRanks>(&mut rng, 600);
    }
}
