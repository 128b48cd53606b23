//! Facets: how many matches have each value of a field.
//!
//! Each partition counts by ordinal; ordinals become keys once a partition is done, and partitions are joined by
//! key. Few matches are counted one by one through the column, many through the postings, bitset by bitset where
//! there are bitsets; if everything matches the prefix sums say it.

use super::execute::{Executor, Sink};
use super::intern::KeyMap;
use super::kernels;
use super::partition::Partition;
use super::postings::Cursor;
use super::value::Key;
use crate::Result;
use std::ops::ControlFlow;

/// Counts by key over all partitions.
pub(crate) struct Counts {
    pub(crate) by_key: KeyMap<Key, u64>,
    /// Matches without a value.
    pub(crate) missing: u64,
}

/// Counts the matches of each value of each of some fields (numbers in the reader's schema).
pub(crate) fn counts(executor: &mut Executor, fields: &[usize]) -> Result<Vec<Counts>> {
    let new = || Counts { by_key: KeyMap::default(), missing: 0 };
    let mut all: Vec<Counts> = fields.iter().map(|_| new()).collect();
    let set = executor.set;
    for p in 0..set.partitions.len() {
        if executor.pruned(p) {
            executor.stats.pruned += 1;
            continue;
        }
        let part = &*set.partitions[p];
        let mut matches = Matches { bits: vec![0; part.words()] };
        let _ = executor.run(p, Vec::new(), &mut matches)?;
        let total = kernels::count(&matches.bits);
        if total == 0 {
            continue;
        }
        for (&field, counts) in fields.iter().zip(&mut all) {
            match set.local(p, field) {
                None => counts.missing += total,
                Some(field) => count_field(part, field, &matches.bits, total, counts)?,
            }
        }
    }
    Ok(all)
}

/// The matches of a partition as a bitset.
struct Matches {
    bits: Vec<u64>,
}

impl Sink for Matches {
    fn ascending(&self) -> bool {
        false
    }

    fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>> {
        for &doc in docs {
            if let Some(word) = self.bits.get_mut(doc as usize / 64) {
                *word |= 1 << (doc % 64);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn words(&mut self, first: u32, words: &[u64]) -> Result<ControlFlow<()>> {
        let start = first as usize / 64;
        self.bits[start..start + words.len()].copy_from_slice(words);
        Ok(ControlFlow::Continue(()))
    }
}

fn count_field(
    part: &Partition,
    field: usize,
    bits: &[u64],
    total: u64,
    counts: &mut Counts,
) -> Result<()> {
    let meta = part.meta(field);
    let distinct = meta.distinct;
    let multi = part.schema.fields[field].multi;
    let everything = total == u64::from(part.documents);
    let column = if multi { None } else { part.column(field)? };
    let (mut by_ord, mut with_value) = (vec![0u64; distinct as usize + 1], 0);
    if everything {
        let sums = part.sums(field)?;
        for ord in 0..distinct as usize {
            by_ord[ord] = sums.get(ord + 1).wrapping_sub(sums.get(ord));
        }
        with_value = u64::from(meta.present);
    } else if let Some(column) =
        column.filter(|_| total < u64::from(distinct) * part.words() as u64 / 8)
    {
        each_set(bits, |doc| {
            let ord = column.get(doc).min(distinct);
            by_ord[ord as usize] += 1;
        });
        with_value = total - by_ord[distinct as usize];
    } else {
        let mut seen = if multi { vec![0u64; bits.len()] } else { Vec::new() };
        let postings = part.postings(field)?;
        let mut docs = Vec::new();
        for ord in 0..distinct {
            let pieces = postings.pieces(ord, ord + 1);
            if let (Some(mapped), false) = (postings.bitset(&pieces), multi) {
                by_ord[ord as usize] = kernels::count_and(bits, mapped);
                with_value += by_ord[ord as usize];
                continue;
            }
            let mut cursor = Cursor::new(pieces);
            while cursor.next(&postings, &mut docs) {
                for &doc in &docs {
                    let word = doc as usize / 64;
                    let bit = bits.get(word).copied().unwrap_or(0) >> (doc % 64) & 1;
                    by_ord[ord as usize] += bit;
                    if let Some(seen) = seen.get_mut(word) {
                        *seen |= bit << (doc % 64);
                    } else {
                        with_value += bit;
                    }
                }
            }
        }
        with_value += kernels::count(&seen);
    }
    counts.missing += total.saturating_sub(with_value);
    let dictionary = part.dictionary(field)?;
    for ord in (0..distinct).filter(|&ord| by_ord[ord as usize] > 0) {
        let count = counts.by_key.entry(dictionary.key(ord)).or_insert(0);
        *count = count.saturating_add(by_ord[ord as usize]);
    }
    Ok(())
}

fn each_set(bits: &[u64], mut each: impl FnMut(u32)) {
    for (i, &word) in bits.iter().enumerate() {
        let mut word = word;
        while word != 0 {
            each(i as u32 * 64 + word.trailing_zeros());
            word &= word - 1;
        }
    }
}
