//! Collects records, sorts them by key, and writes the table.

use crate::Result;
use crate::disk::envelope::{EnvelopeWriter, Kind};
use crate::disk::spool::TempSpace;
use crate::disk::{self, Append, write_behind};
use crate::table::build::ordered::buffer::{Buffer, ENTRY};
use crate::table::build::ordered::direct::{Direct, DirectInput};
use crate::table::build::ordered::runs::{Added, RunWriter, Runs};
use crate::table::build::ordered::writer::{Names, OrderedWriter};
use crate::table::build::partitions::record_lost;
use crate::table::build::table_writer::{BuildReport, ProgressFn, cancelled};
use crate::table::format::version_of;
use crate::table::options::{BuildOptions, Order, Progress};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a chunk, unless one record is longer.
const CHUNK: usize = 1 << 20;
/// Records between two reports of progress.
const REPORT: u64 = 1 << 14;

/// Collects the records of a table in key order.
pub(crate) struct Collector {
    path: PathBuf,
    options: BuildOptions,
    space: TempSpace,
    records: Buffer,
    runs: Runs,
    /// Takes the records instead, while they come in key order.
    direct: Option<Direct>,
    added: u64,
    /// Duplicates that were dropped before.
    duplicates: u64,
    /// A record was not taken, so the build must fail.
    failed: bool,
}

/// How messages name origins.
pub(crate) type SharedNames = Arc<dyn Fn(u64) -> String + Sync + Send>;

impl Collector {
    pub(crate) fn new(path: &Path, options: &BuildOptions, space: TempSpace) -> Collector {
        Collector {
            path: path.to_path_buf(),
            options: options.clone(),
            space,
            records: Buffer::default(),
            runs: Runs::default(),
            direct: None,
            added: 0,
            duplicates: 0,
            failed: false,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, added: Added, names: &SharedNames) -> Result<()> {
        let pushed = self.try_push(added, names);
        self.failed |= pushed.is_err();
        pushed
    }

    fn try_push(&mut self, added: Added, names: &SharedNames) -> Result<()> {
        let budget = self.space.memory;
        let is_full = self.records.bytes + added.encoded_len() + ENTRY > budget;
        if is_full && !self.records.is_empty() {
            self.make_room(names)?;
        }
        if let Some(direct) = &mut self.direct {
            if direct.push(added)? {
                self.added += 1;
                return Ok(());
            }
            if !self.end_direct()? {
                self.added += 1;
                return Ok(());
            }
        }
        self.records.push(added, CHUNK.min(budget / 16));
        self.added += 1;
        Ok(())
    }

    /// Empties the memory: begins to write the table if the keys came in order, or writes a run.
    fn make_room(&mut self, names: &SharedNames) -> Result<()> {
        if self.runs.is_empty() && self.direct.is_none() && self.records.is_ascending() {
            let input = DirectInput {
                path: self.path.clone(),
                options: self.options.clone(),
                space: self.space.clone(),
                names: names.clone(),
            };
            match Direct::start(input, std::mem::take(&mut self.records)) {
                Ok(direct) => {
                    self.direct = Some(direct);
                    return Ok(());
                }
                Err(records) => self.records = records,
            }
        }
        self.spill()
    }

    /// Takes the records back, because a key was out of order. False if the build fails because of
    /// its input.
    fn end_direct(&mut self) -> Result<bool> {
        let Some(direct) = &mut self.direct else { return Ok(true) };
        let Some((run, duplicates)) = direct.give_back()? else { return Ok(false) };
        self.direct = None;
        self.duplicates += duplicates;
        self.runs.push(run, &self.space)?;
        Ok(true)
    }

    /// Writes the records in memory to a temporary file, in order.
    fn spill(&mut self) -> Result<()> {
        self.records.sort(self.options.threads);
        let mut run = RunWriter::create(&self.space)?;
        self.records.each(&mut |added| run.push(added))?;
        self.records = Buffer::default();
        self.runs.push(run.finish()?, &self.space)
    }

    /// Writes and publishes the table.
    pub(crate) fn publish(
        mut self,
        names: Names,
        progress: &mut ProgressFn,
    ) -> Result<BuildReport> {
        if self.failed {
            return Err(record_lost());
        }
        if let Some(direct) = self.direct.take() {
            let total = self.added;
            return direct.finish(&mut || progress(Progress { done: total, total }));
        }
        match self.runs.is_empty() {
            true => self.records.sort(self.options.threads),
            false if self.records.is_empty() => {}
            false => self.spill()?,
        }
        disk::publish(&*self.space.disk, &self.path, |out| {
            let mut write = |out: &mut dyn Append| self.write(out, names, progress);
            if self.options.threads < 2 { write(out) } else { write_behind(out, write) }
        })
    }

    fn write(
        &self,
        out: &mut dyn Append,
        names: Names,
        progress: &mut ProgressFn,
    ) -> Result<BuildReport> {
        let mut out = EnvelopeWriter::with_version(out, Kind::Table, version_of(Order::Key))?;
        let mut writer = OrderedWriter::new(&self.options, &self.space, names);
        let mut report = |done: u64| match progress(Progress { done, total: self.added }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(cancelled()),
        };
        let mut passed: u64 = 0;
        let mut take = |added: Added| {
            passed += 1;
            if passed.is_multiple_of(REPORT) {
                report(self.duplicates + passed)?;
            }
            writer.push(&mut out, added)
        };
        match self.runs.is_empty() {
            true => self.records.each(&mut take)?,
            false => self.runs.merge(&mut take)?,
        }
        let written = writer.finish(&mut out)?;
        report(self.added)?;
        out.finish()?;
        Ok(BuildReport {
            spilled: written.spilled + self.runs.spilled,
            duplicates: written.duplicates + self.duplicates,
            ..written
        })
    }
}
