//! Opening a store: which files make it up, where the log ends, and what is in the index.
//!
//! 1. `survey` reads the head of every segment: its header, and its link to the segment before.
//! 2. `Chain::follow` finds the end of the log. Links say up to which segment everything was
//!    durable. Behind that the log may end anywhere: the next segment is part of it if it is linked
//!    to exactly the end of the records of the one before. So what a power cut left behind a hole
//!    is not taken, however whole it looks, and neither is what an earlier recovery dropped.
//!    A log that ends before a place that was durable once (`end::check`) is damaged there.
//! 3. `Chain::members`: the last link lists the segments of the store; what was removed since is
//!    in the last segment. A member that is missing is an error; files that are no members are
//!    what compaction or a crash left over, and are removed.
//! 4. `Loader::fill` puts what the members hold into the index, in the order of the log. The
//!    checkpoint that it begins with was read before all else: beside a writer it could be ahead of
//!    segments that were read earlier, and lack what they have in later ones. Damage before the
//!    end of a member is an error that says where.
//! 5. The active segment goes on where its records end if there are zeros behind; otherwise a write
//!    was torn there, and a new segment begins.
//!
//! Nothing on disk changes but that files which are not part of the store go away, so an opening
//! that is interrupted does no harm: the next one finds the same.

use crate::disk::{DiskRef, ForkGuard, Lock};
use crate::log::admin::backup;
use crate::log::failpoints::Failpoint;
use crate::log::index::writer::IndexWriter;
use crate::log::maintenance::backpressure::Pace;
use crate::log::maintenance::checkpoint::{self, Checkpoint};
use crate::log::maintenance::threads::Wake;
use crate::log::open::chain::{Chain, survey};
use crate::log::open::durable_end::{self as end, End};
use crate::log::open::loader::Loader;
use crate::log::open::refresh::Seen;
use crate::log::open::store::Shared;
use crate::log::options::Options;
use crate::log::read::get::UsualLines;
use crate::log::segments::hint_file as hint;
use crate::log::segments::reserve::Reserve;
use crate::log::segments::segment::{Bytes, SEGMENTS_MAX, Segment, after, file_name, number_of};
use crate::log::stats::{Counters, Recovery};
use crate::log::write::group_commit::{GroupCommit, Position};
use crate::log::write::writer::{Start, Writer};
use crate::sync::Swap;
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

pub(crate) const LOCK: &str = "lock";

/// How often an opening beside a writer is tried again when a file goes away under it.
const ATTEMPTS: usize = 16;

/// Opens the store in a directory: everything but its thread.
pub(crate) fn open(disk: DiskRef, dir: &Path, options: Options) -> Result<Shared> {
    for _ in 1..ATTEMPTS {
        match attempt(disk.clone(), dir, options.clone()) {
            // Perhaps the writer began or removed a segment meanwhile.
            Err(e) if options.read_only && is_transient(&e) => {}
            opened => return opened,
        }
    }
    attempt(disk, dir, options)
}

/// Whether a file may only have gone away, or begun, under a reader.
pub(crate) fn is_transient(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt)
}

fn attempt(disk: DiskRef, dir: &Path, options: Options) -> Result<Shared> {
    let started = std::time::Instant::now();
    if !options.read_only {
        prepare_dir(&disk, dir, options.create)?;
    }
    let disk = disk.hold(dir).map_err(|e| match e.kind() {
        ErrorKind::NotFound => absent(dir),
        _ => e,
    })?;
    let lock = (!options.read_only).then(|| lock(&disk, dir)).transpose()?;
    let checkpoint = Checkpoint::open(&*disk, options.access, dir).ok(); // Without it the hints do.
    let Found { id, names, chain, known_end } = look(&disk, dir, &options)?;
    let mut loader = Loader::new(id, options.index_bits);
    let recovered = chain.load(&disk, dir, &mut loader, &options)?;
    let checkpointed = loader.fill(checkpoint)?;
    let counters = Counters::new(Recovery {
        dropped_bytes: recovered.dropped_bytes,
        dropped_files: recovered.leftovers.len() as u64,
        hinted_segments: loader.hinted,
        scanned_segments: loader.scanned,
        seconds: started.elapsed().as_secs_f64(),
    });
    counters.keys.store(loader.writer.entries(), Ordering::Relaxed);
    counters.live_bytes.store(loader.live_bytes(), Ordering::Relaxed);
    let mut shared = Shared {
        disk,
        dir: dir.to_path_buf(),
        options,
        id,
        index: loader.index,
        table: Swap::from_pointee(loader.table),
        usual: UsualLines::default(),
        writer: Mutex::new(None),
        commit: GroupCommit::default(),
        counters,
        failed: OnceLock::new(),
        wake: Wake::default(),
        compacting: Mutex::default(),
        removed: Mutex::default(),
        sealing: Mutex::new(()),
        is_paused: false.into(),
        views: Mutex::default(),
        view_count: 0.into(),
        checkpointed: checkpointed.into(),
        pace: Pace::default(),
        reserve: Reserve::default(),
        recorded_end: known_end.unwrap_or_default().into(),
        backup_end: None,
        seen: None,
        lock,
        fork: ForkGuard::new(),
    };
    if shared.options.read_only {
        shared.seen = Some(Seen { names, last: recovered.last, index: loader.writer });
    } else {
        shared.backup_end = backup::end_of(&*shared.disk, dir, &names);
        let writer = start_writing(&shared, recovered, loader.writer)?;
        *shared.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(writer);
    }
    Ok(shared)
}

/// What a directory holds.
pub(crate) struct Found {
    /// Of the store; a new one if there is none yet.
    pub(crate) id: u64,
    /// Of its files, before any was read.
    pub(crate) names: Vec<String>,
    pub(crate) chain: Chain,
    /// A place up to which the log was durable for certain.
    known_end: Option<Position>,
}

/// Finds the log in a directory.
pub(crate) fn look(disk: &DiskRef, dir: &Path, options: &Options) -> Result<Found> {
    let known_end = End::read(&**disk, dir)?;
    let names = disk.list(dir)?;
    // A reader must look at this after it has listed the files: see `backup/manifest.rs`.
    let part = backup::admitted(&**disk, dir, names.clone(), options.read_only)?;
    let hints: BTreeSet<u64> = part.iter().filter_map(|name| hint::number_of(name)).collect();
    let files = survey(disk, dir, &part, &hints, options)?;
    if files.is_empty() && options.create && !options.read_only {
        // A process that died while it created the store may have left the directory's own name
        // unsynced.
        disk.create_dir_all(dir)?;
    }
    let id = match files.iter().find_map(|file| file.head.as_ref().ok()) {
        Some(head) => head.header.store,
        None => {
            end::check_new(&part, !hints.is_empty(), dir)?;
            if !options.create || options.read_only {
                return Err(absent(dir));
            }
            new_id()
        }
    };
    let known_end = known_end.and_then(|end| end.position(id));
    let chain = Chain::follow(disk, files, hints, id, dir)?;
    end::check(known_end, chain.last, dir)?;
    Ok(Found { id, names, chain, known_end })
}

/// Makes the directory if need be. `NotFound` if it holds no store and none may be created: then
/// not even a lock is left in it.
fn prepare_dir(disk: &DiskRef, dir: &Path, create: bool) -> Result<()> {
    let is_of_store = |name: &String| {
        let numbered = number_of(name).or(hint::number_of(name)).is_some();
        numbered || [end::FILE, checkpoint::FILE].contains(&name.as_str())
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

/// Takes the right to write.
fn lock(disk: &DiskRef, dir: &Path) -> Result<Box<dyn Lock>> {
    let lock = disk.lock(&dir.join(LOCK))?;
    lock.check()?; // The directory may have been replaced since it was opened.
    Ok(lock)
}

fn absent(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is no log store in this directory").in_file(dir)
}

/// An id that no other store has: 64 bits that the standard library draws at random.
fn new_id() -> u64 {
    #[cfg(test)]
    if let Some(id) = crate::log::failpoints::active::STORE.get() {
        return id;
    }
    RandomState::new().hash_one(std::time::SystemTime::now())
}

/// Removes what is not part of the store, and begins to write where the log ends.
fn start_writing(shared: &Shared, recovered: Recovered, index: IndexWriter) -> Result<Writer> {
    if !recovered.leftovers.is_empty() {
        // That a segment was removed may be said by records that no power cut has spared yet: they
        // must last before it goes.
        let active = recovered.active.iter().map(|(_, segment)| segment);
        recovered.unsynced.iter().chain(active).try_for_each(|s| s.sync(s.end()))?;
        shared.disk.sync_dir(&shared.dir)?;
        for name in &recovered.leftovers {
            shared.disk.remove(&shared.dir.join(name))?;
        }
        // Compaction drops deletes in the belief that what they hide is gone for good.
        shared.disk.sync_dir(&shared.dir)?;
    }
    let Recovered { last, next_number, durable, link_durable, unsynced, active, .. } = recovered;
    let start = Start { index, next_number, durable, link_durable, last };
    let mut writer = match active {
        Some((map, segment)) => Writer::resume(start, map, segment),
        None => Writer::begin(shared, start)?,
    };
    writer.unsynced = unsynced;
    Ok(writer)
}

impl Chain {
    /// Opens the segments of the store.
    fn load(
        self,
        disk: &DiskRef,
        dir: &Path,
        loader: &mut Loader,
        options: &Options,
    ) -> Result<Recovered> {
        let (read_only, mode) = (options.read_only, options.append_mode);
        let members = self.members()?;
        let mut unsynced = Vec::new();
        let mut active = None;
        let mut dropped_bytes = 0;
        for (slot, &(number, end)) in members.iter().enumerate() {
            let path = dir.join(file_name(number));
            let (file, head) = self.part(number, &path)?;
            let rest = file.map.get(end as usize..).unwrap_or(&[]);
            let torn = torn_bytes(rest);
            let is_last = number == self.last.0;
            let (bytes, map) = if !read_only && (number > self.durable || is_last) {
                let (map, writer) = disk.open_append_map(&path, end as usize, mode)?;
                (Bytes::AppendMap(map), Some(writer))
            } else {
                (Bytes::Sealed(file.map.clone(), end as usize), None)
            };
            if slot >= SEGMENTS_MAX {
                return Err(Error::new(ErrorKind::Failed, "the store has too many segments"));
            }
            let segment = Segment::new(number, slot, head.header.alignment_log2, path, bytes);
            let segment = Arc::new(segment.accessed(&**disk, options.access)?);
            loader.table.put(segment.slot, Arc::clone(&segment));
            self.set_hint(&**disk, options.access, dir, &segment);
            match map {
                Some(map) if is_last && torn == 0 => active = Some((map, segment)),
                Some(_) => {
                    dropped_bytes += if is_last { torn as u64 } else { 0 };
                    unsynced.push(segment);
                }
                None => {}
            }
        }
        let is_member = |n: u64| members.iter().any(|&(number, _)| number == n);
        let segments = self.files.iter().map(|file| (file.number, file_name(file.number)));
        let hints = self.hints.iter().map(|&number| (number, hint::file_name(number)));
        let leftovers = segments.chain(hints).filter(|&(number, _)| !is_member(number));
        let leftovers: Vec<String> = leftovers.map(|(_, name)| name).collect();
        let next_number = after(self.newest_number())?;
        let (last, durable) = (self.last, self.durable);
        let head = self.file(last.0).and_then(|file| file.head.as_ref().ok());
        let link_durable = head.map_or(0, |head| head.link.durable);
        Ok(Recovered {
            last,
            next_number,
            durable,
            link_durable,
            unsynced,
            active,
            leftovers,
            dropped_bytes,
        })
    }
}

/// Number of bytes behind the end of the records up to where there are only zeros.
fn torn_bytes(rest: &[u8]) -> usize {
    match rest.iter().rposition(|&byte| byte != 0) {
        Some(at) if !Failpoint::ResumeTornSegment.is_on() => at + 1,
        _ => 0,
    }
}

/// What the files of a store say about where it ends.
struct Recovered {
    last: Position,
    next_number: u64,
    durable: u64,
    /// What the last segment's link says of that.
    link_durable: u64,
    /// Segments that may not be durable, in order.
    unsynced: Vec<Arc<Segment>>,
    /// The segment to go on with; `None` if its end is torn.
    active: Option<(crate::disk::AppendMapWriter, Arc<Segment>)>,
    /// Names of the files that are not part of the store.
    leftovers: Vec<String>,
    dropped_bytes: u64,
}
