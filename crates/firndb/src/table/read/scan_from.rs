//! Stateless scans: pages of records in the order of the table, with the rules of the pages of a
//! log store.
//!
//! In hash order, a cursor is the upper 63 bits of a hash. Records are sorted by their hashes, so
//! the directory says in which block a page begins. In key order, a cursor is the number of a block
//! and, in its lower 24 bits, the number of a record in it.

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
    if reader.fences.is_some() {
        return scan_ordered(reader, cursor, page, read);
    }
    let first = reader.locate_hashed(cursor << 1).map_or(0, |at| at.block);
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
            page.take(reader, key, stored, &mut read)?;
            Ok(ControlFlow::Continue(()))
        })?;
        if !is_complete {
            return Ok(Some(page.last + 1));
        }
    }
    Ok(None)
}

/// Bits of a cursor in key order that number a record in its block.
const RECORD: u32 = 24;

/// [`scan_from`] in key order.
fn scan_ordered(
    reader: &TableReader,
    cursor: u64,
    mut page: Page,
    mut read: impl FnMut(&[u8], &[u8]),
) -> Result<Option<u64>> {
    let (first, mut skipped) = (cursor >> RECORD, cursor & ((1 << RECORD) - 1));
    for number in first..reader.meta.blocks {
        let mut record = 0;
        let is_complete = scan_stored(reader, number, |key, stored| {
            if page.is_full() {
                return Ok(ControlFlow::Break(()));
            }
            if record >= skipped {
                page.take(reader, key, stored, &mut read)?;
            }
            record += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        if !is_complete {
            let next = number << RECORD | record;
            let (is_cursor, message) = (next < POSITIONS, "the table is too large for cursors");
            return if is_cursor { Ok(Some(next)) } else { Err(Error::invalid(message)) };
        }
        skipped = 0;
    }
    Ok(None)
}

impl Page {
    /// Passes a record to `read`, and counts it.
    fn take(
        &mut self,
        reader: &TableReader,
        key: &[u8],
        stored: &[u8],
        read: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        self.keys += 1;
        self.bytes += key.len();
        match reader.meta.compression {
            Compression::Records { .. } => {
                let value = reader.decompress_value(stored)?;
                self.bytes += value.len();
                read(key, &value);
            }
            _ => {
                self.bytes += stored.len();
                read(key, stored);
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.keys >= self.limit || self.bytes >= BYTES_MAX
    }
}
