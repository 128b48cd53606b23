//! Opening a store: which files it consists of, where the log ends, and what is in the index.
//!
//! 1. [`survey`] reads the head of every segment: its header, and its link to the previous segment.
//! 2. [`Chain::follow`] finds the end of the log. Links state up to which segment everything was
//!    durable. After that the log may end anywhere: the next segment is part of it if it is linked
//!    to exactly the end of the previous one's records. So records that a power cut left after a
//!    hole are not taken, however intact they look, nor records that an earlier recovery dropped. A
//!    log that ends before a position that was durable once ([`durable_end::check`]) is corrupt
//!    there.
//! 3. [`Chain::members`]: the last link lists the segments of the store; `Removed` records in the
//!    last segment list those that were removed since. A missing member is an error. Files that are
//!    not members were left by compaction or a crash, and are removed.
//! 4. [`Loader::fill`] puts the records of the members into the index, in the order of the log. The
//!    checkpoint that it begins with was read before everything else: next to a writer it could
//!    otherwise be ahead of segments that were read earlier. Damage before the end of a member is
//!    an error with its position.
//! 5. The active segment continues where its records end, if there are zeros after them. Otherwise
//!    a write was torn there, and a new segment begins.
//!
//! Nothing on disk changes except that files which are not part of the store are removed, so an
//! opening that is interrupted does no harm: the next one finds the same state.

use crate::disk::{AppendMapWriter, DiskRef, Lock};
use crate::log::failpoints::Failpoint;
use crate::log::format::names::{
    CHECKPOINT, DURABLE_END, LOCK, hint_file, hint_number, segment_file, segment_number,
    segment_or_hint_number,
};
use crate::log::format::segment_head::LogPosition;
use crate::log::index::hash_index::Index;
use crate::log::index::pages::Shape;
use crate::log::index::writer::IndexWriter;
use crate::log::open::chain::{Chain, SegmentFile, survey};
use crate::log::open::key_runs::{find_runs, leftover_runs};
use crate::log::open::loader::Loader;
use crate::log::open::{checkpoint_file, durable_end, unfinished_backup};
use crate::log::options::Options;
use crate::log::segments::durable_end_file;
use crate::log::segments::reserve::{Need, Reserve};
use crate::log::segments::segment::{Segment, SegmentBytes, next_number};
use crate::log::segments::segment_table::{SegmentTable, Slots};
use crate::log::state::backpressure::Backpressure;
use crate::log::state::counters::Counters;
use crate::log::state::directory::Directory;
use crate::log::state::group_commit::GroupCommit;
use crate::log::state::key_order::{KeyOrder, Sources};
use crate::log::state::log_writer::LogWriter;
use crate::log::state::lookup::Lookup;
use crate::log::state::maintenance_state::MaintenanceState;
use crate::log::state::refresh_point::RefreshPoint;
use crate::log::state::shared::Shared;
use crate::log::state::snapshots::Snapshots;
use crate::log::stats::Recovery;
use crate::log::write::active_segment::{WriterStart, begin, resume};
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

/// How often opening for reading next to a writer is retried when a file disappears meanwhile.
const ATTEMPTS: usize = 16;

/// Opens the store in a directory, without its threads.
pub(crate) fn open(disk: DiskRef, dir: &Path, options: Options) -> Result<Shared> {
    for _ in 1..ATTEMPTS {
        match attempt(disk.clone(), dir, options.clone()) {
            // The writer may have begun or removed a segment meanwhile.
            Err(e) if options.read_only && is_transient(&e) => {}
            opened => return opened,
        }
    }
    attempt(disk, dir, options)
}

/// Whether this may be the error of a reader under which a file was removed or begun.
pub(crate) fn is_transient(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt)
}

fn attempt(disk: DiskRef, dir: &Path, options: Options) -> Result<Shared> {
    let started = Instant::now();
    if !options.read_only {
        prepare_dir(&disk, dir, options.create)?;
    }
    let disk = disk.hold(dir).map_err(|e| match e.kind() {
        ErrorKind::NotFound => absent(dir),
        _ => e,
    })?;
    let lock = (!options.read_only).then(|| lock(&disk, dir)).transpose()?;
    let checkpoint = checkpoint_file::open(&*disk, options.access, dir).ok(); // Optional.
    let LogFiles { id, names, chain, known_end } = find_log(&disk, dir, &options)?;
    let shape = Shape::new(options.index_bits, options.index_doublings);
    let mut loader = Loader::new(id, Shape { chunks: options.index_chunks, ..shape })?;
    let is_ordered = check_order(chain.is_ordered, &options, dir)?;
    let members = chain.members()?;
    let mut recovered = load_segments((chain, &members), &disk, dir, &mut loader.table, &options)?;
    let mut order = None;
    if is_ordered {
        let (last, known) = (recovered.last.0, Sources::default());
        let runs = find_runs((&*disk, options.access), dir, id, last, &names, &known)?;
        if !options.read_only {
            recovered.leftovers.extend(leftover_runs(&*disk, dir, id, &names, &runs));
        }
        order = Some(KeyOrder::new(Sources::of(runs, &loader.table.in_order())));
    }
    let has_checkpoint = checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.store == id);
    let checkpointed = loader.fill(checkpoint)?;
    if has_checkpoint && checkpointed == 0 && !options.read_only {
        // It does not match the hints. It might match new ones, and mean other entries of them.
        recovered.leftovers.push(CHECKPOINT.to_string());
    }
    let counters = counters(&loader, recovered.report(), started);
    let mut shared = Shared {
        dir: Directory::new(disk, dir, id, lock, known_end.unwrap_or_default()),
        options,
        lookup: Lookup::new(id, loader.index, loader.table),
        order,
        writer: Mutex::new(None),
        group_commit: GroupCommit::default(),
        snapshots: Snapshots::default(),
        counters,
        reserve: Reserve::default(),
        backpressure: Backpressure::default(),
        maintenance: MaintenanceState::new(checkpointed),
        refresh_point: Mutex::new(None),
    };
    if shared.options.read_only {
        let (last, index) = (recovered.last, loader.writer);
        let level = shared.lookup.index.pages.base();
        let point = RefreshPoint { names, last, index, level, retired: Vec::new() };
        shared.refresh_point = Mutex::new(Some(point));
    } else {
        let backup_end = unfinished_backup::backup_end(&*shared.dir.disk, dir, &names);
        shared.maintenance.backup_end = backup_end;
        let mut table = SegmentTable::clone(&shared.lookup.segments.load());
        let start = prepare_writing(&shared, recovered, &mut table, Need::Compact)?;
        shared.lookup.segments.store(Arc::new(table));
        let mut writer = start(loader.writer);
        writer.tail = shared.order.as_ref().map(|order| order.begin(&writer.segment));
        *shared.lock_any() = Some(writer);
    }
    Ok(shared)
}

fn counters(loader: &Loader<Index>, report: Recovery, started: Instant) -> Counters {
    let recovery = Recovery {
        hinted_segments: loader.hinted,
        scanned_segments: loader.scanned,
        seconds: started.elapsed().as_secs_f64(),
        ..report
    };
    Counters {
        keys: loader.writer.entries().into(),
        live_bytes: loader.live_bytes().into(),
        recovery: recovery.into(),
        ..Counters::default()
    }
}

/// Whether the store is ordered, or will be. `InvalidArgument` if it is not and should be.
fn check_order(is_ordered: Option<bool>, options: &Options, dir: &Path) -> Result<bool> {
    if is_ordered == Some(false) && options.ordered {
        let message = "the store is not ordered, and stays as it is: copy its records into a new \
                       store that is created as an ordered one";
        return Err(Error::invalid(message).in_file(dir));
    }
    Ok(is_ordered.unwrap_or(options.ordered))
}

/// The files of a log.
pub(crate) struct LogFiles {
    /// Id of the store; a new one if there is no store yet.
    pub(crate) id: u64,
    /// The names in the directory, before any file was read.
    pub(crate) names: Vec<String>,
    pub(crate) chain: Chain,
    /// A position up to which the log is known to have been durable.
    pub(crate) known_end: Option<LogPosition>,
}

/// Finds the log in a directory.
pub(crate) fn find_log(disk: &DiskRef, dir: &Path, options: &Options) -> Result<LogFiles> {
    find_log_after(disk, dir, options, &ReadBefore::default())
}

/// What is known of a log that was read before.
#[derive(Default)]
pub(crate) struct ReadBefore {
    /// Numbers of segments that have hints, without the last one that has. Their files are left
    /// out.
    pub(crate) sealed: BTreeSet<u64>,
    /// Where the records of segments ended.
    pub(crate) ends: BTreeMap<u64, u64>,
}

/// [`find_log`] of a log that was read before. Reads what may have changed since.
pub(crate) fn find_log_after(
    disk: &DiskRef,
    dir: &Path,
    options: &Options,
    known: &ReadBefore,
) -> Result<LogFiles> {
    let known_end = durable_end_file::read(&**disk, dir)?;
    let names = disk.list(dir)?;
    // A reader must read the manifest after it has listed the files.
    let mut part = unfinished_backup::store_files(&**disk, dir, names.clone(), options.read_only)?;
    let hints: BTreeSet<u64> = part.iter().filter_map(|name| hint_number(name)).collect();
    part.retain(|name| segment_number(name).is_none_or(|number| !known.sealed.contains(&number)));
    let files = survey(disk, dir, &part, &hints, options)?;
    if files.is_empty() && options.create && !options.read_only {
        // If a process died while it created the store, the directory's own name may not be synced.
        disk.create_dir_all(dir)?;
    }
    let id = match files.iter().find_map(|file| file.head.as_ref().ok()) {
        Some(_) if options.create_new => {
            let message = "there is a store in this directory, and it was to be created";
            return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir));
        }
        Some(head) => head.header.store,
        None => {
            durable_end::check_new(&part, !hints.is_empty(), dir)?;
            if !options.create || options.read_only {
                return Err(absent(dir));
            }
            new_id()
        }
    };
    let known_end = known_end.and_then(|end| end.position_in(id));
    let chain = Chain::follow(disk, files, hints, (id, dir), &known.ends)?;
    durable_end::check(known_end, chain.last, dir)?;
    Ok(LogFiles { id, names, chain, known_end })
}

/// Creates the directory if necessary. `NotFound` if it holds no store and none may be created;
/// then no lock is left in it either.
fn prepare_dir(disk: &DiskRef, dir: &Path, create: bool) -> Result<()> {
    let is_of_store = |name: &String| {
        segment_or_hint_number(name).is_some() || [DURABLE_END, CHECKPOINT].contains(&name.as_str())
    };
    match disk.list(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound && create => disk.create_dir_all(dir),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(absent(dir)),
        names => match create || names?.iter().any(is_of_store) {
            true => Ok(()),
            false => Err(absent(dir)),
        },
    }
}

/// Takes the lock of the writer.
pub(crate) fn lock(disk: &DiskRef, dir: &Path) -> Result<Box<dyn Lock>> {
    let lock = disk.lock(&dir.join(LOCK))?;
    lock.check()?; // The directory may have been replaced since it was opened.
    Ok(lock)
}

fn absent(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is no log store in this directory").in_file(dir)
}

/// The id of a new store: 64 random bits from the standard library.
fn new_id() -> u64 {
    #[cfg(test)]
    if let Some(id) = crate::log::failpoints::active::STORE.get() {
        return id;
    }
    RandomState::new().hash_one(std::time::SystemTime::now())
}

/// Removes files that are not part of the store, and finds the active segment. Begins a new one if
/// necessary, and puts it into `table`, which is not that of the store yet. Returns the writer,
/// which only lacks the index.
pub(crate) fn prepare_writing(
    shared: &Shared,
    recovered: Recovered,
    table: &mut SegmentTable<Segment>,
    need: Need,
) -> Result<impl FnOnce(IndexWriter) -> LogWriter + use<>> {
    for name in &recovered.spares {
        shared.dir.disk.remove(&shared.dir.file(name))?;
    }
    if !recovered.leftovers.is_empty() {
        // The records that say that a segment was removed may not be durable yet. They must be
        // before its file is removed.
        let active = recovered.active.iter().map(|(_, segment)| segment);
        recovered.unsynced.iter().chain(active).try_for_each(|s| s.sync(s.end()))?;
        shared.dir.disk.sync_dir(&shared.dir.path)?;
        for name in &recovered.leftovers {
            shared.dir.disk.remove(&shared.dir.file(name))?;
        }
        // Compaction drops deletes on the assumption that the records they hide are gone for good.
        shared.dir.disk.sync_dir(&shared.dir.path)?;
    }
    let Recovered { last, next_number, slots, durable, link_durable, unsynced, .. } = recovered;
    let mut start = WriterStart { next_number, slots, unsynced, durable, link_durable, last };
    let active = match recovered.active {
        Some(active) => active,
        None => begin(shared, &mut start, table, need)?,
    };
    Ok(move |index| resume(start, active, index))
}

/// Opens the segments of the store, which are `members`, and puts them into the table. A segment
/// that is in the table already keeps its slot and its counts, and is opened again unless it is
/// sealed.
pub(crate) fn load_segments(
    (chain, members): (Chain, &[LogPosition]),
    disk: &DiskRef,
    dir: &Path,
    table: &mut SegmentTable<Segment>,
    options: &Options,
) -> Result<Recovered> {
    let (read_only, mode) = (options.read_only, options.append_mode);
    let known: BTreeMap<u64, Arc<Segment>> =
        table.iter().map(|segment| (segment.number, Arc::clone(segment))).collect();
    let mut unsynced = Vec::new();
    let mut active = None;
    let mut dropped_bytes = 0;
    for (slot, &(number, end)) in members.iter().enumerate() {
        let path = dir.join(segment_file(number));
        let is_last = number == chain.last.0;
        let before = known.get(&number);
        if !is_last && before.is_some_and(|before| before.hint.get().is_some()) {
            continue;
        }
        let slot = before.map_or(slot, |before| before.slot);
        let (file, head) = chain.segment(number, &path)?;
        let rest = file.map.get(end as usize..).unwrap_or(&[]);
        let torn = torn_bytes(rest);
        let (bytes, map) = if !read_only && (number > chain.durable || is_last) {
            let (map, writer) = disk.open_append_map(&path, end as usize, mode)?;
            (SegmentBytes::AppendMap(map), Some(writer))
        } else {
            (SegmentBytes::Sealed(file.map.clone(), end as usize), None)
        };
        if slot >= options.segments_max {
            return Err(Error::new(ErrorKind::Failed, "the store has too many segments"));
        }
        let segment = Segment::new(number, slot, head.header.alignment_log2, path, bytes);
        let segment = Arc::new(segment.accessed(&**disk, options.access)?);
        before.inspect(|before| segment.inherit(before));
        table.put(segment.slot, Arc::clone(&segment));
        let is_active = is_last && torn == 0;
        // If a power cut lost the segment after the last one, that may have a hint. It will get
        // more records, and then another hint.
        if map.is_none() || !is_active {
            chain.set_hint(&**disk, options.access, dir, &segment);
        }
        match map {
            Some(map) if is_active => active = Some((map, segment)),
            Some(_) => {
                dropped_bytes += if is_last { torn as u64 } else { 0 };
                unsynced.push(segment);
            }
            None => {}
        }
    }
    let (spares, leftovers) = leftovers(&chain, members);
    let next_number = next_number(chain.newest_number())?;
    let (last, durable) = (chain.last, chain.durable);
    let head = chain.file(last.0).and_then(|file| file.head.as_ref().ok());
    let link_durable = head.map_or(0, |head| head.link.durable);
    Ok(Recovered {
        last,
        next_number,
        slots: Slots::new(members.len(), options.segments_max),
        durable,
        link_durable,
        unsynced,
        active,
        spares,
        leftovers,
        dropped_bytes,
    })
}

/// The names of the segments and hints that are not part of the store, without and with what may
/// have been part of it.
fn leftovers(chain: &Chain, members: &[LogPosition]) -> (Vec<String>, Vec<String>) {
    let is_member = |n: u64| members.iter().any(|&(number, _)| number == n);
    let is_spare = |file: &&SegmentFile| file.head.is_err() && file.number > chain.last.0;
    let spares = chain.files.iter().filter(is_spare);
    let spares = spares.map(|file| segment_file(file.number)).collect();
    let segments = chain.files.iter().filter(|file| !is_spare(file));
    let segments = segments.map(|file| (file.number, segment_file(file.number)));
    let hints = chain.hints.iter().map(|&number| (number, hint_file(number)));
    let leftovers = segments.chain(hints).filter(|&(number, _)| !is_member(number));
    (spares, leftovers.map(|(_, name)| name).collect())
}

/// Number of bytes after the end of the records, up to where there are only zeros.
fn torn_bytes(rest: &[u8]) -> usize {
    if Failpoint::ResumeTornSegment.is_on() {
        return 0;
    }
    // Blocks are compared several times faster than bytes.
    const ZEROS: [u8; 4096] = [0; 4096];
    let blocks = rest.rchunks(ZEROS.len()).take_while(|block| **block == ZEROS[..block.len()]);
    let zeros: usize = blocks.map(<[u8]>::len).sum();
    rest[..rest.len() - zeros].iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1)
}

/// The end of the log, and what was found there.
pub(crate) struct Recovered {
    last: LogPosition,
    next_number: u64,
    slots: Slots<Segment>,
    durable: u64,
    /// `durable` as stated in the last segment's link.
    link_durable: u64,
    /// Segments that may not be durable, in order.
    unsynced: Vec<Arc<Segment>>,
    /// The segment to continue with; `None` if a new one is to begin, because its end is torn.
    active: Option<(AppendMapWriter, Arc<Segment>)>,
    /// Names of newer segments that have no head: the spare one. They were never part of the store,
    /// so nothing has to be durable before they are removed.
    spares: Vec<String>,
    /// Names of the other files that are not part of the store.
    leftovers: Vec<String>,
    dropped_bytes: u64,
}

impl Recovered {
    /// Lets a new segment begin after the last one in any case. It gets none of these slots while
    /// their former segments are held.
    pub(crate) fn begin_new(mut self, retired: Vec<(usize, Weak<Segment>)>) -> Recovered {
        self.unsynced.extend(self.active.take().map(|(_, segment)| segment));
        self.slots = self.slots.without(retired);
        self
    }

    /// These files are not part of the store either.
    pub(crate) fn without(mut self, files: Vec<String>) -> Recovered {
        self.leftovers.extend(files);
        self
    }

    /// What was found there, for the statistics.
    pub(crate) fn report(&self) -> Recovery {
        let dropped_files = (self.spares.len() + self.leftovers.len()) as u64;
        Recovery { dropped_bytes: self.dropped_bytes, dropped_files, ..Recovery::default() }
    }
}
