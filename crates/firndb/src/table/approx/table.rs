//! An open approximate table.
//!
//! A lookup maps the key to a slot by the perfect hash function of its shard
//! (`ApproximateTable::slot`), which is in memory and takes a few bits per key; reads the block of
//! the slot (`Source::block`); and compares the fingerprint (`Slots::get`).

use crate::bytes::inspection::Verification;
use crate::bytes::int::u32_at;
use crate::bytes::prefetch::prefetch;
use crate::disk::envelope::{Envelope, Kind};
use crate::disk::{self, DiskRef};
use crate::table::approx::format::{
    ENTRY, FixedValue, Meta, Shard, Slots, hash_of, section, shard_number,
};
use crate::table::approx::mphf::{Hash, bucket, mix, slot};
use crate::table::format::block::check;
use crate::table::format::{PAGE, optional_section, required_section};
use crate::table::options::Access;
use crate::table::read::source::{Source, reopen};
use crate::{Error, Result};
use std::path::Path;

/// An open approximate table: a value of fixed width for each key, in little more space than the
/// values take. Keys are not stored. Any number of threads may share it; reads take no lock.
///
/// [`ApproximateTable::get`] returns the value of every key that was added. For a key that was not
/// added it returns `None` with probability 1 - 2^-r, where r is the number of bits of a
/// fingerprint
/// ([`ApproximateOptions::fingerprint_bits`](crate::table::ApproximateOptions::fingerprint_bits)),
/// and the value of another key otherwise.
///
/// ```
/// use firndb::table::{ApproximateBuilder, ApproximateOptions, ApproximateTable};
/// # let path = std::env::temp_dir().join(format!("firndb-doc-approx-{}", std::process::id()));
///
/// // Values of 2 bytes; 1 in 256 keys that were not added is found nevertheless.
/// let options = ApproximateOptions::new().value_width(2).fingerprint_bits(8);
/// let mut builder = ApproximateBuilder::create_with(&path, options)?;
/// for n in 0..1000u16 {
///     builder.add(format!("user {n}"), n.to_le_bytes())?;
/// }
/// builder.finish()?;
///
/// let table = ApproximateTable::open(&path)?;
/// let value = table.get("user 7")?.expect("a key that was added is found");
/// assert_eq!(&*value, &7u16.to_le_bytes());
/// # let _ = std::fs::remove_file(&path);
/// # Ok::<(), firndb::Error>(())
/// ```
pub struct ApproximateTable {
    pub(crate) file: Envelope,
    meta: Meta,
    slots: Slots,
    /// Numbers of the sections of shards, pilots and remapped slots.
    sections: [usize; 3],
    /// Copies of these sections, unless they are mapped.
    copied: Option<[Box<[u8]>; 3]>,
    source: Source,
    /// Offset of the blocks in the file.
    start: u64,
    /// Bytes of these sections.
    hash_bytes: u64,
}

/// Counts, sizes and options of an approximate table. Sizes are in bytes unless stated otherwise.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ApproximateStats {
    /// Number of records.
    pub records: u64,
    /// Number of shards, each with its own perfect hash function.
    pub shards: u64,
    /// Bytes of a value.
    pub value_width: u64,
    /// Bits of a fingerprint.
    pub fingerprint_bits: u32,
    /// Probability that an absent key is found.
    pub false_positives: f64,
    /// The perfect hash functions: about 2.7 bits per record.
    pub hash_bytes: u64,
    /// Fingerprints and values.
    pub slot_bytes: u64,
    /// The file.
    pub file_bytes: u64,
    /// Memory that the open table uses, without mapped pages.
    pub memory_bytes: u64,
    /// Seed of the hash of keys: 0, unless keys were crafted to have equal hashes.
    pub seed: u64,
}

/// Keys looked up together in memory.
const GROUP: usize = 32;
/// Most concurrent reads.
const DEPTH: usize = 32;

/// The sections that map a key to its slot.
#[derive(Clone, Copy)]
struct HashSections<'a> {
    shards: &'a [u8],
    pilots: &'a [u8],
    remapped: &'a [u8],
}

/// Ids of the sections of [`HashSections`], in order.
const HASH_SECTIONS: [u32; 3] = [section::SHARDS, section::PILOTS, section::REMAPPED];

impl ApproximateTable {
    /// Opens a table, mapped into memory ([`Access::Map`]). Errors: as
    /// [`ApproximateTable::open_with`].
    pub fn open(path: impl AsRef<Path>) -> Result<ApproximateTable> {
        ApproximateTable::open_with(path, Access::default())
    }

    /// Opens a table. Reads only its small sections with [`Access::Map`]; otherwise loads the
    /// perfect hash functions, and with [`Access::Resident`] also the slots.
    pub fn open_with(path: impl AsRef<Path>, access: Access) -> Result<ApproximateTable> {
        ApproximateTable::open_on(&disk::os(), path.as_ref(), access)
    }

    pub(crate) fn open_on(disk: &DiskRef, path: &Path, access: Access) -> Result<ApproximateTable> {
        reopen(path, || {
            let file = Envelope::open(disk.map(path)?, path, Kind::ApproximateTable)?;
            ApproximateTable::parse(disk, file, access).map_err(|e| e.in_file(path))
        })
    }

    /// `None` if the path names another file since `file` was mapped.
    fn parse(disk: &DiskRef, file: Envelope, access: Access) -> Result<Option<ApproximateTable>> {
        let meta = Meta::decode(required_section(&file, section::META)?)?;
        let number = |id: u32| {
            file.find(id).ok_or_else(|| Error::corrupt(format!("the table has no section {id}")))
        };
        let sections =
            [number(HASH_SECTIONS[0])?, number(HASH_SECTIONS[1])?, number(HASH_SECTIONS[2])?];
        let slots = file.entry(number(section::SLOTS)?);
        let (start, len, shards) = (slots.offset, slots.len, file.entry(sections[0]).len);
        let entries = meta.shards.checked_add(1).and_then(|n| n.checked_mul(ENTRY as u64));
        let fits = meta.blocks().checked_mul(PAGE as u64) == Some(len) && entries == Some(shards);
        if !fits || !start.is_multiple_of(PAGE as u64) {
            return Err(Error::corrupt(format!(
                "{} records in {} shards do not have {len} bytes from {start} on, and {shards}",
                meta.records, meta.shards
            )));
        }
        let hash_bytes = sections.iter().map(|&i| file.entry(i).len).sum();
        let copied = match access {
            Access::Map => None,
            _ => {
                let copy = |id| required_section(&file, id).map(Box::from);
                Some([copy(HASH_SECTIONS[0])?, copy(HASH_SECTIONS[1])?, copy(HASH_SECTIONS[2])?])
            }
        };
        let Some(source) = Source::open(disk, &file, (start, len), meta.blocks(), access)? else {
            return Ok(None);
        };
        let slots = meta.slots();
        let table =
            ApproximateTable { file, meta, slots, sections, copied, source, start, hash_bytes };
        if table.source.is_resident() {
            (0..meta.blocks()).try_for_each(|number| {
                let block = table.source.memory(table.extent(number))?;
                check(block, number).map_err(|e| e.at(table.extent(number).0))
            })?;
        }
        Ok(Some(table))
    }

    /// The hash of a key.
    #[inline(always)]
    fn hash(&self, key: &[u8]) -> Hash {
        hash_of(key, self.meta.seed)
    }

    /// The sections that map a key to its slot. Mapped sections are checked when they are first
    /// used.
    #[inline(always)]
    fn index(&self) -> Result<HashSections<'_>> {
        if let Some([shards, pilots, remapped]) = &self.copied {
            return Ok(HashSections { shards, pilots, remapped });
        }
        let [shards, pilots, remapped] = self.sections;
        Ok(HashSections {
            shards: self.file.section(shards)?,
            pilots: self.file.section(pilots)?,
            remapped: self.file.section(remapped)?,
        })
    }

    #[inline(always)]
    fn extent(&self, block: u64) -> (u64, usize) {
        (self.start + block * PAGE as u64, PAGE)
    }

    #[cold]
    fn block_error(&self, error: Error, block: u64) -> Error {
        error.at(self.extent(block).0).in_file(self.file.path())
    }

    /// The slot that a key has if it was added; `None` if its shard is empty.
    #[inline(always)]
    fn slot(
        &self,
        index: HashSections,
        hash: Hash,
        (x, bucket, ends): BucketRef,
    ) -> Result<Option<u64>> {
        let (first, end) = ends;
        let records = end.records.wrapping_sub(first.records);
        let slots = records.wrapping_add(end.remapped.wrapping_sub(first.remapped));
        if records == 0 {
            return Ok(None);
        }
        let pilot = index.pilots.get(first.buckets.wrapping_add(bucket) as usize);
        let mut slot = slot(x, pilot.copied().unwrap_or(0), slots);
        if slot >= records {
            let i = first.remapped.wrapping_add(slot - records);
            slot = u64::from(u32_at(index.remapped, (i as usize & usize::MAX >> 3) * 4));
        }
        let slot = first.records.wrapping_add(slot);
        if slot >= self.meta.records {
            let shard = shard_number(hash.high, self.meta.shards);
            let message = format!("shard {shard} has an invalid slot {slot}");
            return Err(Error::corrupt(message).in_file(self.file.path()));
        }
        Ok(Some(slot))
    }

    /// The bucket and the shard of a key.
    #[inline(always)]
    fn bucket(&self, index: HashSections, hash: Hash) -> BucketRef {
        let shard = shard_number(hash.high, self.meta.shards);
        let first = Shard::read(index.shards, shard);
        let end = Shard::read(index.shards, shard + 1);
        let x = mix(hash, first.seed);
        (x, bucket(x, end.buckets.wrapping_sub(first.buckets)), (first, end))
    }

    /// The value of a key that was added. For any other key `None`, or with probability 2^-r the
    /// value of another key. Errors: `Corrupt` if what was read is damaged; `Io`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<FixedValue>> {
        let (index, hash) = (self.index()?, self.hash(key.as_ref()));
        let Some(slot) = self.slot(index, hash, self.bucket(index, hash))? else { return Ok(None) };
        self.value(slot, hash)
    }

    #[inline(always)]
    fn value(&self, slot: u64, hash: Hash) -> Result<Option<FixedValue>> {
        let (number, bit) = self.slots.locate(slot);
        if self.source.in_memory() {
            // Reading the bit that the block was checked is another cache miss; start this one
            // first.
            let block = self.source.memory(self.extent(number));
            prefetch(block?.get(bit / 8..).unwrap_or(&[]), 1);
        }
        let block = self.source.block(number, self.extent(number), 0);
        let block = block.map_err(|e| self.block_error(e, number))?;
        Ok(self.slots.get(&block, bit, hash.high))
    }

    /// Whether [`ApproximateTable::get`] returns a value.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.get(key).map(|value| value.is_some())
    }

    /// The values of many keys, in the order of the keys. Equal to calling
    /// [`ApproximateTable::get`] for each key, but cache misses or reads overlap.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<FixedValue>>> {
        let index = self.index()?;
        let mut slots = Vec::with_capacity(keys.len());
        for group in keys.chunks(GROUP) {
            let mut known = [None; GROUP];
            for (known, key) in known.iter_mut().zip(group) {
                let hash = self.hash(key.as_ref());
                let bucket = self.bucket(index, hash);
                let at = bucket.2.0.buckets.wrapping_add(bucket.1) as usize;
                prefetch(index.pilots.get(at..).unwrap_or(&[]), 1);
                *known = Some((hash, bucket));
            }
            for (hash, bucket) in known.into_iter().flatten() {
                let slot = self.slot(index, hash, bucket)?;
                if let Some(slot) = slot
                    && self.source.in_memory()
                {
                    let (number, bit) = self.slots.locate(slot);
                    let block = self.source.memory(self.extent(number))?;
                    prefetch(block.get(bit / 8..).unwrap_or(&[]), 2);
                }
                slots.push((slot, hash));
            }
        }
        match self.source.direct() {
            Some(file) => self.read_many(file, &slots),
            None => {
                let value = |(slot, hash): (Option<u64>, Hash)| match slot {
                    Some(slot) => self.value(slot, hash),
                    None => Ok(None),
                };
                slots.into_iter().map(value).collect()
            }
        }
    }

    /// Reads each block once, with concurrent reads.
    fn read_many(
        &self,
        file: &disk::Direct,
        slots: &[(Option<u64>, Hash)],
    ) -> Result<Vec<Option<FixedValue>>> {
        let mut values = vec![None; slots.len()];
        let place = |(i, (slot, hash)): (usize, &(Option<u64>, Hash))| {
            let (block, bit) = self.slots.locate((*slot)?);
            Some((block, bit, i, hash.high))
        };
        let mut wanted: Vec<_> = slots.iter().enumerate().filter_map(place).collect();
        wanted.sort_unstable();
        let groups = wanted.chunk_by(|a, b| a.0 == b.0);
        let blocks = groups.map(|group| Ok((self.extent(group[0].0), group)));
        file.read_many(blocks, DEPTH, |group, block| {
            let number = group[0].0;
            check(block, number).map_err(|e| self.block_error(e, number))?;
            for &(_, bit, i, high) in group {
                values[i] = self.slots.get(block, bit, high);
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// The file, if it is read with `O_DIRECT`.
    #[cfg(test)]
    pub(crate) fn direct(&self) -> Option<&disk::Direct> {
        self.source.direct()
    }

    /// Verifies the checksums of the perfect hash functions, so that no lookup has to. Reads about
    /// 2.7 bits per record, unless that has been done. Errors: `Corrupt`.
    pub fn warm(&self) -> Result<()> {
        self.index().map(drop)
    }

    /// Number of records.
    pub fn len(&self) -> u64 {
        self.meta.records
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.meta.records == 0
    }

    /// Counts, sizes and options of the table.
    pub fn stats(&self) -> ApproximateStats {
        let copied = self.copied.iter().flatten().map(|bytes| bytes.len()).sum::<usize>();
        ApproximateStats {
            records: self.meta.records,
            shards: self.meta.shards,
            value_width: u64::from(self.meta.width),
            fingerprint_bits: self.meta.fingerprint,
            false_positives: 0.5f64.powi(self.meta.fingerprint as i32),
            hash_bytes: self.hash_bytes,
            slot_bytes: self.meta.blocks() * PAGE as u64,
            file_bytes: self.file.len(),
            memory_bytes: (copied + self.source.bytes()) as u64,
            seed: self.meta.seed,
        }
    }

    /// The metadata given to the build.
    pub fn metadata(&self) -> Result<&[u8]> {
        Ok(optional_section(&self.file, section::METADATA)?.unwrap_or(&[]))
    }

    /// Checks every byte of the file, and that each shard maps keys to its own slots. Takes time
    /// proportional to the file.
    pub fn verify(&self) -> Result<Verification> {
        self.file.verify()?;
        for number in 0..self.meta.blocks() {
            let block = self.source.block(number, self.extent(number), 0);
            block
                .and_then(|block| check(&block, number))
                .map_err(|e| self.block_error(e, number))?;
        }
        self.verify_shards().map_err(|e| e.in_file(self.file.path()))?;
        Ok(Verification { files: 1, bytes: self.file.len(), records: self.meta.records })
    }

    fn verify_shards(&self) -> Result<()> {
        let index = self.index()?;
        let entry = |shard: u64| Shard::read(index.shards, shard);
        let ends = (entry(0), entry(self.meta.shards));
        let lengths = (index.pilots.len() as u64, index.remapped.len() as u64);
        let whole = ends.1.records == self.meta.records
            && ends.1.buckets == lengths.0
            && ends.1.remapped.checked_mul(4) == Some(lengths.1)
            && (ends.0.records, ends.0.buckets, ends.0.remapped) == (0, 0, 0);
        if !whole {
            return Err(Error::corrupt("the shards do not have the sizes that the table states"));
        }
        for shard in 0..self.meta.shards {
            let (first, end) = (entry(shard), entry(shard + 1));
            let records = end.records.wrapping_sub(first.records);
            let ordered = first.records <= end.records
                && first.buckets <= end.buckets
                && (first.remapped..=ends.1.remapped).contains(&end.remapped)
                && (records == 0 || first.buckets < end.buckets);
            let mut sent = first.remapped..end.remapped;
            let own = |i: u64| u64::from(u32_at(index.remapped, 4 * i as usize)) < records;
            if !ordered || !sent.all(own) {
                return Err(Error::corrupt(format!("shard {shard} is invalid")));
            }
        }
        Ok(())
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

/// The number derived from a key, its bucket in its shard, and the entries of the shard and of the
/// next.
type BucketRef = (u64, u64, (Shard, Shard));
