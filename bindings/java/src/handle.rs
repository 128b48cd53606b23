//! Handles: numbers by which Java code refers to open objects.
//!
//! The lower half of a handle is the index of a slot, the upper half the generation of the object
//! in that slot. A number that is not, or no longer, the handle of an open object is not found. The
//! table of slots only grows, so a lookup needs no lock on it.
//!
//! Closing waits for running calls, and calls that begin during a close fail. A slot therefore
//! holds its object behind read-write locks of which calls only *try* to take the read half: that
//! takes one atomic operation, succeeds unless the object is being closed, and never waits. So that
//! calls on different processors do not write to the same cache line, a slot has several such
//! locks, its *lanes*, and closing takes all of them.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, TryLockError};

/// Slots of the first chunk, as a power of two; each further chunk has twice as many.
const FIRST_CHUNK_BITS: u32 = 5;
/// Most chunks: enough for 2^30 open objects.
const CHUNKS: usize = 25;

/// Why a call with a handle fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The object, described by this text, is closed or being closed.
    Closed(&'static str),
    /// The object cannot be closed by a callback of a call that uses it.
    InCallback,
    /// There are too many open objects.
    Full,
}

/// The open objects of one type, a cheaply cloned `T`. `LANES` is the number of locks per object.
pub struct Handles<T, const LANES: usize> {
    chunks: [OnceLock<Box<[Slot<T, LANES>]>>; CHUNKS],
    free: Mutex<FreeSlots>,
    /// What the objects are, for messages.
    what: &'static str,
}

struct FreeSlots {
    /// Slots that were used before, each with its next generation.
    reusable: Vec<(u32, u32)>,
    /// The first slot that was never used.
    next: u32,
}

struct Slot<T, const LANES: usize> {
    lanes: [Lane<T>; LANES],
}

/// A lock of a slot. It shares no cache line with other locks.
#[repr(align(128))]
struct Lane<T>(RwLock<Occupant<T>>);

struct Occupant<T> {
    generation: u32,
    object: Option<T>,
}

thread_local! {
    /// The lane of this thread.
    static LANE: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };

    /// The calls of this thread that may run Java code: address of the table, and handle.
    static IN_CALLBACK: RefCell<Vec<(usize, i64)>> = const { RefCell::new(Vec::new()) };
}

impl<T: Clone, const LANES: usize> Handles<T, LANES> {
    pub const fn new(what: &'static str) -> Self {
        Handles {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(FreeSlots { reusable: Vec::new(), next: 0 }),
            what,
        }
    }

    /// Makes an object known to Java. A handle is never 0.
    pub fn insert(&self, object: T) -> Result<i64, Refused> {
        let (index, generation) = self.free_slot()?;
        let (chunk, at) = position(index);
        let slots = self.chunks[chunk].get_or_init(|| {
            (0..1usize << (FIRST_CHUNK_BITS + chunk as u32)).map(|_| Slot::new()).collect()
        });
        for lane in &slots[at].lanes {
            let mut occupant = lane.0.write().unwrap_or_else(PoisonError::into_inner);
            *occupant = Occupant { generation, object: Some(object.clone()) };
        }
        Ok((i64::from(generation) << 32) | i64::from(index))
    }

    /// Calls `call` with an open object. Closing it waits for the call.
    #[inline]
    pub fn with<R>(&self, handle: i64, call: impl FnOnce(&T) -> R) -> Result<R, Refused> {
        let lane = self.lane(handle).ok_or(Refused::Closed(self.what))?;
        let occupant = match lane.0.try_read() {
            Ok(occupant) => occupant,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Only a close, or an insertion into a slot that was closed before, takes the lock.
            Err(TryLockError::WouldBlock) => return Err(Refused::Closed(self.what)),
        };
        match &occupant.object {
            Some(object) if occupant.generation == generation_of(handle) => Ok(call(object)),
            _ => Err(Refused::Closed(self.what)),
        }
    }

    /// [`Handles::with`] for a call that may run Java code on this thread.
    pub fn with_callback<R>(&self, handle: i64, call: impl FnOnce(&T) -> R) -> Result<R, Refused> {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                IN_CALLBACK.with_borrow_mut(Vec::pop);
            }
        }
        IN_CALLBACK.with_borrow_mut(|calls| calls.push((self.address(), handle)));
        let _leave = Leave;
        self.with(handle, call)
    }

    /// Takes an object out of the table when all calls that use it have ended. `None` if it was
    /// closed before.
    pub fn close(&self, handle: i64) -> Result<Option<T>, Refused> {
        let address = self.address();
        if IN_CALLBACK.with_borrow(|calls| calls.contains(&(address, handle))) {
            return Err(Refused::InCallback);
        }
        let (chunk, at) = position(index_of(handle));
        let Some(slot) = self.chunks.get(chunk).and_then(OnceLock::get).and_then(|s| s.get(at))
        else {
            return Ok(None);
        };
        let mut closed = None;
        for lane in &slot.lanes {
            let mut occupant = lane.0.write().unwrap_or_else(PoisonError::into_inner);
            if occupant.generation != generation_of(handle) || occupant.object.is_none() {
                return Ok(None);
            }
            closed = occupant.object.take();
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // A slot whose generations are used up stays empty.
        if let Some(generation) = generation_of(handle).checked_add(1).filter(|&g| g <= LAST) {
            free.reusable.push((index_of(handle), generation));
        }
        Ok(closed)
    }

    /// A slot for a new object, and its generation there.
    fn free_slot(&self) -> Result<(u32, u32), Refused> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = free.reusable.pop() {
            return Ok(slot);
        }
        let index = free.next;
        if position(index).0 >= CHUNKS {
            return Err(Refused::Full);
        }
        free.next += 1;
        Ok((index, 1))
    }

    #[inline]
    fn lane(&self, handle: i64) -> Option<&Lane<T>> {
        let (chunk, at) = position(index_of(handle));
        let slot = self.chunks.get(chunk)?.get()?.get(at)?;
        let lane = if LANES == 1 { 0 } else { LANE.with(|lane| *lane) % LANES };
        Some(&slot.lanes[lane])
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl<T, const LANES: usize> Slot<T, LANES> {
    fn new() -> Self {
        let lane = |_| Lane(RwLock::new(Occupant { generation: 0, object: None }));
        Slot { lanes: std::array::from_fn(lane) }
    }
}

/// The last generation: handles are positive numbers.
const LAST: u32 = i32::MAX as u32;

#[inline]
fn index_of(handle: i64) -> u32 {
    handle as u32
}

#[inline]
fn generation_of(handle: i64) -> u32 {
    (handle >> 32) as u32
}

/// The chunk of a slot, and its place in the chunk.
#[inline]
fn position(index: u32) -> (usize, usize) {
    let from_one = u64::from(index) + (1 << FIRST_CHUNK_BITS);
    let bits = from_one.ilog2();
    ((bits - FIRST_CHUNK_BITS) as usize, (from_one - (1 << bits)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    type Few = Handles<Arc<u32>, 4>;

    fn value(handles: &Few, handle: i64) -> Result<u32, Refused> {
        handles.with(handle, |object| **object)
    }

    #[test]
    fn positions_fill_chunks_of_doubling_size() {
        assert_eq!(position(0), (0, 0));
        assert_eq!(position(31), (0, 31));
        assert_eq!(position(32), (1, 0));
        assert_eq!(position(95), (1, 63));
        assert_eq!(position(96), (2, 0));
        assert!(position(u32::MAX).0 >= CHUNKS);
    }

    #[test]
    fn objects_are_found_until_they_are_closed() {
        let handles = Few::new("table");
        let all: Vec<i64> = (0..500).map(|n| handles.insert(Arc::new(n)).unwrap()).collect();
        for (n, &handle) in (0..).zip(&all) {
            assert_eq!(value(&handles, handle), Ok(n));
        }
        assert_eq!(handles.close(all[7]), Ok(Some(Arc::new(7))));
        assert_eq!(handles.close(all[7]), Ok(None));
        assert_eq!(value(&handles, all[7]), Err(Refused::Closed("table")));
        // The slot is used again, and the old handle does not find the new object.
        let again = handles.insert(Arc::new(1000)).unwrap();
        assert_eq!((again as u32, all[7] as u32), (7, 7));
        assert_eq!(value(&handles, again), Ok(1000));
        assert_eq!(value(&handles, all[7]), Err(Refused::Closed("table")));
        assert_eq!(handles.close(all[7]), Ok(None));
    }

    #[test]
    fn arbitrary_numbers_are_not_found() {
        let handles = Few::new("table");
        let handle = handles.insert(Arc::new(1)).unwrap();
        for other in [0, -1, 1, i64::MAX, i64::MIN, handle + 1, handle + (1 << 32), !handle] {
            assert_eq!(value(&handles, other), Err(Refused::Closed("table")), "{other:#x}");
            assert_eq!(handles.close(other), Ok(None), "{other:#x}");
        }
        assert_eq!(value(&handles, handle), Ok(1));
    }

    #[test]
    fn a_callback_cannot_close_its_own_object() {
        let handles = Few::new("table");
        let handle = handles.insert(Arc::new(1)).unwrap();
        let other = handles.insert(Arc::new(2)).unwrap();
        let result = handles.with_callback(handle, |_| {
            assert_eq!(handles.close(other), Ok(Some(Arc::new(2))));
            assert_eq!(value(&handles, handle), Ok(1)); // Calls are possible.
            handles.close(handle)
        });
        assert_eq!(result, Ok(Err(Refused::InCallback)));
        assert_eq!(handles.close(handle), Ok(Some(Arc::new(1))));
    }

    #[test]
    fn closing_waits_for_calls() {
        let handles = Few::new("table");
        for round in 0..200 {
            let handle = handles.insert(Arc::new(round)).unwrap();
            let is_closed = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let mut found = 0;
                        while let Ok(n) = handles.with(handle, |object| {
                            assert!(!is_closed.load(Ordering::SeqCst));
                            std::thread::yield_now();
                            assert!(!is_closed.load(Ordering::SeqCst));
                            **object
                        }) {
                            assert_eq!(n, round);
                            found += 1;
                        }
                        found
                    });
                }
                scope.spawn(|| {
                    assert_eq!(handles.close(handle), Ok(Some(Arc::new(round))));
                    is_closed.store(true, Ordering::SeqCst);
                });
            });
        }
    }
}
