//! The files of the library in which threads meet without a lock, compiled once more for loom.
//!
//! loom runs a piece of work in every order in which its threads can take turns, with every value
//! that a load may see by the rules of the memory orderings. The files below are those of
//! `crates/firndb`, not copies: the log's index and its table of segments. Around them stands what
//! they use of the library, made of loom's types. The index is built of tiny pages here
//! (`firndb_model`), so that a few inserts rebuild a shard.
//!
//! The scenarios are in `log/scenarios.rs`; `tests/interleavings.rs` runs them, with and without
//! bugs on purpose. Two things are not loom's: the memory of the index is made by one thread before
//! anybody sees it (`OnceLock`), and reference counts are `std`'s, which loom takes for
//! indivisible.

/// What the library's files import of their own crate.
pub(crate) mod bytes {
    pub(crate) mod prefetch {
        /// Nothing to bring anywhere.
        pub(crate) fn prefetch<T>(_: &[T], _: usize) {}
    }
}

pub(crate) mod disk {
    use crate::sync::AtomicU64;

    /// Words that threads share.
    pub(crate) struct Words(Vec<AtomicU64>);

    impl Words {
        /// `len` words, zeros.
        pub(crate) fn new(len: usize, _is_huge: bool) -> Result<Words, std::convert::Infallible> {
            Ok(Words((0..len).map(|_| AtomicU64::new(0)).collect()))
        }

        /// Nothing that anybody could see.
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

    /// How words are loaded and stored. loom shows a load every value that the orderings allow of
    /// the stores before it, but does not try to let a store go first that comes after a load. So
    /// all work is done twice.
    #[derive(Clone, Copy)]
    pub(crate) enum Loads {
        /// As exchanges: loom tries all turns, and everybody sees the latest value.
        InTurn,
        /// As the library does it.
        AsOrdered,
    }

    thread_local! {
        /// loom's threads are all on one thread of the system.
        pub(crate) static LOADS: Cell<Loads> = const { Cell::new(Loads::AsOrdered) };
    }

    /// A word that threads share.
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

    /// A pointer to something immutable, which one thread replaces and others load: each of both is
    /// one step, and whoever loads sees the latest, as with the pointer of the library.
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

/// The log: files of the library, and what is done with them.
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
