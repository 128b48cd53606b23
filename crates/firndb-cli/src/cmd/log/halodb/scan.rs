//! Reads the entries of a file, and goes on behind damage.
//!
//! Behind bytes that are no whole entry, the next begins where the damaged entry states its end, or
//! where the index file says that a record begins, or, if neither leads to a whole entry, at the
//! first place where one is found. The last way is for damaged lengths in a file without an index:
//! it also tells a torn end, behind which nothing is whole, from damage in the middle.

use super::format::{Found, Kind, SHORTEST_HEAD, VERSIONS, Window};
use super::survey::Source;
use firndb::{Error, ErrorKind, Result};
use std::path::PathBuf;

pub use super::format::Entry;

/// Damaged places of a directory that are told apart. With more than these, nothing is imported.
const PLACES_MAX: usize = 10_000;

/// Bytes that are no whole entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    pub path: PathBuf,
    pub kind: Kind,
    pub offset: u64,
    pub bytes: u64,
    pub cause: Cause,
    /// Records that the index file lists here.
    pub listed: u64,
}

/// Why bytes were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The end of the newest file after a crash: a write that was interrupted.
    Torn,
    /// The file ends within an entry, and no crash explains it.
    Cut,
    /// The checksum does not match, or these are no bytes of an entry.
    Damaged,
    /// A whole entry with a key longer than a LogStore takes.
    LongKey,
}

/// Gives `each` all whole entries with their offsets, and adds what is between them to `dropped`.
/// Returns where the last whole entry ends. `UnsupportedVersion` if the file is of another version.
pub fn scan(
    source: &Source,
    index: Option<&Source>,
    dropped: &mut Vec<Dropped>,
    mut each: impl FnMut(u64, &Entry) -> Result<()>,
) -> Result<u64> {
    let mut window = Window::open(&source.path)?;
    let mut resume = Resume { source, index, listed: None };
    let (mut at, mut whole_end, mut count) = (0, 0, 0u64);
    while at < window.len() {
        let (end, cause) = match window.entry(source.kind, at)? {
            Found::Whole(entry) => {
                each(at, &entry)?;
                at += entry.length;
                (whole_end, count) = (at, count + 1);
                continue;
            }
            Found::LongKey(length) => {
                (whole_end, count) = (at + length, count + 1);
                (at + length, Cause::LongKey)
            }
            Found::Nothing => resume.behind(&mut window, at)?,
        };
        if dropped.len() == PLACES_MAX {
            let message = format!("{PLACES_MAX} places are damaged; nothing was imported");
            return Err(Error::corrupt(message).at(at).in_file(&source.path));
        }
        let (path, kind) = (source.path.clone(), source.kind);
        dropped.push(Dropped { path, kind, offset: at, bytes: end - at, cause, listed: 0 });
        at = end;
    }
    if count == 0 && source.kind != Kind::Index && !resume.lists_something()? {
        check_version(source, &mut window)?;
    }
    Ok(whole_end)
}

/// `UnsupportedVersion` if the first entry states a version that is not known.
fn check_version(source: &Source, window: &mut Window) -> Result<()> {
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

/// Finds the next whole entry behind a damaged one.
struct Resume<'a> {
    source: &'a Source,
    index: Option<&'a Source>,
    listed: Option<Listed>,
}

impl Resume<'_> {
    /// Where the damage at `at` ends, and what it is.
    fn behind(&mut self, window: &mut Window, at: u64) -> Result<(u64, Cause)> {
        let kind = self.source.kind;
        let stated = window.stated_end(kind, at)?.filter(|&end| end > at);
        if let Some(end) = self.by_lengths(window, at, stated)? {
            return Ok((end, Cause::Damaged));
        }
        let mut place = at + 1;
        while place < window.len() {
            if is_hopeless(window) {
                return Ok((window.len(), Cause::Damaged));
            }
            if is_whole(window, kind, place)? {
                return Ok((place, Cause::Damaged));
            }
            // No head is all zeros: the checksum of zeros is not zero.
            place = window.skip_zeros(place + 1)?.saturating_sub(SHORTEST_HEAD - 1).max(place + 1);
        }
        let cause = match stated {
            _ if self.source.may_be_torn => Cause::Torn,
            Some(_) => Cause::Damaged,
            None => Cause::Cut,
        };
        Ok((window.len(), cause))
    }

    /// The first whole entry at a place that the index lists, or at the end that was stated.
    fn by_lengths(
        &mut self,
        window: &mut Window,
        at: u64,
        stated: Option<u64>,
    ) -> Result<Option<u64>> {
        if !self.source.kind.is_data() {
            // Short entries, whose lengths lead far away if they are damaged.
            return Ok(None);
        }
        let mut stated = stated;
        while let Some(place) = self.listed()?.and_then(|listed| listed.next) {
            if let Some(end) = stated.take_if(|end| *end < place)
                && is_whole(window, self.source.kind, end)?
            {
                return Ok(Some(end));
            }
            if is_hopeless(window) {
                return Ok(None);
            }
            if place > at && is_whole(window, self.source.kind, place)? {
                return Ok(Some(place));
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

    /// Whether the index begins with a whole entry.
    fn lists_something(&mut self) -> Result<bool> {
        let Some(index) = self.index else { return Ok(false) };
        is_whole(&mut Window::open(&index.path)?, Kind::Index, 0)
    }
}

/// The places that an index file lists, up to its first damage.
struct Listed {
    window: Window,
    at: u64,
    next: Option<u64>,
}

impl Listed {
    fn advance(&mut self) -> Result<()> {
        let found = match self.window.entry(Kind::Index, self.at)? {
            Found::Whole(entry) => Some((entry.record, entry.length)),
            _ => None,
        };
        self.next = found.map(|(record, _)| record.into());
        self.at += found.map_or(0, |(_, length)| length);
        Ok(())
    }
}

/// Whether looking for the next entry took too long: in a file that was made so, every place may
/// look like the head of a long entry.
fn is_hopeless(window: &Window) -> bool {
    window.wrong > window.len().saturating_mul(16).saturating_add(1 << 26)
}

fn is_whole(window: &mut Window, kind: Kind, place: u64) -> Result<bool> {
    Ok(!matches!(window.entry(kind, place)?, Found::Nothing))
}
