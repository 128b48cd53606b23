//! Verify: every byte of a store, and what checksums cannot say.

use crate::bytes::frozen::{Frozen, Kind as FileKind};
use crate::log::admin::backup;
use crate::log::format::record::Kind;
use crate::log::maintenance::checkpoint;
use crate::log::open::durable_end as end;
use crate::log::open::store::{LogStore, Shared};
use crate::log::segments::hint_file as hint;
use crate::{Error, ErrorKind, Result};

/// What was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogVerified {
    /// Segments, the active one up to its end.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records that the index points to: one for each key.
    pub live: u64,
}

impl LogStore {
    /// Reads every record of the store, checks it, and checks that the index has exactly one place
    /// for each key: one that holds a record of it. Then the files beside the segments. Writing may
    /// go on, but then the count of live records is not compared with the number of keys.
    pub fn verify(&self) -> Result<LogVerified> {
        let snapshot = self.snapshot();
        let keys = self.len();
        let mut report = LogVerified::default();
        for segment in self.shared.table.load().in_order() {
            report.segments += 1;
            for item in segment.records(&segment.contents()?) {
                let (offset, record, length) = item?;
                report.records += 1;
                report.bytes += length;
                let place = segment.place(offset);
                if record.kind == Kind::Put
                    && self.shared.holds(self.shared.hash(record.key), place)
                {
                    report.live += 1;
                }
            }
        }
        let is_quiet = snapshot.view.is_unchanged() && self.len() == keys;
        if is_quiet && report.live != keys {
            let message = format!("{} live records, {keys} keys in the index", report.live);
            return Err(Error::corrupt(message).in_file(&self.shared.dir));
        }
        self.shared.verify_others()?;
        Ok(report)
    }
}

impl Shared {
    /// Checks the files that make openings short and safe. An opening does without one that is
    /// damaged, and the next close writes it anew.
    fn verify_others(&self) -> Result<()> {
        let names = self.disk.list(&self.dir)?;
        for name in backup::admitted(&*self.disk, &self.dir, names, true)? {
            let kind = match name.as_str() {
                end::FILE => FileKind::LogEnd,
                checkpoint::FILE => FileKind::LogCheckpoint,
                backup::FILE => FileKind::LogBackup,
                name if hint::number_of(name).is_some() => FileKind::LogHint,
                _ => continue,
            };
            let path = self.dir.join(&name);
            let checked =
                self.disk.map(&path).and_then(|map| Frozen::open(map, &path, kind)?.verify());
            match checked {
                // A writer removed it meanwhile.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e.in_file(&path)),
                Ok(()) => {}
            }
        }
        Ok(())
    }
}
