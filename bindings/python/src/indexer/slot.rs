//! The state of an index: open, in a feed, or closed.

use crate::error::{Failure, Result};
use firndb::indexer::{self, NotBegun, OwnedFeed};
use firndb::{Error, ErrorKind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An index, which its feed shares. The lock is held only without the GIL, for the time of a call.
pub struct Slot {
    state: Mutex<State>,
    pub path: PathBuf,
    process: u32,
}

enum State {
    Open(Box<indexer::Indexer>),
    /// The feed has the index; the number tells feeds apart.
    Feeding(Box<OwnedFeed>, u64),
    Closed,
}

/// Why a call cannot use the index or the feed.
pub enum Refused {
    Error(Error),
    /// It is not open.
    Closed(&'static str),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Error(error)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        match refused {
            Refused::Error(error) => error.into(),
            Refused::Closed(message) => PyValueError::new_err(message).into(),
        }
    }
}

const CLOSED: Refused = Refused::Closed("the index is closed");
const FINISHED: Refused = Refused::Closed("the feed has ended");

impl Slot {
    pub fn new(index: indexer::Indexer, path: PathBuf) -> Slot {
        let state = Mutex::new(State::Open(Box::new(index)));
        Slot { state, path, process: process::id() }
    }

    /// Calls the index, without the GIL.
    pub fn with<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut indexer::Indexer) -> firndb::Result<T> + Send,
    ) -> Result<T> {
        Ok(py.detach(|| self.with_index(call))?)
    }

    /// Calls the index. Call it without the GIL.
    pub fn with_index<T>(
        &self,
        call: impl FnOnce(&mut indexer::Indexer) -> firndb::Result<T>,
    ) -> std::result::Result<T, Refused> {
        match &mut *self.lock()? {
            State::Open(index) => Ok(call(index)?),
            State::Feeding(..) => Err(self.in_feed().into()),
            State::Closed => Err(CLOSED),
        }
    }

    /// Begins a feed, or single changes. The number identifies it.
    pub fn begin(&self, py: Python<'_>, source: &str, is_whole: bool) -> Result<u64> {
        let begin = || {
            let mut state = self.lock()?;
            let index = match std::mem::replace(&mut *state, State::Closed) {
                State::Open(index) => *index,
                other => {
                    let is_closed = matches!(other, State::Closed);
                    *state = other;
                    return Err(if is_closed { CLOSED } else { self.in_feed().into() });
                }
            };
            let begun = match is_whole {
                true => index.into_feed(source),
                false => index.into_changes(source),
            };
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
        };
        Ok(py.detach(begin)?)
    }

    /// Calls feed `number`, without the GIL.
    pub fn with_feed<T: Send>(
        &self,
        py: Python<'_>,
        number: u64,
        call: impl FnOnce(&mut OwnedFeed) -> firndb::Result<T> + Send,
    ) -> Result<T> {
        let call = || match &mut *self.lock()? {
            State::Feeding(feed, current) if *current == number => Ok(call(feed)?),
            State::Closed => Err(CLOSED),
            _ => Err(FINISHED),
        };
        Ok(py.detach(call)?)
    }

    /// Ends feed `number` with `end`, which returns the index.
    pub fn end<T: Send>(
        &self,
        py: Python<'_>,
        number: u64,
        end: impl FnOnce(OwnedFeed) -> (indexer::Indexer, firndb::Result<T>) + Send,
    ) -> Result<T> {
        let end = || {
            let mut state = self.lock()?;
            match std::mem::replace(&mut *state, State::Closed) {
                State::Feeding(feed, current) if current == number => {
                    let (index, result) = end(*feed);
                    *state = State::Open(Box::new(index));
                    Ok(result?)
                }
                State::Closed => Err(CLOSED),
                other => {
                    *state = other;
                    Err(FINISHED)
                }
            }
        };
        Ok(py.detach(end)?)
    }

    /// Discards feed `number` if it is in progress. Waits for the lock for a moment only: while
    /// there is a feed, other calls fail at once.
    pub fn abandon(&self, number: u64) {
        let Ok(mut state) = self.lock() else { return };
        if matches!(&*state, State::Feeding(_, current) if *current == number)
            && let State::Feeding(feed, _) = std::mem::replace(&mut *state, State::Closed)
        {
            *state = State::Open(Box::new(feed.discard()));
        }
    }

    /// Whether it is closed. Waits for a call in another thread.
    pub fn is_closed(&self, py: Python<'_>) -> Result<bool> {
        Ok(py.detach(|| Ok::<_, Refused>(matches!(*self.lock()?, State::Closed)))?)
    }

    /// Closes the index, and discards a feed in progress. Nothing happens in a forked child, whose
    /// parent has the index open.
    pub fn close(&self, py: Python<'_>) -> Result<()> {
        if self.process != process::id() {
            return Ok(());
        }
        let close = || match std::mem::replace(&mut *self.lock()?, State::Closed) {
            State::Open(index) => Ok(index.close()?),
            State::Feeding(feed, _) => Ok(feed.discard().close()?),
            State::Closed => Ok::<(), Refused>(()),
        };
        Ok(py.detach(close)?)
    }

    fn lock(&self) -> std::result::Result<MutexGuard<'_, State>, Error> {
        // Another thread of the parent may have held the lock at the fork.
        if self.process != process::id() {
            let message = "this is a forked child of the process that opened the index: use it in \
                           the parent, or open it after the fork";
            return Err(Error::new(ErrorKind::Failed, message).in_file(&self.path));
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn in_feed(&self) -> Error {
        let message = "a feed of the index is in progress: end its block first";
        Error::new(ErrorKind::Locked, message).in_file(&self.path)
    }
}

/// A number that no other feed has.
fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
