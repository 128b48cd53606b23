//! The design of BSDB, in Rust, as a peer: a minimal perfect hash, an array of 8-byte addresses,
//! signatures of 4 bits that turn 15 of 16 absent keys away, and a file of records in blocks.
//!
//! BSDB (<https://github.com/yc-huang/bsdb>) itself runs on a JVM. Here PtrHash takes the place of
//! its hash function, and everything is mapped; layout of records and addresses are BSDB's, in one
//! partition.

use epserde::prelude::{Deserialize, Serialize};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Engine, Handle, Key, Records, Store, serve};
use memmap2::{Advice, Mmap};
use ptr_hash::hash::NoHash;
use ptr_hash::{DefaultPtrHash, PtrHashParams};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

fn main() -> Result<()> {
    serve(&Phf)
}

struct Phf;

/// Keys are hashed to 64 bits before; two that collide fail the build.
type Hash = DefaultPtrHash<NoHash, u64>;

/// Records do not cross the border of a block, unless they are longer.
const BLOCK: u64 = 4096;
const HEAD: usize = 3;

/// The four bits that are kept of a hash: some that the slot does not depend on much.
fn signature(hash: u64) -> u8 {
    (hash >> 20 & 15) as u8
}

impl Engine for Phf {
    type Store = Opened;

    fn version(&self) -> String {
        "the design of BSDB over ptr_hash 2.1".into()
    }

    fn build(&self, records: &Records, dir: &Path) -> Result<()> {
        let (mut hashes, mut addresses) = (Vec::new(), Vec::new());
        let mut data = BufWriter::with_capacity(1 << 20, File::create_new(dir.join("kv.db"))?);
        let mut at = 0u64;
        let zeros = [0u8; BLOCK as usize];
        records.each(|key, value| {
            let length = (HEAD + key.len() + value.len()) as u64;
            let room = BLOCK - at % BLOCK;
            if length > room && room < BLOCK {
                data.write_all(&zeros[..room as usize])?;
                at += room;
            }
            data.write_all(&[key.len() as u8])?;
            data.write_all(&u16::try_from(value.len())?.to_be_bytes())?;
            data.write_all(key)?;
            data.write_all(value)?;
            hashes.push(xxh3_64(key));
            let pages = length.div_ceil(BLOCK);
            addresses.push(pages << 48 | (at / BLOCK) << 16 | at % BLOCK);
            at += length;
            Ok(())
        })?;
        data.flush()?;
        let hash = Hash::try_new(&hashes, PtrHashParams::default()).ok_or("no hash was found")?;
        let mut index = vec![0u64; hashes.len()];
        let mut signatures = vec![0u8; hashes.len().div_ceil(2)];
        for (&key, address) in hashes.iter().zip(addresses) {
            let slot = hash.index(&key);
            index[slot] = address;
            signatures[slot / 2] |= signature(key) << (slot % 2 * 4);
        }
        // SAFETY: the structure has no padding that matters to whoever reads the file.
        unsafe { hash.serialize(&mut File::create_new(dir.join("hash.db"))?)? };
        let mut out = BufWriter::with_capacity(1 << 20, File::create_new(dir.join("index.db"))?);
        index.iter().try_for_each(|address| out.write_all(&address.to_le_bytes()))?;
        out.write_all(&signatures)?;
        out.flush()?;
        Ok(())
    }

    fn open(&self, records: &Records, dir: &Path) -> Result<Opened> {
        let mut hash = BufReader::new(File::open(dir.join("hash.db"))?);
        Ok(Opened {
            // SAFETY: the file was made by `build`, with the same type.
            hash: unsafe { Hash::deserialize_full(&mut hash)? },
            index: map(&dir.join("index.db"))?,
            data: map(&dir.join("kv.db"))?,
            count: records.count as usize,
        })
    }
}

fn map(path: &Path) -> Result<Mmap> {
    // SAFETY: nobody changes the file.
    let map = unsafe { Mmap::map(&File::open(path)?)? };
    map.advise(Advice::Random)?;
    Ok(map)
}

struct Opened {
    hash: Hash,
    index: Mmap,
    data: Mmap,
    count: usize,
}

impl Store for Opened {
    type Handle<'a> = &'a Opened;

    fn handle(&self) -> Result<&Opened> {
        Ok(self)
    }
}

impl Handle for &Opened {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let hash = xxh3_64(key);
        let slot = self.hash.index(&hash);
        let signatures = &self.index[8 * self.count..];
        if signatures[slot / 2] >> (slot % 2 * 4) & 15 != signature(hash) {
            return Ok(false);
        }
        let address = u64::from_le_bytes(self.index[8 * slot..8 * slot + 8].try_into()?);
        let at = ((address >> 16 & u64::from(u32::MAX)) * BLOCK + (address & 0xffff)) as usize;
        let record = &self.data[at..];
        let key_end = HEAD + usize::from(record[0]);
        if &record[HEAD..key_end] != key {
            return Ok(false);
        }
        let length = u16::from_be_bytes([record[1], record[2]]);
        found(&record[key_end..key_end + usize::from(length)]);
        Ok(true)
    }
}
