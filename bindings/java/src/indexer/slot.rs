//! The state of an index: open, in a feed, or closed.

use crate::error::Result;
use crate::handle::Refused;
use firndb::indexer::{Indexer, NotBegun, OwnedFeed};
use firndb::search::Reader;
use firndb::{Error, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An index, which its feed shares.
pub struct Slot {
    state: Mutex<State>,
    /// Of the collection, as published last.
    reader: Mutex<Reader>,
    dir: PathBuf,
}

enum State {
    Open(Box<Indexer>),
    /// The feed has the index; the number identifies the feed.
    Feeding(Box<OwnedFeed>, u64),
    Closed,
}

const CLOSED: Refused = Refused::Closed("index");
const ENDED: Refused = Refused::Closed("feed");

impl Slot {
    pub fn new(index: Indexer) -> Slot {
        let reader = Mutex::new(index.collection().reader());
        let dir = index.dir().to_path_buf();
        Slot { state: Mutex::new(State::Open(Box::new(index))), reader, dir }
    }

    /// Calls the index.
    pub fn with<T>(&self, call: impl FnOnce(&mut Indexer) -> firndb::Result<T>) -> Result<T> {
        match &mut *self.lock() {
            State::Open(index) => Ok(call(index)?),
            State::Feeding(..) => Err(self.in_feed().into()),
            State::Closed => Err(CLOSED.into()),
        }
    }

    /// Calls the index with what publishes its collection.
    pub fn publish<T>(&self, call: impl FnOnce(&mut Indexer) -> firndb::Result<T>) -> Result<T> {
        self.with(|index| {
            let result = call(index);
            // The collection may have been published although the call failed later.
            *self.reader.lock().unwrap_or_else(PoisonError::into_inner) =
                index.collection().reader();
            result
        })
    }

    /// A reader of the collection, as published last. Waits for no other call.
    pub fn reader(&self) -> Reader {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins a feed, or single changes. The number identifies it.
    pub fn begin(&self, source: &str, is_whole: bool) -> Result<u64> {
        let mut state = self.lock();
        let index = match std::mem::replace(&mut *state, State::Closed) {
            State::Open(index) => *index,
            State::Closed => return Err(CLOSED.into()),
            feeding => {
                *state = feeding;
                return Err(self.in_feed().into());
            }
        };
        let begun = if is_whole { index.into_feed(source) } else { index.into_changes(source) };
        match begun {
            Ok(feed) => {
                let number = next_number();
                *state = State::Feeding(Box::new(feed), number);
                Ok(number)
            }
            Err(not_begun) => {
                let NotBegun { index, error, .. } = *not_begun;
                *state = State::Open(Box::new(index));
                Err(error.into())
            }
        }
    }

    /// Calls feed `number`.
    pub fn with_feed<T>(
        &self,
        number: u64,
        call: impl FnOnce(&mut OwnedFeed) -> Result<T>,
    ) -> Result<T> {
        match &mut *self.lock() {
            State::Feeding(feed, current) if *current == number => call(feed),
            State::Closed => Err(CLOSED.into()),
            _ => Err(ENDED.into()),
        }
    }

    /// Ends feed `number` with `end`, which returns the index.
    pub fn end<T>(
        &self,
        number: u64,
        end: impl FnOnce(OwnedFeed) -> (Indexer, firndb::Result<T>),
    ) -> Result<T> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Closed) {
            State::Feeding(feed, current) if current == number => {
                let (index, result) = end(*feed);
                *state = State::Open(Box::new(index));
                Ok(result?)
            }
            State::Closed => Err(CLOSED.into()),
            other => {
                *state = other;
                Err(ENDED.into())
            }
        }
    }

    /// Closes the index, and discards a feed in progress.
    pub fn close(&self) -> Result<()> {
        match std::mem::replace(&mut *self.lock(), State::Closed) {
            State::Open(index) => Ok(index.close()?),
            State::Feeding(feed, _) => Ok(feed.discard().close()?),
            State::Closed => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_feed(&self) -> Error {
        let message = "a feed of the index is in progress: finish or close it first";
        Error::new(ErrorKind::Locked, message).in_file(&self.dir)
    }
}

/// A number that no other feed has.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
