//! The durable end, as a file: see `format/durable_end.rs`.

use crate::bytes::frozen::{Frozen, FrozenWriter, Kind};
use crate::disk::{Append, Disk};
use crate::log::format::durable_end::{DurableEnd, META};
use crate::log::format::names::DURABLE_END;
use crate::{Error, ErrorKind, Result};
use std::path::Path;

/// Reads the durable end of a directory; `None` if the file is missing or damaged. A reader next to
/// a writer must call this before it reads the segments, or the file could be ahead of them.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<DurableEnd>> {
    let decode = || {
        let file = Frozen::load(disk, &dir.join(DURABLE_END), Kind::LogEnd)?;
        let at = file.find(META).ok_or_else(|| Error::corrupt("a section is missing"))?;
        DurableEnd::decode(file.section(at)?)
    };
    match decode() {
        Ok(end) => Ok(Some(end)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Writes a durable end.
pub(crate) fn write(out: &mut dyn Append, end: DurableEnd) -> Result<()> {
    let mut file = FrozenWriter::new(out, Kind::LogEnd)?;
    file.section(META, &end.encode())?;
    file.finish().map(|_| ())
}
