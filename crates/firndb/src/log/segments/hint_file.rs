//! Hint files: for each sealed segment, which keys it has records of, by hash.
//!
//! A hint is a frozen file of kind 4 called `segment-<20 digits>.hint`. It is published after the
//! segment and all before it are durable, so its name alone says that damage in them is damage and
//! not a torn write. It fills the index without reading the records, and tells compaction whether
//! an older version of a deleted key may lie in the segment.
//!
//! ```text
//! SECTION 1  u64 store, u64 segment, u64 end of its records, u64 bytes of puts, u64 of deletes
//! SECTION 2  puts: entries of the high 38 bits of the key's hash and the offset in granules
//! SECTION 3  deletes: the same
//! ```
//! Entries are sorted and take about six bytes each: see `entries.rs`.

use crate::bytes::frozen::{Frozen, FrozenWriter, Kind as FileKind};
use crate::bytes::int::{Decoder, Encoder};
use crate::disk::Disk;
use crate::log::format::hint_entries::{self as entries, Entries};
use crate::log::format::record::{self as format, Kind};
use crate::log::maintenance::threads::Stretches;
use crate::log::open::store::Shared;
use crate::log::options::Access;
use crate::log::segments::segment::Segment;
use crate::{Error, Result};
use std::path::Path;

const META: u32 = 1;
const PUTS: u32 = 2;
const DELETES: u32 = 3;
/// Bits of a hash in a hint.
pub(crate) const HASH_BITS: u32 = 38;

const PREFIX: &str = "segment-";
const SUFFIX: &str = ".hint";

/// The file of the hint of segment `number`.
pub(crate) fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:020}{SUFFIX}")
}

/// The number of a hint's segment; `None` for any other name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// The high bits of a hash that hints keep.
pub(crate) fn bits_of(hash: u64) -> u64 {
    hash >> (64 - HASH_BITS)
}

/// An open hint.
pub(crate) struct Hint {
    file: Frozen,
    /// Where [`Hint::may_hold`] begins to look.
    samples: Vec<u32>,
    pub(crate) end: u64,
    pub(crate) put_bytes: u64,
    pub(crate) delete_bytes: u64,
}

impl Hint {
    /// Opens the hint of a segment and checks all of it.
    pub(crate) fn open(
        disk: &dyn Disk,
        access: Access,
        dir: &Path,
        store: u64,
        number: u64,
    ) -> Result<Hint> {
        let path = dir.join(file_name(number));
        let file = access.open(disk, &path, FileKind::LogHint)?;
        let mut hint = Self::parse(file, store, number).map_err(|e| e.in_file(&path))?;
        hint.deletes()?;
        hint.samples = hint.puts()?.samples();
        Ok(hint)
    }

    fn parse(file: Frozen, store: u64, number: u64) -> Result<Hint> {
        let mut meta = Decoder::new(section(&file, META)?);
        let (its_store, its_number) = (meta.u64()?, meta.u64()?);
        if (its_store, its_number) != (store, number) {
            let message = format!("this is the hint of segment {its_number} of another store");
            return Err(Error::corrupt(message));
        }
        let (end, put_bytes, delete_bytes) = (meta.u64()?, meta.u64()?, meta.u64()?);
        meta.finish()?;
        // Sums over segments then fit, too: the end is compared with that of the segment.
        if put_bytes.checked_add(delete_bytes).is_none_or(|bytes| bytes > end) {
            let message = format!("{put_bytes} and {delete_bytes} bytes of records in {end} bytes");
            return Err(Error::corrupt(message));
        }
        Ok(Hint { file, samples: Vec::new(), end, put_bytes, delete_bytes })
    }

    /// Entries of all puts.
    pub(crate) fn puts(&self) -> Result<Entries<'_>> {
        Entries::new(section(&self.file, PUTS)?).map_err(|e| e.in_file(self.file.path()))
    }

    /// Entries of all deletes.
    pub(crate) fn deletes(&self) -> Result<Entries<'_>> {
        Entries::new(section(&self.file, DELETES)?).map_err(|e| e.in_file(self.file.path()))
    }

    /// Whether the segment may hold a value of a key with this hash.
    pub(crate) fn may_hold(&self, hash: u64) -> Result<bool> {
        Ok(self.puts()?.has(bits_of(hash), &self.samples))
    }
}

fn section(file: &Frozen, id: u32) -> Result<&[u8]> {
    let at = file.find(id).ok_or_else(|| Error::corrupt(format!("section {id} is missing")))?;
    file.section(at)
}

impl Shared {
    /// Writes the hint of a segment, all of which is durable, and opens it.
    pub(crate) fn write_hint(&self, segment: &Segment) -> Result<Hint> {
        let (mut puts, mut deletes) = (Vec::new(), Vec::new());
        let (mut put_bytes, mut delete_bytes) = (0, 0);
        let mut stretches = Stretches::of(self);
        for item in segment.records(&segment.contents()?) {
            let (offset, record, length) = item?;
            stretches.went_through(length);
            let entry = |key: &[u8]| {
                let hash = format::hash_of_key(key, self.id);
                (bits_of(hash), (offset >> segment.alignment_log2) as u32)
            };
            match record.kind {
                Kind::Put => {
                    puts.push(entry(record.key));
                    put_bytes += length;
                }
                Kind::Delete => {
                    deletes.push(entry(record.key));
                    delete_bytes += length;
                }
                Kind::Link | Kind::Removed => {}
            }
        }
        for entries in [&mut puts, &mut deletes] {
            self.give_way();
            entries.sort_unstable();
        }
        self.give_way();
        let mut meta = Encoder::default();
        let facts = [self.id, segment.number, segment.end(), put_bytes, delete_bytes];
        facts.into_iter().for_each(|v| meta.u64(v));
        // The next sync of the directory makes its name durable: until then it saves no time.
        self.stage(&file_name(segment.number), |out| {
            let mut w = FrozenWriter::new(out, FileKind::LogHint)?;
            w.section(META, &meta.0)?;
            for (id, entries) in [(PUTS, &puts), (DELETES, &deletes)] {
                w.section(id, &entries::encode(entries))?;
            }
            w.finish().map(|_| ())
        })?;
        Hint::open(&*self.disk, self.options.access, &self.dir, self.id, segment.number)
    }
}

/// Records of a segment one after the other: offset, record, length.
pub(crate) struct Records<'a> {
    segment: &'a Segment,
    bytes: &'a [u8],
    at: u64,
    is_over: bool,
}

impl Segment {
    /// All records of its contents, each checked; the first that is damaged ends it with an error.
    pub(crate) fn records<'a>(&'a self, bytes: &'a [u8]) -> Records<'a> {
        self.expect_all();
        Records { segment: self, bytes, at: format::HEADER as u64, is_over: false }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(u64, format::Record<'a>, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.segment.align(self.at);
        if self.is_over || self.at >= self.bytes.len() as u64 {
            return None;
        }
        let rest = self.bytes.get(offset as usize..).unwrap_or(&[]);
        match format::read(rest, self.segment.number, offset) {
            Some((record, length)) => {
                self.at = offset + length as u64;
                Some(Ok((offset, record, length as u64)))
            }
            None => {
                self.is_over = true;
                Some(Err(self.segment.damage(offset)))
            }
        }
    }
}
