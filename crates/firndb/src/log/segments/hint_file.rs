//! The hint of a segment, as a file: see `format/hint.rs`.

use crate::disk::envelope::{Envelope, EnvelopeWriter, Kind};
use crate::disk::{Append, Disk};
use crate::log::format::hint::{DELETES, HintMeta, META, PUTS};
use crate::log::format::hint_entries::{self, Entries};
use crate::log::format::names::hint_file;
use crate::log::options::Access;
use crate::{Error, Result};
use std::path::Path;

/// An open hint.
pub(crate) struct Hint {
    file: Envelope,
    /// Where [`Hint::may_contain`] begins to search.
    samples: Vec<u32>,
    pub(crate) meta: HintMeta,
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
        let path = dir.join(hint_file(number));
        let file = access.open(disk, &path, Kind::LogHint)?;
        file.map().expect_all(); // The checks below read all of it.
        let meta = section(&file, META).and_then(|meta| HintMeta::decode(meta, store, number));
        let meta = meta.map_err(|e| e.in_file(&path))?;
        let mut hint = Hint { file, samples: Vec::new(), meta };
        hint.deletes()?;
        hint.samples = hint.puts()?.samples();
        Ok(hint)
    }

    /// Entries of all puts.
    pub(crate) fn puts(&self) -> Result<Entries<'_>> {
        self.entries(PUTS)
    }

    /// Entries of all deletes.
    pub(crate) fn deletes(&self) -> Result<Entries<'_>> {
        self.entries(DELETES)
    }

    fn entries(&self, id: u32) -> Result<Entries<'_>> {
        let entries = section(&self.file, id).and_then(Entries::new);
        entries.map_err(|e| e.in_file(self.file.path()))
    }

    /// Whether the segment may contain a value of a key with this hash.
    pub(crate) fn may_contain(&self, hash: u64) -> Result<bool> {
        Ok(self.puts()?.contains(hash, &self.samples))
    }
}

fn section(file: &Envelope, id: u32) -> Result<&[u8]> {
    let at = file.find(id).ok_or_else(|| Error::corrupt(format!("section {id} is missing")))?;
    file.section(at)
}

/// Writes a hint. The entries must be sorted.
pub(crate) fn write(
    out: &mut dyn Append,
    meta: &HintMeta,
    puts: &[(u64, u32)],
    deletes: &[(u64, u32)],
) -> Result<()> {
    let mut file = EnvelopeWriter::new(out, Kind::LogHint)?;
    file.section(META, &meta.encode())?;
    file.section(PUTS, &hint_entries::encode(puts))?;
    file.section(DELETES, &hint_entries::encode(deletes))?;
    file.finish().map(|_| ())
}
