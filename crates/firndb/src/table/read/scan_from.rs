//! Stateless scans: pages of records in the order of the hashes of their keys, with the rules of
//! the pages of a log store.
//!
//! A cursor is a position in that order: the upper 63 bits of a hash. Records are sorted by their
//! hashes, so the directory says in which block a page begins.

use crate::table::options::Compression;
use crate::table::read::iter::scan_stored;
use crate::table::read::reader::TableReader;
use crate::{Error, Result};
use std::ops::ControlFlow;

/// Positions, and cursors, are below this.
const POSITIONS: u64 = 1 << 63;
/// A page ends after this many keys, or when it has this many bytes.
const KEYS_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 16 << 20;

/// A page in progress.
struct Page {
    limit: usize,
    keys: usize,
    bytes: usize,
    /// The position of the record before.
    last: u64,
}

/// Passes the records of a page to `read`: see `Table::scan_from`.
pub(crate) fn scan_from(
    reader: &TableReader,
    cursor: u64,
    limit: usize,
    mut read: impl FnMut(&[u8], &[u8]),
) -> Result<Option<u64>> {
    if cursor >= POSITIONS {
        let message = format!("{cursor} is not a cursor: 0 begins a scan, others come from pages");
        return Err(Error::invalid(message));
    }
    let mut page = Page { limit: limit.clamp(1, KEYS_MAX), keys: 0, bytes: 0, last: 0 };
    let first = reader.locate_unfiltered(cursor << 1).map_or(0, |at| at.block);
    for number in first..reader.meta.blocks {
        let is_complete = scan_stored(reader, number, |key, stored| {
            let position = reader.hash(key) >> 1;
            if position < page.last {
                return Err(Error::corrupt("records are out of order"));
            }
            // Keys with equal positions are in one page: a cursor cannot stand between them.
            if page.is_full() && position > page.last {
                return Ok(ControlFlow::Break(()));
            }
            page.last = position;
            if position < cursor {
                return Ok(ControlFlow::Continue(()));
            }
            page.keys += 1;
            page.bytes += key.len();
            match reader.meta.compression {
                Compression::Records { .. } => {
                    let value = reader.decompress_value(stored)?;
                    page.bytes += value.len();
                    read(key, &value);
                }
                _ => {
                    page.bytes += stored.len();
                    read(key, stored);
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if !is_complete {
            return Ok(Some(page.last + 1));
        }
    }
    Ok(None)
}

impl Page {
    fn is_full(&self) -> bool {
        self.keys >= self.limit || self.bytes >= BYTES_MAX
    }
}
