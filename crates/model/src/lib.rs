//! The lock-free files of the library, compiled for loom.
//!
//! loom runs a scenario in every interleaving of its threads, with every value that a load may
//! return under the memory orderings. The files below are those of `crates/firndb`, not copies: the
//! index and the segment table of the log store. This crate provides what they import from the
//! library, based on loom's types. The index has tiny pages here (`firndb_model`), so that a few
//! insertions rebuild a shard.
//!
//! The scenarios are in `log/scenarios.rs`; `tests/interleavings.rs` runs them, with and without
//! failpoints. Two parts are not loom's: one thread allocates the memory of the index before others
//! see it (`OnceLock`), and reference counts are `std`'s, which loom treats as indivisible.

/// The library modules that these files import.
pub(crate) mod bytes {
    pub(crate) mod prefetch {
        /// A no-op: loom has no cache.
        pub(crate) fn prefetch<T>(_: &[T], _: usize) {}
    }
}

pub(crate) mod disk {
    use crate::sync::AtomicU64;

    /// Words shared by threads.
    pub(crate) struct Words(Vec<AtomicU64>);

    impl Words {
        /// `len` words of zeros.
        pub(crate) fn new(len: usize, _is_huge: bool) -> Result<Words, std::convert::Infallible> {
            Ok(Words((0..len).map(|_| AtomicU64::new(0)).collect()))
        }

        /// Has no visible effect.
        pub(crate) fn make_huge(&self) -> bool {
            true
        }
    }

    impl std::ops::Deref for Words {
        type Target = [AtomicU64];

        fn deref(&self) -> &[AtomicU64] {
            &self.0
        }
    }
}

pub(crate) mod sync {
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use std::cell::Cell;
    use std::sync::{Arc, Mutex};

    /// How words are loaded and stored. loom lets a load return every earlier store that the
    /// orderings allow, but does not move a store before a preceding load. So every scenario runs
    /// in both modes.
    #[derive(Clone, Copy)]
    pub(crate) enum Loads {
        /// As exchanges: every load returns the latest value, in every interleaving.
        InTurn,
        /// As in the library.
        AsOrdered,
    }

    thread_local! {
        /// loom runs all its threads on one system thread.
        pub(crate) static LOADS: Cell<Loads> = const { Cell::new(Loads::AsOrdered) };
    }

    /// A word shared by threads.
    pub(crate) struct AtomicU64(loom::sync::atomic::AtomicU64);

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> AtomicU64 {
            AtomicU64(loom::sync::atomic::AtomicU64::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            match LOADS.get() {
                Loads::InTurn => self.0.fetch_add(0, Ordering::AcqRel),
                Loads::AsOrdered => self.0.load(order),
            }
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            match LOADS.get() {
                Loads::InTurn => {
                    self.0.swap(value, Ordering::AcqRel);
                }
                Loads::AsOrdered => self.0.store(value, order),
            }
        }
    }

    /// A pointer to an immutable value, which one thread replaces and others load. Each operation
    /// is one step, and a load returns the latest value, as with the library's pointer.
    pub(crate) struct Swap<T> {
        step: AtomicUsize,
        now: Mutex<Arc<T>>,
    }

    impl<T> Swap<T> {
        pub(crate) fn from_pointee(value: T) -> Swap<T> {
            Swap { step: AtomicUsize::new(0), now: Mutex::new(Arc::new(value)) }
        }

        pub(crate) fn load(&self) -> Arc<T> {
            self.step.fetch_add(0, Ordering::AcqRel);
            Arc::clone(&self.now.lock().expect("no thread stops in between"))
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            self.step.fetch_add(1, Ordering::AcqRel);
            *self.now.lock().expect("no thread stops in between") = value;
        }
    }
}

/// The log: files of the library, and the scenarios.
pub mod log {
    #[path = "../../../firndb/src/log/failpoints.rs"]
    #[expect(dead_code, reason = "most failpoints are in files that are not here")]
    mod failpoints;
    #[path = "../../../firndb/src/log/index/mod.rs"]
    #[expect(dead_code, reason = "the scenarios do not use all of it")]
    mod index;
    #[path = "../../../firndb/src/log/segments/segment_table.rs"]
    #[expect(dead_code, reason = "the scenarios do not use all of it")]
    mod segment_table;

    pub mod scenarios;
}
