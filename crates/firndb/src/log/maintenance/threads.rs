//! Upkeep: what a store does beside reading and writing. [`LogStore::maintain`] is a plain function
//! that tests and programs may drive; [`Upkeep`] is threads that each do one part of it, so that
//! none waits for another: making the next segment's file, sealing full ones and taking
//! checkpoints (which mostly waits for the disk), and compaction (which mostly computes).

use crate::log::failpoints::Failpoint;
use crate::log::maintenance::thread_priority::become_lenient;
use crate::log::open::store::{LogStore, Shared};
use crate::log::segments::reserve::Need;
use crate::log::segments::segment::{Segment, file_name};
use crate::{Error, Result};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the threads sleep when nobody wakes them.
const PERIOD: Duration = Duration::from_millis(50);

/// How long a thread of the upkeep rests between two stretches of work.
const REST: Duration = Duration::from_micros(50);
/// Bytes of records that it goes through in a stretch, which takes a fraction of a millisecond, and
/// bytes of a new segment that take as long to make.
const READ_STRETCH: u64 = 512 << 10;
const MAKE_STRETCH: usize = 256 << 10;

/// What a thread of the upkeep does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Makes what writers will want next.
    Next,
    /// Seals segments and takes checkpoints.
    Seal,
    /// Compacts.
    Compact,
}

/// Wakes the threads, each for itself: a writer that woke all of them would wait for all, where
/// there are fewer processors.
#[derive(Default)]
pub(crate) struct Wake([Bell; 3]);

#[derive(Default)]
struct Bell {
    state: Mutex<Signal>,
    changed: Condvar,
}

#[derive(Default)]
struct Signal {
    /// How often they were woken.
    calls: u64,
    is_over: bool,
}

/// The threads of a store.
pub(crate) struct Upkeep(Vec<JoinHandle<()>>);

impl Upkeep {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Upkeep> {
        let mut upkeep = Upkeep(Vec::new());
        for (task, name, step) in [
            (Task::Next, "firndb-log-next", Shared::prepare_next as fn(&Shared) -> Result<bool>),
            (Task::Seal, "firndb-log-seal", Shared::seal_or_checkpoint),
            (Task::Compact, "firndb-log-move", Shared::compact_step),
        ] {
            let its = Arc::clone(shared);
            let thread = std::thread::Builder::new().name(name.to_string()).spawn(move || {
                become_lenient();
                let mut seen = u64::MAX; // Looks once before it waits.
                while its.wake.0[task as usize].wait(&mut seen) {
                    // An error stops writing, and the next write reports it.
                    while let Ok(true) = step(&its) {}
                }
            });
            match thread {
                Ok(thread) => upkeep.0.push(thread),
                Err(e) => {
                    upkeep.stop(shared);
                    return Err(Error::io("start a thread of", &shared.dir, e));
                }
            }
        }
        Ok(upkeep)
    }

    pub(crate) fn stop(self, shared: &Shared) {
        shared.wake.end();
        // A thread that panicked has nothing left to do.
        self.0.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// Gives way after each stretch of records.
pub(crate) struct Stretches<'a> {
    shared: &'a Shared,
    bytes: u64,
}

impl Stretches<'_> {
    pub(crate) fn of(shared: &Shared) -> Stretches<'_> {
        Stretches { shared, bytes: 0 }
    }

    /// Called for each record.
    #[inline]
    pub(crate) fn went_through(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.bytes >= READ_STRETCH {
            self.bytes = 0;
            self.shared.give_way();
        }
    }
}

impl Wake {
    fn end(&self) {
        self.0.iter().for_each(|bell| bell.signal(|state| state.is_over = true));
    }

    /// Whether the store is closing, and nobody writes who could be given way to.
    fn is_over(&self) -> bool {
        self.0[0].state.lock().unwrap_or_else(PoisonError::into_inner).is_over
    }
}

impl Bell {
    /// Waits until there may be something to do since call number `seen`; `false` if it is over.
    fn wait(&self, seen: &mut u64) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |state: &mut Signal| state.calls == *seen && !state.is_over;
        let waited = self.changed.wait_timeout_while(state, PERIOD, is_idle);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        *seen = state.calls;
        !state.is_over
    }

    fn signal(&self, change: impl FnOnce(&mut Signal)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

impl LogStore {
    /// Does one step of upkeep, if there is any to do, and says whether it did: prepares the next
    /// segment, makes a sealed one durable, takes a checkpoint, or compacts a segment. A store
    /// opened with [`Options::background`](crate::log::Options::background) does this by itself.
    pub fn maintain(&self) -> Result<bool> {
        self.shared.maintain()
    }
}

impl Shared {
    /// Tells a thread that there may be something to do for it.
    pub(crate) fn wake(&self, task: Task) {
        self.wake.0[task as usize].signal(|state| state.calls += 1);
    }

    /// Called between two stretches of work. Where there are fewer processors than threads, a
    /// writer that lost its processor to one of the upkeep gets it back now, instead of at the
    /// system's next look in some milliseconds. (To yield is not enough: who has run less goes
    /// first.)
    pub(crate) fn give_way(&self) {
        if self.options.background && !self.wake.is_over() {
            std::thread::sleep(REST);
        }
    }

    /// See [`LogStore::maintain`].
    pub(crate) fn maintain(&self) -> Result<bool> {
        let mut full = None;
        let steps = [Self::prepare_segment, Self::seal, Self::checkpoint_step, Self::compact_step];
        for step in steps {
            match step(self) {
                Ok(false) => {}
                // Compaction comes last, and is what makes space.
                Err(e) if e.is_disk_full() => full = full.or(Some(e)),
                done => return done,
            }
        }
        full.map_or(Ok(false), Err)
    }

    /// Sealed segments are what compaction and checkpoints are made of, so sealing comes first.
    fn seal_or_checkpoint(&self) -> Result<bool> {
        let did = self.seal()? || self.checkpoint_step()?;
        if did {
            self.wake(Task::Compact); // There may be more to compact now.
        }
        Ok(did)
    }

    /// Makes the oldest segment durable that was sealed and is not yet, and writes its hint.
    pub(crate) fn seal(&self) -> Result<bool> {
        self.seal_with(Need::Hint)
    }

    /// [`Shared::seal`] with another part of the reserve.
    pub(crate) fn seal_with(&self, need: Need) -> Result<bool> {
        let _one_at_a_time = self.sealing.lock().unwrap_or_else(PoisonError::into_inner);
        let (active, durable) = {
            let writer = self.writer()?;
            (writer.segment.number, writer.durable)
        };
        let segments = self.table.load().in_order();
        let is_due = |s: &&Arc<Segment>| s.number < active && s.hint.get().is_none();
        let Some(segment) = segments.iter().find(is_due) else {
            self.pace.sealed.store(active.saturating_sub(1), Ordering::Relaxed);
            return Ok(false);
        };
        if segment.number > durable && !Failpoint::HintBeforeSync.is_on() {
            self.make_durable((segment.number, segment.end()))?;
        }
        let hint = self.with_reserve(need, || self.write_hint(segment))?;
        let _ = segment.hint.set(hint);
        segment.settle();
        self.pace.sealed.store(segment.number, Ordering::Relaxed);
        Ok(true)
    }

    /// Gets what writers will want next: memory for the index, and a segment.
    fn prepare_next(&self) -> Result<bool> {
        self.index.pages.reserve();
        self.prepare_segment()
    }

    /// Makes the file of the next segment when it is time, and sees to it that there is a reserve.
    fn prepare_segment(&self) -> Result<bool> {
        self.hold_reserve()?;
        let Some(number) = self.writer()?.spare_wanted(self)? else { return Ok(false) };
        let capacity = self.capacity_for(self.table.load().in_order().len());
        let path = self.dir.join(file_name(number));
        let made = self.disk.create_append_map(&path, capacity as usize, self.options.append_mode);
        let made = made.and_then(|(map, mut writer)| {
            self.sync_dir()?;
            let mut pieces = (0..capacity as usize).step_by(MAKE_STRETCH);
            let prepared = pieces.try_for_each(|start| {
                self.give_way();
                writer.prepare(start + MAKE_STRETCH)
            });
            match prepared {
                Ok(()) => Ok((map, writer)),
                Err(e) => self.remove_if_there(&path).and(Err(e)),
            }
        });
        let (made, error) = match made {
            Ok(made) => (Some(made), None),
            Err(error) => (None, Some(error)),
        };
        let exists = made.is_some();
        if !self.writer()?.keep_spare(number, made) && exists {
            self.disk.remove(&path)?;
        }
        if let Some(error) = error {
            return Err(error);
        }
        Ok(true)
    }
}
