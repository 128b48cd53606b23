//! Builds and writes the filter section. `format/filter.rs` has the layout.

use crate::bytes::int::Encoder;
use crate::disk::envelope::EnvelopeWriter;
use crate::disk::spool::Spool;
use crate::table::format::filter::{KEYS_PER_PART, PartEntry, encode_header, part_of, parts_for};
use crate::table::options::KeyFilter;
use crate::{Error, Result};
use xorf::{BinaryFuse8, BinaryFuse16};

/// Most keys in a part. With uniform hashes a part has half as many. It bounds the memory for a
/// table in key order; in hash order a build does not get this far with crafted keys.
const MAX_KEYS_PER_PART: u64 = 2 * KEYS_PER_PART;

/// Collects hashes in ascending order, and builds the filter of each part once the part is
/// complete.
pub(crate) struct FilterWriter {
    filter: KeyFilter,
    parts: u64,
    part: u64,
    hashes: Vec<u64>,
    entries: Encoder,
    fingerprints: Spool,
}

impl FilterWriter {
    pub(crate) fn new(filter: KeyFilter, records: u64, fingerprints: Spool) -> FilterWriter {
        let parts = parts_for(records);
        let (hashes, entries) = (Vec::new(), Encoder::default());
        FilterWriter { filter, parts, part: 0, hashes, entries, fingerprints }
    }

    pub(crate) fn push(&mut self, hash: u64) -> Result<()> {
        if self.filter == KeyFilter::None || self.hashes.last() == Some(&hash) {
            return Ok(());
        }
        while part_of(hash, self.parts) != self.part {
            self.end_part()?;
        }
        if self.hashes.len() as u64 == MAX_KEYS_PER_PART {
            return Err(Error::invalid(
                "too many keys have similar hashes, so the keys were crafted: build a table \
                 without filter, or in hash order",
            ));
        }
        self.hashes.push(hash);
        Ok(())
    }

    fn end_part(&mut self) -> Result<()> {
        let hashes = std::mem::take(&mut self.hashes);
        let at = self.fingerprints.len();
        let (descriptor, number) = if hashes.is_empty() {
            (None, 0)
        } else if self.filter == KeyFilter::Bits8 {
            let made = BinaryFuse8::try_from(&hashes).map_err(failed)?;
            self.fingerprints.push(&made.fingerprints)?;
            (Some(made.descriptor), made.fingerprints.len())
        } else {
            let made = BinaryFuse16::try_from(&hashes).map_err(failed)?;
            let mut bytes = Encoder(Vec::with_capacity(2 * made.fingerprints.len()));
            made.fingerprints.iter().for_each(|&f| bytes.u16(f));
            self.fingerprints.push(&bytes.0)?;
            (Some(made.descriptor), made.fingerprints.len())
        };
        let entry = PartEntry {
            seed: descriptor.as_ref().map_or(0, |d| d.seed),
            start: at,
            fingerprints: number as u64,
            segment: descriptor.as_ref().map_or(0, |d| d.segment_length),
            count: descriptor.as_ref().map_or(0, |d| d.segment_count_length),
        };
        entry.encode(&mut self.entries);
        self.part += 1;
        self.hashes = hashes;
        self.hashes.clear();
        Ok(())
    }

    /// Writes the section, if the table has a filter.
    pub(crate) fn finish(mut self, out: &mut EnvelopeWriter, id: u32) -> Result<()> {
        if self.filter == KeyFilter::None {
            return Ok(());
        }
        while self.part < self.parts {
            self.end_part()?;
        }
        out.begin(id, false)?;
        out.write(&encode_header(self.parts, self.fingerprints.len()))?;
        self.fingerprints.each(|bytes| out.write(bytes))?;
        out.write(&self.entries.0)?;
        out.end();
        Ok(())
    }
}

fn failed(why: &str) -> Error {
    Error::invalid(format!("cannot build a filter of these keys: {why}"))
}
