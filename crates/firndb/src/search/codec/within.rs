//! Fields within others: the models of a make, the towns of a district.
//!
//! Where the keys of a field tell those of another one of fewer keys, and in the same order ("a
//! b" comes after "a a" and before "b a"), the column of the first holds no ordinals. It holds
//! which of the keys of the other field's key a document has: five bits for twenty models a make
//! instead of eleven for two thousand models. The part FIRSTS says for each key of the other field
//! which ordinal is the first of its keys, and in the end how many there are:
//!
//! ```text
//! OFFSET  SIZE  FIELD
//! 4 k     4     first ordinal of the keys of key k; behind the last key the number of ordinals
//! ```
//! Of a field that is declared scanned this saves bits and takes two passes over narrow columns in
//! the place of one over a wide one. All documents have a value of both.

use crate::bytes::int::{Encoder, u32_at};
use crate::bytes::packed::{Packed, PackedWriter, width};
use crate::search::build::partition_writer::FieldData;
use crate::search::codec::column::{MISSING, Ordinals, column_bits};
use crate::search::format::limits::SCAN_BITS;
use crate::search::model::schema::Schema;
use crate::search::simd::kernels;
use crate::search::simd::scan::{self, Keys, Wanted};
use crate::{Error, Result};

/// Bits of a number that it must save.
const WORTH: u8 = 2;

/// What it takes to look up which of its key's keys a document has, tenths of a nanosecond.
const LOOK: u64 = 20;

/// What is written of a field within another.
pub(crate) struct Inner {
    /// Number of the other field.
    pub(crate) outer: u32,
    pub(crate) bits: u8,
    firsts: Vec<u32>,
    numbers: Vec<u32>,
}

impl Inner {
    /// The parts COLUMN and FIRSTS.
    pub(crate) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut column, mut firsts) = (PackedWriter::new(self.bits), Encoder::default());
        self.numbers.iter().for_each(|&number| column.push(number));
        self.firsts.iter().for_each(|&first| firsts.u32(first));
        (column.finish(), firsts.0)
    }
}

/// For a field that is declared scanned the field that it is within, if there is one: that which
/// leaves the fewest bits. `field` gives the data of those that are there.
pub(crate) fn choose<'f>(
    schema: &Schema,
    number: usize,
    field: impl Fn(usize) -> Option<&'f FieldData>,
) -> Option<Inner> {
    let declared = &schema.fields[number];
    if !declared.scanned || declared.roles.sortable {
        return None;
    }
    let (ords, distinct) = complete(field(number)?)?;
    let most = column_bits(distinct, false).checked_sub(WORTH)?.min(SCAN_BITS);
    let others = (0..schema.fields.len()).filter(|&other| other != number);
    let firsts = others.filter_map(|other| {
        let (outer, keys) = complete(field(other)?)?;
        let narrow = column_bits(keys, false) <= SCAN_BITS;
        let firsts = narrow.then(|| firsts_of((ords, distinct), (outer, keys)))??;
        let largest = firsts.windows(2).map(|pair| pair[1] - pair[0]).max()?;
        let bits = width(u64::from(largest) - 1);
        (bits <= most).then_some((bits, other, firsts))
    });
    let (bits, outer, firsts) = firsts.min_by_key(|(bits, ..)| *bits)?;
    let (outers, _) = complete(field(outer)?)?;
    let numbers = ords.iter().zip(outers).map(|(ord, outer)| ord - firsts[*outer as usize]);
    Some(Inner { outer: outer as u32, bits, numbers: numbers.collect(), firsts })
}

/// The ordinals of a field of one value that no document lacks, and how many they are.
fn complete(data: &FieldData) -> Option<(&[u32], usize)> {
    match &data.ordinals {
        Ordinals::Single(ords) if !ords.contains(&MISSING) => Some((ords, data.keys.len())),
        _ => None,
    }
}

/// The first ordinal of each of the outer field's keys, and the end; `None` if the field is not
/// within it.
fn firsts_of(
    (ords, distinct): (&[u32], usize),
    (outer, keys): (&[u32], usize),
) -> Option<Vec<u32>> {
    let mut key_of = vec![MISSING; distinct];
    for (&ord, &key) in ords.iter().zip(outer) {
        let known = &mut key_of[ord as usize];
        if *known != key && *known != MISSING {
            return None;
        }
        *known = key;
    }
    let firsts = (0..=keys as u32).map(|key| key_of.partition_point(|&of| of < key) as u32);
    key_of.is_sorted().then(|| firsts.collect())
}

/// The column of a field within another.
#[derive(Clone, Copy)]
pub(crate) struct Within<'a> {
    outer: Packed<'a>,
    inner: Packed<'a>,
    firsts: &'a [u8],
}

impl<'a> Within<'a> {
    /// Of a field whose outer one has so many keys.
    pub(crate) fn new(
        outer: Packed<'a>,
        inner: Packed<'a>,
        (firsts, keys): (&'a [u8], u32),
    ) -> Result<Within<'a>> {
        match firsts.len() as u64 == 4 * (u64::from(keys) + 1) {
            true => Ok(Within { outer, inner, firsts }),
            false => Err(Error::corrupt(format!("{} bytes for {keys} firsts", firsts.len()))),
        }
    }

    /// The ordinal of a document; some number if the file is damaged.
    #[inline(always)]
    pub(crate) fn get(&self, doc: usize) -> u32 {
        self.first(self.outer.get(doc)).wrapping_add(self.inner.get(doc))
    }

    #[inline(always)]
    fn first(&self, key: u32) -> u32 {
        u32_at(self.firsts, 4 * key as usize)
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.len()
    }

    /// Bits of the two columns.
    pub(crate) fn bits(&self) -> [usize; 2] {
        [self.outer.raw().1, self.inner.raw().1]
    }

    /// Keys of the outer field, and which of theirs, for the ordinals of some ranges, which ascend.
    pub(crate) fn parts(&self, ranges: &[(u32, u32)]) -> Vec<(Keys, Keys)> {
        let (mut parts, mut whole) = (Vec::<(Keys, Keys)>::new(), Keys::default());
        let mut last = None;
        let (mut key, keys) = (0, (self.firsts.len() / 4) as u32 - 1);
        for &(start, end) in ranges {
            while key < keys && self.first(key) < end {
                let (first, behind) = (self.first(key), self.first(key + 1));
                let (from, to) = (start.max(first), end.min(behind));
                if (from, to) == (first, behind) {
                    whole.insert(key, key + 1);
                } else if from < to {
                    if last.replace(key) != Some(key) {
                        let mut of = Keys::default();
                        of.insert(key, key + 1);
                        parts.push((of, Keys::default()));
                    }
                    if let Some((_, which)) = parts.last_mut() {
                        which.insert(from - first, to - first);
                    }
                }
                if behind > end {
                    break; // The next range may begin in this key.
                }
                key += 1;
            }
        }
        if !whole.is_empty() {
            let mut all = Keys::default();
            all.insert(0, 256);
            parts.push((whole, all));
        }
        parts
    }

    /// `scan::fill` for parts that [`Within::parts`] gave, or for all documents but theirs.
    pub(crate) fn fill(
        &self,
        (parts, others): (&[(Keys, Keys)], bool),
        first: usize,
        out: &mut [u64],
    ) {
        let (mut of, mut which) = ([0; scan::BLOCK], [0; scan::BLOCK]);
        let pass = scan::cost(self.bits()[1]);
        for (i, out) in out.chunks_mut(scan::BLOCK).enumerate() {
            let (first, words) = (first + i * scan::BLOCK, out.len());
            out.fill(0);
            for &(keys, own) in parts {
                let (of, which) = (&mut of[..words], &mut which[..words]);
                scan::fill_alone(self.outer, &Wanted::Keys(keys), first, of);
                if kernels::count(of) * LOOK < words as u64 * pass {
                    self.add_each(&own, first, of, out);
                    continue;
                }
                scan::fill_alone(self.inner, &Wanted::Keys(own), first, which);
                kernels::and(of, which);
                kernels::or(out, of);
            }
            if others {
                let ends = (0..).map(|word| self.len().saturating_sub(64 * (first + word)).min(64));
                let all = ends.map(|end| u64::MAX.checked_shr(64 - end as u32).unwrap_or(0));
                out.iter_mut().zip(all).for_each(|(word, all)| *word = !*word & all);
            }
        }
    }

    /// Adds those of some documents from word `first` on that have one of a key's own keys.
    fn add_each(&self, own: &Keys, first: usize, of: &[u64], out: &mut [u64]) {
        for (word, (&of, out)) in of.iter().zip(out).enumerate() {
            let mut rest = of;
            while rest != 0 {
                let doc = (first + word) * 64 + rest.trailing_zeros() as usize;
                *out |= own.bit(self.inner.get(doc)) << (doc % 64);
                rest &= rest - 1;
            }
        }
    }

    /// Checks the firsts, and that each document has one of the keys of its key.
    pub(crate) fn verify(&self, distinct: u32) -> Result<()> {
        let keys = (self.firsts.len() / 4) as u32 - 1;
        let ascend = (0..keys).all(|key| self.first(key) < self.first(key + 1));
        if !ascend || self.first(0) != 0 || self.first(keys) != distinct {
            return Err(Error::corrupt("its firsts do not divide its keys"));
        }
        for doc in 0..self.len() {
            let key = self.outer.get(doc);
            if key >= keys || self.get(doc) >= self.first(key + 1) {
                return Err(Error::corrupt(format!("document {doc} has no key of its outer key")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::codec::dictionary::Keys as DictionaryKeys;
    use crate::search::simd::kernels::tests::with_each_version;
    use crate::search::simd::scan::Scanned;
    use crate::search::testing::Rng;
    use crate::search::{Field, Roles, Type};

    fn data(ords: &[u32], distinct: u32) -> FieldData {
        let keys = DictionaryKeys::Fixed((0..u64::from(distinct)).collect());
        FieldData { keys, ordinals: Ordinals::Single(ords.to_vec()) }
    }

    fn chosen(fields: &[(&[u32], u32)]) -> Option<Inner> {
        let name = |i: usize| Field::new(format!("f{i}"), Type::U64, Roles::FILTERABLE);
        let mut named: Vec<Field> = (0..fields.len()).map(name).collect();
        named[0] = named[0].clone().scanned();
        let data: Vec<FieldData> = fields.iter().map(|(ords, keys)| data(ords, *keys)).collect();
        choose(&Schema::new(named).unwrap(), 0, |i| data.get(i))
    }

    #[test]
    fn the_field_that_leaves_the_fewest_bits_is_chosen() {
        let all: Vec<u32> = (0..4000).map(|i| i * 7 % 400).collect();
        let divided = |by: u32| -> Vec<u32> { all.iter().map(|ord| ord / by).collect() };
        let (tens, twenties, wide) = (divided(10), divided(20), divided(1));
        let backwards: Vec<u32> = twenties.iter().map(|ord| 19 - ord).collect();
        let mut torn = tens.clone();
        torn[1234] ^= 1;
        let mut missing = tens.clone();
        missing[7] = MISSING;
        let of = |others: &[(&[u32], u32)]| {
            let fields: Vec<_> = [(&all[..], 400)].into_iter().chain(others.to_vec()).collect();
            chosen(&fields).map(|inner| (inner.outer, inner.bits))
        };
        assert_eq!(of(&[(&twenties, 20), (&tens, 40)]), Some((2, 4)));
        assert_eq!(of(&[(&twenties, 20)]), Some((1, 5)));
        for others in [&backwards, &torn, &missing] {
            assert_eq!(of(&[(others, 40)]), None);
        }
        assert_eq!(of(&[(&wide, 400)]), None, "as many keys");
        assert_eq!(of(&[(&vec![0; 4000], 1)]), None, "that saves nothing");
    }

    #[test]
    fn documents_are_those_of_the_ordinals_one_by_one() {
        let (mut rng, mut taken) = (Rng(0x117), 0);
        for round in 0..200 {
            let sizes: Vec<u32> =
                (0..2 + rng.below(40)).map(|_| 1 + rng.below(20) as u32).collect();
            let keys: Vec<u32> =
                (0..).zip(&sizes).flat_map(|(key, size)| vec![key; *size as usize]).collect();
            let distinct = keys.len() as u32;
            let documents = keys.len() + [0, 1, 63, 64, 700, 5000][round % 6];
            let mut ords: Vec<u32> = (0..distinct).collect();
            ords.extend((keys.len()..documents).map(|_| rng.below(keys.len()) as u32));
            let outers: Vec<u32> = ords.iter().map(|ord| keys[*ord as usize]).collect();
            let Some(inner) = chosen(&[(&ords, distinct), (&outers, sizes.len() as u32)]) else {
                continue;
            };
            taken += 1;
            let bits = column_bits(sizes.len(), false);
            let mut outer = PackedWriter::new(bits);
            outers.iter().for_each(|key| outer.push(*key));
            let (outer, (column, firsts)) = (outer.finish(), inner.encode());
            let outer = Packed::new(&outer, bits, documents).unwrap();
            let column = Packed::new(&column, inner.bits, documents).unwrap();
            let within = Within::new(outer, column, (&firsts, sizes.len() as u32)).unwrap();
            within.verify(distinct).unwrap();
            let column = Scanned::Within(within);
            assert!((0..documents).all(|doc| column.get(doc) == ords[doc]));
            let intervals: Vec<(u32, u32)> = (0..rng.below([1, 3, 60][round % 3] + 1))
                .map(|_| {
                    let start = rng.below(keys.len()) as u32;
                    (start, distinct.min(start + 1 + rng.below(30) as u32))
                })
                .collect();
            let parts = Wanted::of(&intervals, &column);
            let many = Wanted::many(&scan::apart(&intervals), 32);
            for (wanted, is) in
                [(parts.others(), false), (parts, true), (many.others(), false), (many, true)]
            {
                let inside = |doc: usize| {
                    let in_one = intervals.iter().any(|(a, b)| (*a..*b).contains(&ords[doc]));
                    doc < documents && in_one == is
                };
                let words = documents.div_ceil(64) + 1;
                let first = rng.below(words);
                with_each_version(|version| {
                    let mut found = vec![!0; words];
                    scan::fill(column, &wanted, first, &mut found[first..]);
                    for doc in first * 64..words * 64 {
                        let has = found[doc / 64] >> (doc % 64) & 1 == 1;
                        let expected = doc < documents && inside(doc);
                        assert_eq!(has, expected, "{version}, round {round}, document {doc}");
                    }
                });
            }
        }
        assert!(taken > 100, "{taken} fields were within another");
    }
}
