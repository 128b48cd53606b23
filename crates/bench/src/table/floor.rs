//! The floor: one array of slots and one array of records, in memory; and a file of the records.
//!
//! It is not an engine: nothing is found through the file, nothing is checked or compressed, and no
//! memory is saved. It shows the cost of the two cache misses of a hash table and a record on this
//! machine, and the cost of writing the records once.

use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Engine, Handle, Key, Records, Store};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The floor probe as an engine.
pub struct Floor;

impl Engine for Floor {
    type Store = Arrays;

    fn version(&self) -> String {
        "bare arrays".into()
    }

    /// Writes every key and value once, sequentially: a lower bound for builds.
    fn build(&self, records: &Records, dir: &Path) -> Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create_new(dir.join("records"))?);
        records.each(|key, value| {
            out.write_all(key)?;
            Ok(out.write_all(value)?)
        })?;
        out.flush()?;
        Ok(out.get_ref().sync_all()?)
    }

    fn open(&self, records: &Records, _: &Path) -> Result<Arrays> {
        let places = (records.count * 2).next_power_of_two().max(2);
        let mut arrays =
            Arrays { slots: vec![0; places as usize], shift: 64 - places.ilog2(), data: vec![0] };
        records.each(|key, value| {
            let hash = hash(key);
            let mut slot = (hash >> arrays.shift) as usize;
            while arrays.slots[slot] != 0 {
                slot = (slot + 1) % arrays.slots.len();
            }
            arrays.slots[slot] = (hash & TAG) << OFFSET_BITS | arrays.data.len() as u64;
            arrays.data.extend_from_slice(key);
            arrays.data.extend_from_slice(&u32::try_from(value.len())?.to_le_bytes());
            arrays.data.extend_from_slice(value);
            Ok(())
        })?;
        Ok(arrays)
    }
}

/// Bits of a slot for the position of the record; the others are bits of the hash.
const OFFSET_BITS: u32 = 40;
const TAG: u64 = (1 << (64 - OFFSET_BITS)) - 1;

fn hash(key: &Key) -> u64 {
    let word = |at: usize| key[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let product = u128::from(word(0) ^ 0x9e37_79b9_7f4a_7c15)
        .wrapping_mul(u128::from(word(5) ^ 0xd6e8_feb8_6659_fd93));
    (product as u64) ^ (product >> 64) as u64
}

/// A slot is the position of a record with some bits of its hash; 0 is an empty slot.
pub struct Arrays {
    slots: Vec<u64>,
    shift: u32,
    data: Vec<u8>,
}

impl Store for Arrays {
    type Handle<'a> = &'a Arrays;

    fn handle(&self) -> Result<&Arrays> {
        Ok(self)
    }
}

impl Handle for &Arrays {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let hash = hash(key);
        let mut slot = (hash >> self.shift) as usize;
        loop {
            let entry = self.slots[slot];
            if entry == 0 {
                return Ok(false);
            }
            if entry >> OFFSET_BITS == hash & TAG {
                let record = &self.data[(entry & ((1 << OFFSET_BITS) - 1)) as usize..];
                let (stored, rest) = record.split_at(key.len());
                if stored == key {
                    let (length, rest) =
                        rest.split_first_chunk().ok_or("a record without length")?;
                    found(&rest[..u32::from_le_bytes(*length) as usize]);
                    return Ok(true);
                }
            }
            slot = (slot + 1) % self.slots.len();
        }
    }
}
