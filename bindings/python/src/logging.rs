//! Spans of the library as records of Python's `logging`.
//!
//! The library enters a span for each opening, build, backup, compaction and query. A span that
//! ends becomes a record in a queue, from which a Python thread (`firndb/_logging.py`) takes it. A
//! span may end in a maintenance thread that holds locks of the library, so nothing here takes the
//! GIL, waits, or grows without bound: if the queue is full, the record is counted and dropped.
//!
//! A forked child begins with an empty queue of its own, because a thread of the parent may have
//! held the lock of the other one.

use crate::error::Result;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::mem::take;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record as Values};
use tracing::{Event, Level, Metadata, Subscriber};

/// Records that the queue holds.
const CAPACITY: usize = 1024;

/// Which spans are captured: 0 none, 1 those of level INFO, 2 also those of level DEBUG.
static CAPTURED: AtomicU8 = AtomicU8::new(0);
static QUEUE: Queue = Queue::new();

/// A span that ended: its name, whether its level is DEBUG, its fields, its duration in seconds and
/// when it ended, in seconds since 1970.
type Record = (&'static str, bool, String, f64, f64);

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// The queue of a forked child.
    next: OnceLock<Box<Queue>>,
}

struct State {
    records: VecDeque<Record>,
    /// Records for which there was no room.
    dropped: u64,
    is_stopped: bool,
}

impl Queue {
    const fn new() -> Queue {
        let state = State { records: VecDeque::new(), dropped: 0, is_stopped: false };
        Queue { state: Mutex::new(state), changed: Condvar::new(), next: OnceLock::new() }
    }

    /// The queue of this process.
    fn current() -> &'static Queue {
        let mut queue = &QUEUE;
        while let Some(next) = queue.next.get() {
            queue = next;
        }
        queue
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, record: Record) {
        let mut state = self.lock();
        if state.is_stopped {
            return;
        }
        if state.records.len() < CAPACITY {
            state.records.push_back(record);
        } else {
            state.dropped += 1;
        }
        drop(state);
        self.changed.notify_one();
    }
}

/// Turns spans into records.
struct Capture {
    next_id: AtomicU64,
}

/// A span that has not ended.
struct Open {
    id: u64,
    metadata: &'static Metadata<'static>,
    fields: String,
    start: Instant,
}

thread_local! {
    /// The open spans of the thread. The library ends a span in the thread that began it.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let captured = CAPTURED.load(Ordering::Relaxed);
        let wanted = if *metadata.level() <= Level::INFO { 1 } else { 2 };
        captured >= wanted
            && *metadata.level() <= Level::DEBUG
            && metadata.is_span()
            && metadata.name().starts_with("firndb.")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut fields = Fields(String::new());
        attributes.record(&mut fields);
        let (metadata, fields) = (attributes.metadata(), fields.0);
        let open = Open { id, metadata, fields, start: Instant::now() };
        // A thread that ends has no list of spans any more.
        let _ = OPEN.try_with(|spans| spans.borrow_mut().push(open));
        Id::from_u64(id)
    }

    fn try_close(&self, id: Id) -> bool {
        let ended = OPEN.try_with(|spans| {
            let mut spans = spans.borrow_mut();
            let at = spans.iter().rposition(|span| span.id == id.into_u64())?;
            Some(spans.remove(at))
        });
        let Ok(Some(Open { metadata, fields, start, .. })) = ended else { return false };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let is_debug = *metadata.level() > Level::INFO;
        let seconds = start.elapsed().as_secs_f64();
        Queue::current().push((metadata.name(), is_debug, fields, seconds, now));
        true
    }

    fn record(&self, _: &Id, _: &Values<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of a span as text: `path=/data/store segment=7`.
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let space = if self.0.is_empty() { "" } else { " " };
        let _ = write!(self.0, "{space}{}={value:?}", field.name());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// Sets which spans are captured: 0 none, 1 those of level INFO, 2 also those of level DEBUG.
#[pyfunction]
#[pyo3(name = "_log_capture")]
pub fn capture(level: u8) -> Result<()> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    if level > 0 {
        let install = || {
            let capture = Capture { next_id: AtomicU64::new(1) };
            tracing::subscriber::set_global_default(capture).is_ok()
        };
        if !INSTALLED.get_or_init(install) {
            return Err(PyRuntimeError::new_err("another subscriber has the spans").into());
        }
    }
    CAPTURED.store(level, Ordering::Relaxed);
    Ok(())
}

/// Waits for records, and returns them with the number of those that were dropped; `None` once
/// [`stop`] was called and all records have been returned.
#[pyfunction]
#[pyo3(name = "_log_next")]
pub fn next(py: Python<'_>) -> Option<(Vec<Record>, u64)> {
    py.detach(|| {
        let queue = Queue::current();
        let mut state = queue.lock();
        loop {
            if !state.records.is_empty() || state.dropped > 0 {
                return Some((take(&mut state.records).into(), take(&mut state.dropped)));
            }
            if state.is_stopped {
                return None;
            }
            state = queue.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    })
}

/// Ends the thread that takes the records, and drops all later ones.
#[pyfunction]
#[pyo3(name = "_log_stop")]
pub fn stop(py: Python<'_>) {
    CAPTURED.store(0, Ordering::Relaxed);
    py.detach(|| {
        let queue = Queue::current();
        queue.lock().is_stopped = true;
        queue.changed.notify_all();
    });
}

/// Gives a forked child a queue of its own.
#[pyfunction]
#[pyo3(name = "_log_forked")]
pub fn forked() {
    CAPTURED.store(0, Ordering::Relaxed);
    let _ = Queue::current().next.set(Box::new(Queue::new()));
}
