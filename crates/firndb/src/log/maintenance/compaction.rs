//! Compaction: the live records of a segment are appended to the log once more, then its file goes.
//!
//! 1. `Shared::victim` chooses the sealed, durable segment with the largest share of stale bytes,
//!    if it passes the threshold. Deletes count as stale only as far as nothing older needs them.
//! 2. `Shared::evacuate` goes through its records. What the index points to is appended again, as
//!    a write like any other: so the order of the log stays the order of writes, and a crash in
//!    between leaves two copies of which the later holds. A delete is appended again as long as an
//!    older segment may hold a version of its key; and so is, as a delete, a record whose time has
//!    passed, for it too hides older versions.
//! 3. A `Removed` record says that the segment is no part of the store any more.
//! 4. When everything up to there is durable, its file is removed, and the directory synced: what
//!    was taken for stale may be so only by writes that were not durable before. While segments
//!    fill up they are synced anyway, so nobody syncs for this but when there is nothing else to
//!    do. Only after it may a later compaction rely on the file's absence to drop a delete.
//!
//! Readers that have the segment keep its map. At no time does the lock of the writers cover more
//! than one record.

use crate::log::failpoints::Failpoint;
use crate::log::format::record::{Kind, Record, head_length};
use crate::log::maintenance::threads::{Stretches, Task};
use crate::log::open::store::{LogStore, Shared};
use crate::log::read::get::GROUP;
use crate::log::segments::hint_file::{self as hint, Records};
use crate::log::segments::reserve::Need;
use crate::log::segments::segment::{Segment, file_name};
use crate::log::write::group_commit::Position;
use crate::log::write::writer::Frame;
use crate::{Error, Result};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How long a file that may go waits for a sync that somebody else has a reason for, and how many
/// such files there may be: each holds a slot of the table.
const PATIENCE: Duration = Duration::from_millis(50);
const LEAVING_MAX: usize = 16;

/// A segment that has left the store, and whose file goes when the log is durable up to here.
pub(crate) struct Leaving {
    segment: Arc<Segment>,
    position: Position,
    since: Instant,
}

impl LogStore {
    /// Copies the live records of every segment of which at least this share (0 to 1) is stale, and
    /// removes those segments; 0 goes through the whole store. Returns the number of segments.
    ///
    /// Reading and writing go on meanwhile. On a full disk it uses what the store keeps in reserve
    /// for that; if even this is too little, the error is of kind `Io`.
    pub fn compact(&self, threshold: f64) -> Result<usize> {
        let shared = &*self.shared;
        match shared.seal_active(threshold) {
            Err(e) if e.is_disk_full() => {} // Then the active segment is left as it is.
            sealed => sealed?,
        }
        let position = shared.writer()?.position();
        shared.make_durable(position)?;
        shared.finish_compaction()?; // What a pause left behind.
        let newest = shared.writer()?.durable;
        let mut tried = Vec::new();
        loop {
            let before = tried.len();
            let mut full = if_full(shared.link_stale(threshold, newest))?;
            let last = shared.writer()?.link_durable.min(newest);
            full = full.or(if_full(shared.seal_all())?);
            while let Some(victim) = shared.victim(threshold, last, &tried)? {
                shared.evacuate(&victim)?;
                tried.push(victim.number);
            }
            match full {
                None => return Ok(tried.len()),
                // There was no space for the link or for all hints, and now there is more.
                Some(_) if tried.len() > before => {}
                Some(e) => return Err(e),
            }
        }
    }

    /// Stops compaction in the background, after the record it is at. Files that it emptied and has
    /// not removed yet, 16 at most, go when it is resumed, with [`LogStore::compact`], or when the
    /// store is closed.
    pub fn pause_compaction(&self) {
        self.shared.is_paused.store(true, Ordering::Release);
        drop(self.shared.compacting.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Lets compaction in the background go on.
    pub fn resume_compaction(&self) {
        self.shared.is_paused.store(false, Ordering::Release);
        self.shared.wake(Task::Compact);
    }
}

impl Shared {
    /// Compacts one segment if one passes the threshold of the options.
    pub(crate) fn compact_step(&self) -> Result<bool> {
        let is_paused = || self.is_paused.load(Ordering::Acquire);
        let (last, end) = {
            let writer = self.writer()?;
            (writer.link_durable, writer.position())
        };
        if self.backup_end == Some(end) {
            return Ok(false); // It can be brought up to date as long as it is as it was made.
        }
        let mut leaving = self.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        if is_paused() {
            return Ok(false); // No file goes, either.
        }
        let removed = self.remove_left(&mut leaving, self.commit.durable())?;
        let Some(victim) = self.victim(self.options.compaction_threshold, last, &[])? else {
            let is_new = |leaving: &Leaving| leaving.since.elapsed() < PATIENCE;
            let may_wait = self.options.background && self.reserve.is_held();
            if may_wait && leaving.last().is_some_and(is_new) {
                return Ok(removed); // The next segment that is sealed makes it durable.
            }
            return Ok(self.remove_all(&mut leaving)? || removed);
        };
        let moved = self.evacuate_while(&victim, &mut leaving, || !is_paused());
        // On a disk that is full, or was so lately, nothing waits.
        let freed = if !self.reserve.is_held() {
            self.remove_all(&mut leaving)?
        } else if leaving.len() >= LEAVING_MAX {
            self.remove_first(&mut leaving, LEAVING_MAX / 2)?
        } else {
            false
        };
        match moved {
            Err(e) if e.is_disk_full() && freed => Ok(true),
            moved => moved,
        }
    }

    /// Removes the files of the segments that have left the store, up to a place in the log up to
    /// which it is durable. Whether there were any.
    fn remove_left(&self, leaving: &mut Vec<Leaving>, durable: Position) -> Result<bool> {
        let is_ready =
            |leaving: &Leaving| leaving.position <= durable || Failpoint::RemoveBeforeSync.is_on();
        let count = leaving.partition_point(is_ready);
        if count > 0 {
            self.check_place()?;
        }
        for Leaving { segment, .. } in &leaving[..count] {
            self.remove_if_there(&self.dir.join(file_name(segment.number)))?;
            self.remove_if_there(&self.dir.join(hint::file_name(segment.number)))?;
        }
        if count > 0 {
            self.sync_dir()?;
        }
        leaving.drain(..count);
        Ok(count > 0)
    }

    /// [`Shared::remove_left`] for all of them.
    fn remove_all(&self, leaving: &mut Vec<Leaving>) -> Result<bool> {
        self.remove_first(leaving, leaving.len())
    }

    /// The same for the first `count`, whatever has to be synced for them.
    fn remove_first(&self, leaving: &mut Vec<Leaving>, count: usize) -> Result<bool> {
        let Some(last) = leaving[..count].last() else { return Ok(false) };
        let position = last.position;
        if !Failpoint::RemoveBeforeSync.is_on() {
            self.make_durable(position)?;
        }
        self.remove_left(leaving, position)
    }

    /// Removes the files of all segments that have left the store.
    pub(crate) fn finish_compaction(&self) -> Result<()> {
        let mut leaving = self.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        self.remove_all(&mut leaving).map(|_| ())
    }

    /// Begins a new segment if the active one passes the threshold, so that its records can be
    /// compacted too. (If any did, calls without end would leave segments of a few records each.)
    fn seal_active(&self, threshold: f64) -> Result<()> {
        let mut writer = self.writer()?;
        // Behind the link.
        let contents = writer.segment.contents()?;
        let Some(first) = writer.segment.records(&contents).nth(1) else { return Ok(()) };
        let size = contents.len() as u64 - first?.0;
        drop(contents);
        let live = writer.segment.live.load(Ordering::Relaxed);
        if stale_share(size, live, 1.0) >= threshold {
            writer.roll(self, 0, 0, Need::Fill)
        } else {
            Ok(())
        }
    }

    /// Begins a new segment if one up to number `newest` passes the threshold whose durability no
    /// link states yet, for only others may go.
    pub(crate) fn link_stale(&self, threshold: f64, newest: u64) -> Result<()> {
        let mut writer = self.writer()?;
        let unlinked = writer.link_durable + 1..=newest;
        let segments = self.table.load().in_order();
        let weight = self.weight(segments.len());
        let passes = |segment: &Arc<Segment>| {
            let live = segment.live.load(Ordering::Relaxed);
            let share = stale_share(segment.size(), live, weight);
            unlinked.contains(&segment.number) && share >= threshold
        };
        if segments.iter().any(passes) {
            writer.roll(self, 0, 0, Need::Compact)?;
        }
        Ok(())
    }

    /// Bytes that a live byte takes in a segment that is made now and filled. More than 1, by what
    /// its head takes: that does not come back, since the new segment has one, too.
    pub(crate) fn weight(&self, segments: usize) -> f64 {
        let capacity = self.capacity_for(segments) as f64;
        capacity / (capacity - head_length(segments) as f64)
    }

    fn seal_all(&self) -> Result<()> {
        while self.seal_with(Need::Compact)? {}
        Ok(())
    }

    /// The segment with the largest stale share of at least `threshold` among those up to number
    /// `last` whose numbers are not in `tried`.
    fn victim(&self, threshold: f64, last: u64, tried: &[u64]) -> Result<Option<Arc<Segment>>> {
        let segments = self.table.load().in_order();
        let weight = self.weight(segments.len());
        let mut best: Option<(f64, Arc<Segment>)> = None;
        for (age, segment) in segments.iter().enumerate() {
            let is_ready = segment.number <= last && segment.hint.get().is_some();
            if !is_ready || tried.contains(&segment.number) {
                continue;
            }
            let size = segment.size();
            let live = segment.live.load(Ordering::Relaxed);
            let deletes = segment.deletes.load(Ordering::Relaxed);
            let share = |live: u64| stale_share(size, live, weight);
            let mut stale = share(live + deletes);
            if stale < threshold && share(live) >= threshold && deletes > 0 {
                stale = share(live + self.needed_deletes(segment, &segments[..age])?);
            }
            if stale >= threshold && best.as_ref().is_none_or(|(most, _)| stale > *most) {
                best = Some((stale, Arc::clone(segment)));
            }
        }
        Ok(best.map(|(_, segment)| segment))
    }

    /// Bytes of a segment's deletes that hide something in older segments. Looked at again only
    /// after a segment was removed.
    fn needed_deletes(&self, segment: &Segment, older: &[Arc<Segment>]) -> Result<u64> {
        let removals = self.counters.segments_removed.load(Ordering::Relaxed) + 1;
        if segment.deletes_checked.swap(removals, Ordering::Relaxed) == removals {
            return Ok(segment.deletes.load(Ordering::Relaxed));
        }
        let (mut needed, mut stretches) = (0, Stretches::of(self));
        for item in segment.records(&segment.contents()?) {
            let (_, record, length) = item?;
            stretches.went_through(length);
            if record.kind == Kind::Delete && is_needed(self.hash(record.key), older)? {
                needed += length;
            }
        }
        segment.deletes.store(needed, Ordering::Relaxed);
        Ok(needed)
    }

    /// Copies what is live in a segment, and removes it.
    pub(crate) fn evacuate(&self, victim: &Arc<Segment>) -> Result<()> {
        let mut leaving = self.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        self.evacuate_while(victim, &mut leaving, || true)?;
        self.remove_all(&mut leaving).map(|_| ())
    }

    /// Copies what is live in a segment and takes it out of the store, but for its file, as long as
    /// `go_on` says so; whether it came to the end.
    fn evacuate_while(
        &self,
        victim: &Arc<Segment>,
        leaving: &mut Vec<Leaving>,
        go_on: impl Fn() -> bool,
    ) -> Result<bool> {
        let mut older = self.table.load().in_order();
        if !older.iter().any(|segment| Arc::ptr_eq(segment, victim)) {
            return Ok(false);
        }
        older.extend(leaving.iter().map(|leaving| Arc::clone(&leaving.segment)));
        older.retain(|segment| segment.number < victim.number);
        let older = &older[..];
        let (started, mut copied) = (Instant::now(), 0);
        let mut stretches = Stretches::of(self);
        let contents = victim.contents()?;
        let mut records = victim.records(&contents);
        loop {
            let group = self.next_group(&mut records)?;
            if group.is_empty() {
                break;
            }
            for (offset, record, length, hash) in group {
                if !go_on() {
                    return Ok(false);
                }
                stretches.went_through(length);
                let moved = match record.kind {
                    Kind::Put => self.move_put(victim, offset, &record, hash, older)?,
                    Kind::Delete => self.move_delete(&record, hash, older)?,
                    Kind::Link | Kind::Removed => false,
                };
                if moved {
                    copied += length;
                    self.wait_for_rate(started, copied);
                }
            }
        }
        let mut writer = self.writer()?;
        let number = Record::removed_value(victim.number);
        let frame = Frame::new(Record::internal(Kind::Removed, &number), 0, None);
        writer.make_room(self, frame.length() as u64, 1, Need::Compact)?;
        if !Failpoint::ForgetRemoval.is_on() {
            writer.append(self, &frame, Need::Compact)?;
        }
        writer.slots.retire(&self.table, victim.slot);
        self.look_at_space(writer.link_durable);
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        removed.retain(|segment| segment.strong_count() > 0);
        removed.push(Arc::downgrade(victim));
        drop(removed);
        let (segment, position) = (Arc::clone(victim), writer.position());
        leaving.push(Leaving { segment, position, since: Instant::now() });
        self.counters.segments_removed.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// The next records, each with its place, its length and the hash of its key. The slots of the
    /// index of these keys are on their way into the processor's cache.
    fn next_group<'a>(
        &self,
        records: &mut Records<'a>,
    ) -> Result<Vec<(u64, Record<'a>, u64, u64)>> {
        let with_hash = |item: Result<(u64, Record<'a>, u64)>| {
            let (offset, record, length) = item?;
            let hash = self.hash(record.key);
            self.index.prefetch(hash);
            Ok((offset, record, length, hash))
        };
        records.take(GROUP).map(with_hash).collect()
    }

    /// Appends a put again if the index points to it. Whether something was appended.
    fn move_put(
        &self,
        victim: &Segment,
        offset: u64,
        record: &Record,
        hash: u64,
        older: &[Arc<Segment>],
    ) -> Result<bool> {
        let place = victim.place(offset);
        if !self.holds(hash, place) {
            return Ok(false);
        }
        let is_expired = self.is_expired(record);
        if is_expired && (Failpoint::ForgetExpired.is_on() || !is_needed(hash, older)?) {
            let mut writer = self.writer()?;
            return writer.forget(self, hash, place).map(|()| false);
        }
        let again = match is_expired {
            true => Record { moved: true, ..Record::delete(record.key) },
            false if Failpoint::ForgetExpiry.is_on() => {
                Record { moved: true, more: false, expires: None, ..*record }
            }
            false => Record { moved: true, more: false, ..*record },
        };
        let frame = Frame::new(again, hash, Some(place));
        let mut writer = self.writer_of(hash, frame.length() as u64)?;
        if !self.holds(hash, place) {
            return Ok(false); // Overwritten meanwhile.
        }
        writer.make_room(self, frame.length() as u64, 1, Need::Compact)?;
        writer.apply(self, &frame, Need::Compact)?;
        Ok(true)
    }

    /// Appends a delete again if it may hide something. Whether it did.
    fn move_delete(&self, record: &Record, hash: u64, older: &[Arc<Segment>]) -> Result<bool> {
        if Failpoint::ForgetTombstone.is_on() || !is_needed(hash, older)? {
            return Ok(false);
        }
        let again = Record { moved: true, more: false, ..*record };
        let frame = Frame::new(again, hash, None);
        let mut writer = self.writer()?;
        if self.current(&frame)?.is_some() {
            return Ok(false); // A later put hides the same.
        }
        writer.make_room(self, frame.length() as u64, 1, Need::Compact)?;
        writer.apply(self, &frame, Need::Compact)?;
        Ok(true)
    }

    /// Sleeps as long as the rate limit asks for.
    fn wait_for_rate(&self, started: Instant, copied: u64) {
        if self.options.compaction_rate == 0 {
            return;
        }
        let due = Duration::from_secs_f64(copied as f64 / self.options.compaction_rate as f64);
        let early = due.saturating_sub(started.elapsed());
        if early > Duration::from_millis(1) {
            std::thread::sleep(early);
        }
    }
}

/// The error of a full disk, if it is that; others are given back at once.
fn if_full(done: Result<()>) -> Result<Option<Error>> {
    match done {
        Err(e) if e.is_disk_full() => Ok(Some(e)),
        done => done.map(|()| None),
    }
}

/// The share of a segment that comes back when its live bytes are elsewhere, where each takes
/// [`Shared::weight`].
fn stale_share(size: u64, live: u64, weight: f64) -> f64 {
    (1.0 - live as f64 * weight / size as f64).max(0.0)
}

/// Whether one of these segments may hold a value of a key with this hash.
fn is_needed(hash: u64, older: &[Arc<Segment>]) -> Result<bool> {
    for segment in older {
        match segment.hint.get() {
            Some(hint) if !hint.may_hold(hash)? => {}
            _ => return Ok(true),
        }
    }
    Ok(false)
}
