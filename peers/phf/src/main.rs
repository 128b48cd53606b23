//! The design of BSDB, in Rust, as a peer: a minimal perfect hash, an array of 8-byte addresses,
//! 4-bit signatures that reject 15 of 16 absent keys, and a file of records in blocks.
//!
//! BSDB (<https://github.com/yc-huang/bsdb>) itself runs on a JVM. Here PtrHash replaces its hash
//! function, and everything is mapped; the layout of records and addresses is BSDB's, in one
//! partition.
//!
//! The argument `zstd` compresses as BSDB's `-z` does by default: frames of 8 KiB of records, level
//! 6, a dictionary of 1 MiB trained on 50,000 values.

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
use zstd::bulk::Decompressor;
use zstd::dict::DecoderDictionary;

fn main() -> Result<()> {
    serve(&Phf { zstd: std::env::args().any(|argument| argument == "zstd") })
}

struct Phf {
    zstd: bool,
}

/// Keys are first hashed to 64 bits; a collision fails the build.
type Hash = DefaultPtrHash<NoHash, u64>;

/// Records do not cross block boundaries, unless they are longer than a block.
const BLOCK: u64 = 4096;
const HEAD: usize = 3;

/// The signature: four bits of the hash on which the slot hardly depends.
fn signature(hash: u64) -> u8 {
    (hash >> 20 & 15) as u8
}

impl Engine for Phf {
    type Store = Opened;

    fn version(&self) -> String {
        format!("the design of BSDB over ptr_hash 2.1{}", if self.zstd { ", zstd" } else { "" })
    }

    fn build(&self, records: &Records, dir: &Path) -> Result<()> {
        let (hashes, addresses) = match self.zstd {
            true => write_frames(records, dir)?,
            false => write_blocks(records, dir)?,
        };
        let hash = Hash::try_new(&hashes, PtrHashParams::default()).ok_or("no hash was found")?;
        let mut index = vec![0u64; hashes.len()];
        let mut signatures = vec![0u8; hashes.len().div_ceil(2)];
        for (&key, address) in hashes.iter().zip(addresses) {
            let slot = hash.index(&key);
            index[slot] = address;
            signatures[slot / 2] |= signature(key) << (slot % 2 * 4);
        }
        // SAFETY: the structure has no padding whose value matters to readers of the file.
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
            // SAFETY: the file was written by `build`, with the same type.
            hash: unsafe { Hash::deserialize_full(&mut hash)? },
            index: map(&dir.join("index.db"))?,
            data: map(&dir.join("kv.db"))?,
            dictionary: match self.zstd {
                true => Some(DecoderDictionary::copy(&std::fs::read(dir.join("shared_dict"))?)),
                false => None,
            },
            count: records.count as usize,
        })
    }
}

/// Hashes of keys and addresses of records.
type Written = (Vec<u64>, Vec<u64>);

fn push_record(key: &[u8], value: &[u8], out: &mut impl Write) -> Result<()> {
    out.write_all(&[key.len() as u8])?;
    out.write_all(&u16::try_from(value.len())?.to_be_bytes())?;
    out.write_all(key)?;
    Ok(out.write_all(value)?)
}

fn write_blocks(records: &Records, dir: &Path) -> Result<Written> {
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
        push_record(key, value, &mut data)?;
        hashes.push(xxh3_64(key));
        let pages = length.div_ceil(BLOCK);
        addresses.push(pages << 48 | (at / BLOCK) << 16 | at % BLOCK);
        at += length;
        Ok(())
    })?;
    data.flush()?;
    Ok((hashes, addresses))
}

const FRAME: usize = 8192;
const LEVEL: i32 = 6;

/// An address is the offset of the frame << 16 | the offset of the record in the frame.
fn write_frames(records: &Records, dir: &Path) -> Result<Written> {
    let (mut sample, mut lengths) = (Vec::new(), Vec::new());
    let first = Records { count: records.count.min(50_000), ..*records };
    first.each(|_, value| {
        sample.extend_from_slice(value);
        lengths.push(value.len());
        Ok(())
    })?;
    let dictionary = zstd::dict::from_continuous(&sample, &lengths, 1 << 20)?;
    std::fs::write(dir.join("shared_dict"), &dictionary)?;
    let mut zstd = zstd::bulk::Compressor::with_dictionary(LEVEL, &dictionary)?;
    let mut data = BufWriter::with_capacity(1 << 20, File::create_new(dir.join("kv.db"))?);
    let (mut hashes, mut addresses) = (Vec::new(), Vec::new());
    let (mut raw, mut at) = (Vec::new(), 0u64);
    let mut flush = |raw: &mut Vec<u8>, at: &mut u64| -> Result<()> {
        let frame = zstd.compress(raw)?;
        data.write_all(&u16::try_from(frame.len())?.to_be_bytes())?;
        data.write_all(&u16::try_from(raw.len())?.to_be_bytes())?;
        data.write_all(&[0; 4])?;
        data.write_all(&frame)?;
        *at += 8 + frame.len() as u64;
        raw.clear();
        Ok(())
    };
    records.each(|key, value| {
        if raw.len() + HEAD + key.len() + value.len() > FRAME && !raw.is_empty() {
            flush(&mut raw, &mut at)?;
        }
        hashes.push(xxh3_64(key));
        addresses.push(at << 16 | raw.len() as u64);
        push_record(key, value, &mut raw)
    })?;
    flush(&mut raw, &mut at)?;
    data.flush()?;
    Ok((hashes, addresses))
}

fn map(path: &Path) -> Result<Mmap> {
    // SAFETY: no process changes the file.
    let map = unsafe { Mmap::map(&File::open(path)?)? };
    map.advise(Advice::Random)?;
    Ok(map)
}

struct Opened {
    hash: Hash,
    index: Mmap,
    data: Mmap,
    dictionary: Option<DecoderDictionary<'static>>,
    count: usize,
}

/// State of a thread: the store, and a decompression buffer.
struct Reader<'a> {
    of: &'a Opened,
    zstd: Option<Decompressor<'a>>,
    raw: Vec<u8>,
}

impl Store for Opened {
    type Handle<'a> = Reader<'a>;

    fn handle(&self) -> Result<Reader<'_>> {
        let zstd = self.dictionary.as_ref().map(Decompressor::with_prepared_dictionary);
        Ok(Reader { of: self, zstd: zstd.transpose()?, raw: Vec::with_capacity(1 << 16) })
    }
}

impl Handle for Reader<'_> {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let hash = xxh3_64(key);
        let slot = self.of.hash.index(&hash);
        let (index, data) = (&self.of.index, &self.of.data);
        let signatures = &index[8 * self.of.count..];
        if signatures[slot / 2] >> (slot % 2 * 4) & 15 != signature(hash) {
            return Ok(false);
        }
        let address = u64::from_le_bytes(index[8 * slot..8 * slot + 8].try_into()?);
        let record = match &mut self.zstd {
            None => {
                let block = address >> 16 & u64::from(u32::MAX);
                &data[(block * BLOCK + (address & 0xffff)) as usize..]
            }
            Some(zstd) => {
                let frame = &data[(address >> 16) as usize..];
                let length = usize::from(u16::from_be_bytes([frame[0], frame[1]]));
                zstd.decompress_to_buffer(&frame[8..8 + length], &mut self.raw)?;
                &self.raw[(address & 0xffff) as usize..]
            }
        };
        let key_end = HEAD + usize::from(record[0]);
        if &record[HEAD..key_end] != key {
            return Ok(false);
        }
        let length = u16::from_be_bytes([record[1], record[2]]);
        found(&record[key_end..key_end + usize::from(length)]);
        Ok(true)
    }
}
