//! The envelope of immutable files: sections with checksums, a section directory, and a footer of
//! fixed size.
//!
//! ```text
//! HEADER     OFFSET  SIZE  FIELD
//!            0       8     magic "FIRNDB1\n"
//!            8       4     kind of file (see `Kind`)
//!            12      4     format version of that kind
//!            16      48    zeros
//! SECTIONS   each begins at a multiple of 64, or of a larger alignment; zeros between them
//! DIRECTORY  at a multiple of 64, 32 bytes per entry, ids strictly ascending
//!            0       4     section id, defined by the kind of file
//!            4       4     flags: 1 = the reader checks blocks, not the whole section
//!            8       8     offset in the file
//!            16      8     length in bytes
//!            24      8     XXH3-64 of the section's bytes
//! FOOTER     the last 64 bytes of the file
//!            0       8     offset of the directory
//!            8       4     number of its entries
//!            12      4     kind, as in the header
//!            16      4     format version, as in the header
//!            20      4     zeros
//!            24      8     length of the file
//!            32      16    content id: XXH3-128 of the directory, seeded with kind << 32 | version
//!            48      8     XXH3-64 of footer bytes 0..48
//!            56      8     magic "FIRNDB1\n"
//! ```
//!
//! Opening reads the header, the footer and the directory, and nothing else. The checksum of a
//! section is checked on first access and remembered: a damaged byte fails the query that reads it.

pub(crate) use crate::bytes::kind::Kind;

use crate::bytes::int::{u32_at, u64_at};
use crate::disk::{Append, Disk, Map, ReadAt, Slab};
use crate::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128_with_seed};

const MAGIC: [u8; 8] = *b"FIRNDB1\n";
const ALIGN: usize = 64;
const ENTRY: usize = 32;
const EDGE: usize = 64;
const BY_BLOCKS: u32 = 1;
/// The longest file that is read into memory.
const LOADED_MAX: u64 = 4 << 30;

/// Writes a frozen file section by section, in any order of ids.
pub(crate) struct EnvelopeWriter<'a> {
    out: &'a mut dyn Append,
    buffer: Vec<u8>,
    at: u64,
    kind: Kind,
    version: u32,
    entries: Vec<Entry>,
    open: Option<(u32, u32, u64, Box<Xxh3>)>,
}

/// The file is appended in pieces of this size, each at a multiple of it. A file system that caches
/// files in huge pages then uses one per piece, and maps of the file benefit.
const PIECE: usize = 1 << 21;

impl<'a> EnvelopeWriter<'a> {
    /// A writer of the newest version of a kind.
    pub(crate) fn new(out: &'a mut dyn Append, kind: Kind) -> Result<EnvelopeWriter<'a>> {
        EnvelopeWriter::with_version(out, kind, kind.version())
    }

    /// A writer of this version of a kind.
    pub(crate) fn with_version(
        out: &'a mut dyn Append,
        kind: Kind,
        version: u32,
    ) -> Result<EnvelopeWriter<'a>> {
        let (buffer, entries) = (Vec::new(), Vec::new());
        let mut w = EnvelopeWriter { out, buffer, at: 0, kind, version, entries, open: None };
        let mut header = [0; EDGE];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&(kind as u32).to_le_bytes());
        header[12..16].copy_from_slice(&version.to_le_bytes());
        w.emit(&header)?;
        Ok(w)
    }

    fn emit(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        while self.buffer.len() + bytes.len() >= PIECE {
            let (now, later) = bytes.split_at(PIECE - self.buffer.len());
            self.buffer.extend_from_slice(now);
            self.out.append_piece(&mut self.buffer)?;
            bytes = later;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn align(&mut self, to: usize) -> Result<()> {
        let pad = (self.at as usize).next_multiple_of(to) - self.at as usize;
        self.emit(&vec![0; pad])
    }

    /// Begins a section that is written piece by piece. `by_blocks`: its reader checks blocks.
    pub(crate) fn begin(&mut self, id: u32, by_blocks: bool) -> Result<()> {
        self.begin_at(id, by_blocks, ALIGN)
    }

    /// Begins a section at a multiple of `align`, which is a multiple of 64.
    pub(crate) fn begin_at(&mut self, id: u32, by_blocks: bool, align: usize) -> Result<()> {
        debug_assert!(self.open.is_none() && align.is_multiple_of(ALIGN));
        self.align(align)?;
        let flags = if by_blocks { BY_BLOCKS } else { 0 };
        self.open = Some((id, flags, self.at, Box::new(Xxh3::new())));
        Ok(())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some((.., hash)) = &mut self.open {
            hash.update(bytes);
        }
        self.emit(bytes)
    }

    pub(crate) fn end(&mut self) {
        if let Some((id, flags, offset, hash)) = self.open.take() {
            let (len, checksum) = (self.at - offset, hash.digest());
            self.entries.push(Entry { id, flags, offset, len, checksum });
        }
    }

    /// Appends everything that was written so far, and returns its length, so that it can be read
    /// before the file is finished.
    pub(crate) fn flush(&mut self) -> Result<u64> {
        self.out.append_piece(&mut self.buffer)?;
        Ok(self.at)
    }

    /// Writes a whole section.
    pub(crate) fn section(&mut self, id: u32, bytes: &[u8]) -> Result<()> {
        self.begin(id, false)?;
        self.write(bytes)?;
        self.end();
        Ok(())
    }

    /// Writes the directory and the footer; returns the content id.
    pub(crate) fn finish(mut self) -> Result<u128> {
        self.align(ALIGN)?;
        let directory_at = self.at;
        self.entries.sort_by_key(|e| e.id);
        let mut directory = Vec::with_capacity(self.entries.len() * ENTRY);
        for e in &self.entries {
            directory.extend_from_slice(&e.id.to_le_bytes());
            directory.extend_from_slice(&e.flags.to_le_bytes());
            directory.extend_from_slice(&e.offset.to_le_bytes());
            directory.extend_from_slice(&e.len.to_le_bytes());
            directory.extend_from_slice(&e.checksum.to_le_bytes());
        }
        self.emit(&directory)?;
        let content = content_id(&directory, self.kind as u32, self.version);
        let mut footer = Vec::with_capacity(EDGE);
        footer.extend_from_slice(&directory_at.to_le_bytes());
        footer.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        footer.extend_from_slice(&(self.kind as u32).to_le_bytes());
        footer.extend_from_slice(&self.version.to_le_bytes());
        footer.extend_from_slice(&[0; 4]);
        footer.extend_from_slice(&(self.at + EDGE as u64).to_le_bytes());
        footer.extend_from_slice(&content.to_le_bytes());
        footer.extend_from_slice(&xxh3_64(&footer).to_le_bytes());
        footer.extend_from_slice(&MAGIC);
        self.emit(&footer)?;
        self.out.append_piece(&mut self.buffer)?;
        Ok(content)
    }
}

fn content_id(directory: &[u8], kind: u32, version: u32) -> u128 {
    xxh3_128_with_seed(directory, u64::from(kind) << 32 | u64::from(version))
}

/// An entry of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) checksum: u64,
}

/// An open frozen file.
pub(crate) struct Envelope {
    map: Map,
    path: PathBuf,
    directory: usize,
    entries: usize,
    content: u128,
    /// One bit per section: its checksum was checked and is right.
    checked: Box<[AtomicU64]>,
}

impl Envelope {
    /// Checks the header, footer and directory of a file of this kind. Errors: `Corrupt`;
    /// `InvalidArgument` for another kind; `UnsupportedVersion` for a newer version.
    pub(crate) fn open(map: Map, path: &Path, kind: Kind) -> Result<Envelope> {
        Self::parse(map, path, kind).map_err(|e| e.in_file(path))
    }

    /// [`Envelope::open`] of a file that is read into memory. A failing disk is an error here; with
    /// a map it would be a signal later.
    pub(crate) fn load(disk: &dyn Disk, path: &Path, kind: Kind) -> Result<Envelope> {
        let file = disk.open(path)?;
        let length = file.len()?;
        let mut bytes = vec![0; length.min(EDGE as u64) as usize];
        file.read_at(length - bytes.len() as u64, &mut bytes)?;
        // A file may have any length: memory is allocated only if the footer confirms the length.
        let is_whole = bytes.len() == EDGE && bytes[56..] == MAGIC && u64_at(&bytes, 24) == length;
        if is_whole && length <= LOADED_MAX {
            bytes = vec![0; length as usize];
            file.read_at(0, &mut bytes)?;
        }
        Envelope::open(Map::from_vec(bytes), path, kind)
    }

    /// [`Envelope::load`] without the sections whose reader checks blocks. It reads the blocks from
    /// `file`; their bytes here are zeros that take no memory.
    pub(crate) fn load_without_blocks(
        file: &dyn ReadAt,
        path: &Path,
        kind: Kind,
    ) -> Result<Envelope> {
        let length = file.len()?;
        let mut footer = vec![0; length.min(EDGE as u64) as usize];
        file.read_at(length - footer.len() as u64, &mut footer)?;
        if footer.len() < EDGE || footer[56..] != MAGIC || u64_at(&footer, 24) != length {
            return Envelope::open(Map::from_vec(footer), path, kind); // Fails.
        }
        let (directory, end) = (u64_at(&footer, 0), length as usize - EDGE);
        let mut bytes = Slab::sparse(length as usize)?;
        let mut parts = vec![(0, EDGE as u64), (directory, length.saturating_sub(directory))];
        let (mut i, mut left) = (0, length);
        while let Some(&(start, len)) = parts.get(i) {
            // A damaged directory may list the same bytes many times.
            let too_many = || Error::corrupt("the sections are longer than the file").in_file(path);
            left = left.checked_sub(len).ok_or_else(too_many)?;
            let part = start.checked_add(len).map(|end| start as usize..end as usize);
            if let Some(part) = part.and_then(|part| bytes.get_mut(part)) {
                file.read_at(start, part)?;
            }
            if i == 1 {
                let entries = bytes.get(directory as usize..end).unwrap_or(&[]).chunks_exact(ENTRY);
                let whole = entries.filter(|entry| u32_at(entry, 4) & BY_BLOCKS == 0);
                parts.extend(whole.map(|entry| (u64_at(entry, 8), u64_at(entry, 16))));
            }
            i += 1;
        }
        Envelope::open(bytes.freeze()?, path, kind)
    }

    fn parse(map: Map, path: &Path, kind: Kind) -> Result<Envelope> {
        let found = kind_of(&map)?;
        if found.0 != kind as u32 {
            let name = Kind::from_code(found.0).map_or("of an unknown kind", Kind::name);
            return Err(Error::invalid(format!("this file is {name}, not a {}", kind.name())));
        }
        if found.1 == 0 || found.1 > kind.version() {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!(
                    "format version {} of a {}; this release reads up to {}: use a newer release",
                    found.1,
                    kind.name(),
                    kind.version()
                ),
            ));
        }
        let footer = &map[map.len() - EDGE..];
        let (directory, entries) = (u64_at(footer, 0), u32_at(footer, 8) as usize);
        let end = (map.len() - EDGE) as u64;
        if directory.checked_add((entries * ENTRY) as u64) != Some(end) {
            return Err(Error::corrupt(format!(
                "the directory of {entries} sections at byte {directory} does not end at the \
                 footer, byte {end}"
            ))
            .at(end));
        }
        let directory = directory as usize;
        let content = content_id(&map[directory..directory + entries * ENTRY], found.0, found.1);
        if footer[32..48] != content.to_le_bytes() {
            return Err(
                Error::corrupt("the checksum of the directory is wrong").at(directory as u64)
            );
        }
        let words = entries.div_ceil(64);
        let checked = (0..words).map(|_| AtomicU64::new(0)).collect();
        let frozen =
            Envelope { map, path: path.to_path_buf(), directory, entries, content, checked };
        frozen.check_directory()?;
        Ok(frozen)
    }

    fn check_directory(&self) -> Result<()> {
        let mut last = None;
        for i in 0..self.entries {
            let e = self.entry(i);
            let inside =
                e.offset.checked_add(e.len).is_some_and(|end| end <= self.directory as u64);
            if !inside || e.offset < EDGE as u64 || last.is_some_and(|id| id >= e.id) {
                return Err(Error::corrupt(format!("the directory's entry {i} is impossible"))
                    .at((self.directory + i * ENTRY) as u64));
            }
            last = Some(e.id);
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    pub(crate) fn len(&self) -> u64 {
        self.map.len() as u64
    }

    /// Whether `read`, which reads a file at an offset, reads this file. Another file may have
    /// taken its name since. Files with equal footers are equal.
    pub(crate) fn is_read_by(
        &self,
        read: impl FnOnce(u64, &mut [u8]) -> Result<()>,
    ) -> Result<bool> {
        let (at, mut footer) = (self.map.len() - EDGE, [0; EDGE]);
        match read(at as u64, &mut footer) {
            Ok(()) => Ok(footer[..] == self.map[at..]),
            Err(e) if e.kind() == ErrorKind::Corrupt => Ok(false), // It is shorter.
            Err(e) => Err(e),
        }
    }

    /// The format version, at most that of the kind.
    pub(crate) fn version(&self) -> u32 {
        u32_at(&self.map, 12)
    }

    /// The content id: equal content, equal id.
    pub(crate) fn content(&self) -> u128 {
        self.content
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    #[inline]
    pub(crate) fn entry(&self, i: usize) -> Entry {
        let at = self.directory + i * ENTRY;
        Entry {
            id: u32_at(&self.map, at),
            flags: u32_at(&self.map, at + 4),
            offset: u64_at(&self.map, at + 8),
            len: u64_at(&self.map, at + 16),
            checksum: u64_at(&self.map, at + 24),
        }
    }

    /// The index of the section with this id in the directory.
    pub(crate) fn find(&self, id: u32) -> Option<usize> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let mid = (low + high) / 2;
            match self.entry(mid).id.cmp(&id) {
                std::cmp::Ordering::Less => low = mid + 1,
                std::cmp::Ordering::Greater => high = mid,
                std::cmp::Ordering::Equal => return Some(mid),
            }
        }
        None
    }

    /// The section with index `i` in the directory. Checks its checksum on first access, unless its
    /// reader checks blocks.
    #[inline]
    pub(crate) fn section(&self, i: usize) -> Result<&[u8]> {
        let at = self.directory + i * ENTRY;
        let offset = u64_at(&self.map, at + 8) as usize;
        let len = u64_at(&self.map, at + 16) as usize;
        let word = self.checked.get(i / 64).map_or(0, |w| w.load(Ordering::Acquire));
        if word >> (i % 64) & 1 == 0 {
            self.check(i)?;
        }
        self.map.get(offset..offset.wrapping_add(len)).ok_or_else(|| self.missing(i))
    }

    /// The bytes of the file.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// The bytes of a section that was checked before.
    #[inline(always)]
    pub(crate) fn bytes(&self, offset: u64, len: u64) -> &[u8] {
        self.map.get(offset as usize..(offset + len) as usize).unwrap_or(&[])
    }

    fn missing(&self, i: usize) -> Error {
        Error::corrupt(format!("section {i} is not in the file")).in_file(&self.path)
    }

    #[cold]
    fn check(&self, i: usize) -> Result<()> {
        if i >= self.entries {
            return Err(self.missing(i));
        }
        if self.entry(i).flags & BY_BLOCKS == 0 {
            self.check_whole(i)?;
        }
        self.checked[i / 64].fetch_or(1 << (i % 64), Ordering::AcqRel);
        Ok(())
    }

    fn check_whole(&self, i: usize) -> Result<()> {
        let e = self.entry(i);
        let bytes = &self.map[e.offset as usize..(e.offset + e.len) as usize];
        let got = xxh3_64(bytes);
        if got == e.checksum {
            return Ok(());
        }
        let message = format!(
            "checksum of section {:#x} ({} bytes) is {got:016x}, expected {:016x}",
            e.id, e.len, e.checksum
        );
        Err(Error::corrupt(message).at(e.offset).in_file(&self.path))
    }

    /// Appends the whole file to another.
    pub(crate) fn copy_to(&self, out: &mut dyn Append) -> Result<()> {
        self.map.chunks(PIECE).try_for_each(|chunk| out.append(chunk))
    }

    /// Checks the checksums of all sections whose reader does not check blocks.
    pub(crate) fn warm(&self) -> Result<()> {
        (0..self.entries).try_for_each(|i| self.section(i).map(|_| ()))
    }

    /// Checks the checksums of the sections whose namesakes in `other` have been checked.
    pub(crate) fn warm_like(&self, other: &Envelope) -> Result<()> {
        let checked = |i: usize| {
            let word = other.checked.get(i / 64).map_or(0, |word| word.load(Ordering::Acquire));
            word >> (i % 64) & 1 == 1
        };
        let wanted = |i: &usize| other.find(self.entry(*i).id).is_some_and(checked);
        (0..self.entries).filter(wanted).try_for_each(|i| self.section(i).map(|_| ()))
    }

    /// Checks every byte: the checksums of all sections and the zeros between them.
    pub(crate) fn verify(&self) -> Result<()> {
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(self.entries);
        for i in 0..self.entries {
            self.check_whole(i)?;
            ranges.push((self.entry(i).offset, self.entry(i).len));
        }
        ranges.sort_unstable();
        ranges.push((self.directory as u64, 0));
        let mut at = EDGE;
        for (offset, len) in ranges {
            let gap = self.map.get(at..offset as usize);
            if let Some(bad) = gap.and_then(|gap| gap.iter().position(|&b| b != 0)) {
                let message = "a byte between two sections is not zero";
                return Err(Error::corrupt(message).at((at + bad) as u64).in_file(&self.path));
            }
            at = at.max((offset + len) as usize);
        }
        Ok(())
    }
}

/// Whether a file with these first bytes may be a frozen file that was truncated or damaged later.
pub(crate) fn begins_as_frozen(head: &[u8]) -> bool {
    let length = head.len().min(MAGIC.len());
    head[..length] == MAGIC[..length]
}

/// The code of the kind in the first bytes of a file, or `None` if it is not a frozen file.
pub(crate) fn kind_in_header(head: &[u8]) -> Option<u32> {
    (head.len() >= 12 && head[..8] == MAGIC).then(|| u32_at(head, 8))
}

/// Checks the header and footer of a frozen file; returns the code of its kind and its version.
pub(crate) fn kind_of(map: &[u8]) -> Result<(u32, u32)> {
    if map.len() < 2 * EDGE || map[..8] != MAGIC {
        let what = if map.len() < 2 * EDGE { "is too short" } else { "does not begin as one" };
        return Err(Error::corrupt(format!("not a file of FirnDB: it {what}")).at(0));
    }
    let at = map.len() - EDGE;
    let footer = &map[at..];
    let wrong = |message: &str, offset: usize| {
        Err(Error::corrupt(format!("{message}: the file is damaged or was cut")).at(offset as u64))
    };
    if footer[56..] != MAGIC || xxh3_64(&footer[..48]) != u64_at(footer, 48) {
        return wrong("the footer is wrong", at);
    }
    if u64_at(footer, 24) != map.len() as u64 {
        return wrong("the footer gives another length", at + 24);
    }
    if map[8..16] != footer[12..20] || map[16..EDGE].iter().any(|&b| b != 0) {
        return wrong("header and footer disagree", 8);
    }
    Ok((u32_at(footer, 12), u32_at(footer, 16)))
}

#[cfg(test)]
mod tests;
