//! The fences of a table in key order: map a key to the only block that can hold it.
//!
//! The *fence* between two blocks is the shortest beginning of the first key of the second block
//! that is greater than the last key of the first block. The block of a key is therefore the number
//! of fences that are not greater than the key. Fences are in ascending order; in groups of 16,
//! each fence stores only what differs from the fence before it.
//!
//! ```text
//! OFFSET  SIZE  FIELD
//! 0       8 g   offset of each group, from the end of this array;
//!               g = (blocks - 1) / 16, rounded up
//! 8 g     ..    groups: 16 fences each, except the last
//!
//! FENCE   varint  bytes shared with the beginning of the fence before it;
//!                 0 for the first of a group
//!         varint  bytes that follow
//!         ..      the bytes that follow
//! ```
//!
//! A varint is LEB128. A fence of keys that do not have long common beginnings takes about 4 bytes.

use crate::bytes::int::{Encoder, u64_at};
use crate::bytes::varint::{beginning, put_varint, varint};
use crate::{Error, Result};

/// Fences of a group.
const GROUP: usize = 16;

/// Number of bytes at the beginning that two keys share.
#[inline]
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Collects the fences of blocks.
#[derive(Default)]
pub(crate) struct FenceWriter {
    blocks: u64,
    /// Last key of the last block.
    last_key: Vec<u8>,
    last_fence: Vec<u8>,
    groups: Encoder,
    fences: Vec<u8>,
}

impl FenceWriter {
    /// Adds the next block, by its first and its last key.
    pub(crate) fn push(&mut self, first: &[u8], last: &[u8]) {
        if let Some(before) = self.blocks.checked_sub(1) {
            let length = first.len().min(shared(&self.last_key, first) + 1);
            let fence = &first[..length];
            if before.is_multiple_of(GROUP as u64) {
                self.groups.u64(self.fences.len() as u64);
                self.last_fence.clear();
            }
            let same = shared(&self.last_fence, fence);
            put_varint(&mut self.fences, same);
            put_varint(&mut self.fences, length - same);
            self.fences.extend_from_slice(&fence[same..]);
            self.last_fence.truncate(same);
            self.last_fence.extend_from_slice(&fence[same..]);
        }
        self.blocks += 1;
        self.last_key.clear();
        self.last_key.extend_from_slice(last);
    }

    /// The section.
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut bytes = self.groups.0;
        bytes.extend_from_slice(&self.fences);
        bytes
    }
}

/// Fences in memory. Bounds are checked; the order of the fences is checked by `verify` only, as
/// checking it would read all of them.
pub(crate) struct Fences {
    bytes: Box<[u8]>,
    /// Number of fences.
    len: u64,
    /// Offset of the first group.
    start: usize,
    /// The bytes that all fences begin with.
    common: Box<[u8]>,
    /// The eight bytes after the common ones of the first fence of each group, as a number: a
    /// search touches few cache lines.
    heads: Box<[u64]>,
}

impl Fences {
    pub(crate) fn new(bytes: &[u8], blocks: u64) -> Result<Fences> {
        let len = blocks.saturating_sub(1);
        let groups = len.div_ceil(GROUP as u64);
        let wrong = || {
            let bytes = bytes.len();
            Error::corrupt(format!("the fences of {blocks} blocks do not have {bytes} bytes"))
        };
        // Each fence has at least two bytes.
        let least = groups.checked_mul(8).and_then(|n| n.checked_add(len.checked_mul(2)?));
        if least.is_none_or(|least| least > bytes.len() as u64) || (len == 0 && !bytes.is_empty()) {
            return Err(wrong());
        }
        let start = 8 * groups as usize;
        let mut fences = Fences {
            bytes: bytes.into(),
            len,
            start,
            common: Box::default(),
            heads: Box::default(),
        };
        let mut last = None;
        for group in 0..groups as usize {
            let offset = u64_at(bytes, 8 * group);
            if offset >= (bytes.len() - start) as u64 || last.is_some_and(|last| offset <= last) {
                return Err(wrong());
            }
            last = Some(offset);
        }
        if let Some(group) = (groups as usize).checked_sub(1) {
            let last = fences.last_fence(group);
            let first = fences.first_of(0);
            fences.common = first[..shared(first, &last)].into();
            let rest = |group| fences.first_of(group).get(fences.common.len()..).unwrap_or(&[]);
            fences.heads = (0..=group).map(|group| beginning(rest(group))).collect();
        }
        Ok(fences)
    }

    /// The bytes of the section.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len() + self.common.len() + size_of_val(&*self.heads)
    }

    /// Offset of a group.
    fn group(&self, group: usize) -> usize {
        self.start.saturating_add(u64_at(&self.bytes, 8 * group) as usize)
    }

    /// Fences of a group.
    fn len_of(&self, group: usize) -> usize {
        self.len.saturating_sub((group * GROUP) as u64).min(GROUP as u64) as usize
    }

    /// The fence at `at`: the bytes it shares with the one before it, and the rest. `None` if it is
    /// truncated.
    #[inline]
    fn decode(&self, at: &mut usize) -> Option<(usize, &[u8])> {
        let same = varint(&self.bytes, at)?;
        let len = varint(&self.bytes, at)?;
        let rest = self.bytes.get(*at..*at + len)?;
        *at += len;
        Some((same, rest))
    }

    /// The first fence of a group.
    fn first_of(&self, group: usize) -> &[u8] {
        self.decode(&mut self.group(group)).map_or(&[], |(_, rest)| rest)
    }

    /// The last fence of a group.
    fn last_fence(&self, group: usize) -> Vec<u8> {
        let (mut at, mut fence) = (self.group(group), Vec::new());
        for _ in 0..self.len_of(group) {
            let Some((same, rest)) = self.decode(&mut at) else { break };
            fence.truncate(same);
            fence.extend_from_slice(rest);
        }
        fence
    }

    /// The last block.
    pub(crate) fn last_block(&self) -> u64 {
        self.len
    }

    /// The block that can hold a key; some block if fences are out of order.
    pub(crate) fn find(&self, key: &[u8]) -> u64 {
        let Some(rest) = key.strip_prefix(&*self.common) else {
            return if key < &*self.common { 0 } else { self.len };
        };
        let wanted = beginning(rest);
        let mut low = self.heads.partition_point(|&head| head < wanted);
        let mut high = low + self.heads[low..].partition_point(|&head| head == wanted);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.first_of(middle) <= key { low = middle + 1 } else { high = middle }
        }
        match low.checked_sub(1) {
            Some(group) => (group * GROUP + self.count(group, key)) as u64,
            None => 0,
        }
    }

    /// Number of fences of a group that are not greater than a key.
    fn count(&self, group: usize, key: &[u8]) -> usize {
        // Bytes that the key shares with the fence before, which is not greater than the key.
        let (mut at, mut matched) = (self.group(group), 0);
        for i in 0..self.len_of(group) {
            let Some((same, rest)) = self.decode(&mut at) else { return i };
            if same > matched {
                continue; // It differs from the key where the fence before does.
            }
            let left = key.get(matched..).unwrap_or(&[]);
            let more = shared(rest, left);
            let is_greater = match (rest.get(more), left.get(more)) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(fence), Some(key)) => fence > key,
            };
            // With fewer shared bytes the fence exceeds the one before in a byte that the key
            // shares with that one.
            if same < matched || is_greater {
                return i;
            }
            matched += more;
        }
        self.len_of(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    fn encoded(blocks: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut writer = FenceWriter::default();
        blocks.iter().for_each(|(first, last)| writer.push(first, last));
        writer.finish()
    }

    #[test]
    fn fence_encoding() {
        let ends: [(&[u8], &[u8]); 4] =
            [(b"apple", b"melon"), (b"mint", b"mint"), (b"mist", b"olive"), (b"pea", b"plum")];
        #[rustfmt::skip]
        assert_eq!(encoded(&ends), [
            0, 0, 0, 0, 0, 0, 0, 0, // the only group begins here
            0, 2, b'm', b'i',       // "mi": greater than "melon", a beginning of "mint"
            2, 1, b's',             // "mis": two bytes of the fence before, one more
            0, 1, b'p',
        ]);
        assert!(encoded(&ends[..1]).is_empty());
    }

    #[test]
    fn finds_the_block_of_each_key() {
        let mut rng = Rng(91);
        for style in 0..6 {
            let mut keys: Vec<Vec<u8>> = (0..3000)
                .map(|_| {
                    let len = rng.below(12usize);
                    let key: Vec<u8> = match style {
                        0 => rng.fill(len),
                        1 => (0..len).map(|_| *rng.pick(&[0, 1, 255])).collect(),
                        2 => format!("user:{:08}", rng.below(10_000_000)).into_bytes(),
                        3 => [&[7; 300][..], &rng.fill(len)].concat(),
                        4 => vec![0; rng.below(2_000)],
                        _ => (0..len).map(|_| *rng.pick(b"ab")).collect(),
                    };
                    key
                })
                .collect();
            keys.sort();
            keys.dedup();
            let mut blocks: Vec<&[Vec<u8>]> = Vec::new();
            let mut left = &keys[..];
            while !left.is_empty() {
                let (block, rest) = left.split_at((1 + rng.below(5usize)).min(left.len()));
                blocks.push(block);
                left = rest;
            }
            let ends: Vec<(&[u8], &[u8])> =
                blocks.iter().map(|b| (&b[0][..], &b[b.len() - 1][..])).collect();
            let bytes = encoded(&ends);
            let fences = Fences::new(&bytes, blocks.len() as u64).unwrap();
            for (number, block) in blocks.iter().enumerate() {
                for key in *block {
                    assert_eq!(fences.find(key), number as u64, "style {style}, {key:?}");
                }
            }
            assert_eq!(fences.find(b""), 0);
            assert!(fences.find(&[255; 400]) < blocks.len() as u64);
            for cut in (0..bytes.len()).step_by(1 + bytes.len() / 200) {
                if let Ok(fences) = Fences::new(&bytes[..cut], blocks.len() as u64) {
                    assert!(keys.iter().all(|key| fences.find(key) < blocks.len() as u64));
                }
            }
            let mut damaged = bytes;
            for _ in 0..300 {
                let at = rng.below(damaged.len());
                damaged[at] ^= 1 << rng.below(8);
                if let Ok(fences) = Fences::new(&damaged, blocks.len() as u64) {
                    let all = keys.iter().step_by(37);
                    all.for_each(|key| assert!(fences.find(key) < blocks.len() as u64));
                }
            }
        }
    }
}
