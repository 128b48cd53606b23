//! Reads the entries of a file, and resumes after damage.
//!
//! After bytes that are not an intact entry, the next entry starts where the damaged entry ends by
//! its own lengths, or where the index file lists a record; if neither leads to an intact entry, at
//! the first offset at which one is found. The search is needed for damaged lengths in files
//! without an index. It also distinguishes a torn tail, after which there is no intact entry, from
//! damage in the middle.

use crate::halodb::directory::DataFile;
use crate::halodb::format::{Parsed, SHORTEST_HEADER, VERSIONS, Window};
use crate::halodb::report::{Cause, Dropped, FileKind};
use firndb::{Error, ErrorKind, Result};

pub(crate) use crate::halodb::format::Entry;

/// Maximum number of damaged ranges in a directory. A directory with more is refused.
const PLACES_MAX: usize = 10_000;

/// Calls `each` with all intact entries and their offsets, and adds the ranges between them to
/// `dropped`. Returns the end of the last intact entry. `UnsupportedVersion` if the file is of an
/// unknown version.
pub(crate) fn scan(
    source: &DataFile,
    index: Option<&DataFile>,
    dropped: &mut Vec<Dropped>,
    mut each: impl FnMut(u64, &Entry) -> Result<()>,
) -> Result<u64> {
    let mut window = Window::open(&source.path)?;
    let mut resume = Resume { source, index, listed: None };
    let (mut at, mut whole_end, mut count) = (0, 0, 0u64);
    while at < window.len() {
        let (end, cause) = match window.entry(source.kind, at)? {
            Parsed::Whole(entry) => {
                each(at, &entry)?;
                at += entry.length;
                (whole_end, count) = (at, count + 1);
                continue;
            }
            Parsed::LongKey(length) => {
                (whole_end, count) = (at + length, count + 1);
                (at + length, Cause::LongKey)
            }
            Parsed::Invalid => resume.after(&mut window, at)?,
        };
        if dropped.len() == PLACES_MAX {
            let message = format!("{PLACES_MAX} places are damaged; nothing was imported");
            return Err(Error::corrupt(message).at(at).in_file(&source.path));
        }
        let (path, kind) = (source.path.clone(), source.kind);
        dropped.push(Dropped::new(path, kind, at, end - at, cause));
        at = end;
    }
    if count == 0 && source.kind != FileKind::Index && !resume.lists_something()? {
        check_version(source, &mut window)?;
    }
    Ok(whole_end)
}

/// `UnsupportedVersion` if the first entry has an unknown version.
fn check_version(source: &DataFile, window: &mut Window) -> Result<()> {
    let Some(version) = window.version(0)?.filter(|v| !VERSIONS.contains(v)) else {
        return Ok(());
    };
    let message = format!(
        "no entry of this file can be read: the first states version {version}, and the import \
         knows versions 0 (HaloDB 0.5) and 1 (HaloDB Revive). Nothing was imported. If the file is \
         only damaged, import a copy of the directory without it"
    );
    Err(Error::new(ErrorKind::UnsupportedVersion, message).at(0).in_file(&source.path))
}

/// Finds the next intact entry after a damaged one.
struct Resume<'a> {
    source: &'a DataFile,
    index: Option<&'a DataFile>,
    listed: Option<Listed>,
}

impl Resume<'_> {
    /// The end of the damage at `at`, and its cause.
    fn after(&mut self, window: &mut Window, at: u64) -> Result<(u64, Cause)> {
        let kind = self.source.kind;
        let stated = window.stated_end(kind, at)?.filter(|&end| end > at);
        if let Some(end) = self.by_lengths(window, at, stated)? {
            return Ok((end, Cause::Damaged));
        }
        let mut offset = at + 1;
        while offset < window.len() {
            if is_hopeless(window) {
                return Ok((window.len(), Cause::Damaged));
            }
            if is_whole(window, kind, offset)? {
                return Ok((offset, Cause::Damaged));
            }
            // No header is all zeros: the checksum of zeros is not zero.
            offset =
                window.skip_zeros(offset + 1)?.saturating_sub(SHORTEST_HEADER - 1).max(offset + 1);
        }
        let cause = match stated {
            _ if self.source.may_be_torn => Cause::Torn,
            Some(_) => Cause::Damaged,
            None => Cause::Truncated,
        };
        Ok((window.len(), cause))
    }

    /// The first intact entry at an offset that the index lists, or at `stated`, the end of the
    /// damaged entry by its own lengths.
    fn by_lengths(
        &mut self,
        window: &mut Window,
        at: u64,
        stated: Option<u64>,
    ) -> Result<Option<u64>> {
        if !self.source.kind.is_data() {
            // Entries without values are short, so a damaged length leads far beyond the next
            // entry.
            return Ok(None);
        }
        let mut stated = stated;
        while let Some(offset) = self.listed()?.and_then(|listed| listed.next) {
            if let Some(end) = stated.take_if(|end| *end < offset)
                && is_whole(window, self.source.kind, end)?
            {
                return Ok(Some(end));
            }
            if is_hopeless(window) {
                return Ok(None);
            }
            if offset > at && is_whole(window, self.source.kind, offset)? {
                return Ok(Some(offset));
            }
            self.listed()?.map_or(Ok(()), Listed::advance)?;
        }
        match stated {
            Some(end) if is_whole(window, self.source.kind, end)? => Ok(Some(end)),
            _ => Ok(None),
        }
    }

    fn listed(&mut self) -> Result<Option<&mut Listed>> {
        if let (None, Some(index)) = (&self.listed, self.index) {
            let mut listed = Listed { window: Window::open(&index.path)?, at: 0, next: None };
            listed.advance()?;
            self.listed = Some(listed);
        }
        Ok(self.listed.as_mut())
    }

    /// Whether the index starts with an intact entry.
    fn lists_something(&mut self) -> Result<bool> {
        let Some(index) = self.index else { return Ok(false) };
        is_whole(&mut Window::open(&index.path)?, FileKind::Index, 0)
    }
}

/// The offsets that an index file lists, up to its first damage.
struct Listed {
    window: Window,
    at: u64,
    next: Option<u64>,
}

impl Listed {
    fn advance(&mut self) -> Result<()> {
        let found = match self.window.entry(FileKind::Index, self.at)? {
            Parsed::Whole(entry) => Some((entry.record, entry.length)),
            _ => None,
        };
        self.next = found.map(|(record, _)| record.into());
        self.at += found.map_or(0, |(_, length)| length);
        Ok(())
    }
}

/// Whether the search for the next entry has become too expensive: in a crafted file every offset
/// can look like the header of a long entry.
fn is_hopeless(window: &Window) -> bool {
    window.mismatched > window.len().saturating_mul(16).saturating_add(1 << 26)
}

fn is_whole(window: &mut Window, kind: FileKind, offset: u64) -> Result<bool> {
    Ok(!matches!(window.entry(kind, offset)?, Parsed::Invalid))
}
