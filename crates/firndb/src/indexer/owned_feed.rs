//! A feed that owns its index.

use super::Indexer;
use super::apply::{Applied, Progress, Removals, drop_chunks};
use crate::search::{Document, Schema};
use crate::{Error, Result};

/// A [`Feed`](super::Feed) that owns its index instead of borrowing it, for callers that receive
/// the documents in separate calls and cannot hold a borrow between them, such as bindings to other
/// languages. [`OwnedFeed::finish`] and [`OwnedFeed::discard`] return the index.
///
/// Dropping it closes the index and discards the feed.
///
/// ```
/// use firndb::indexer::{Indexer, NotBegun};
/// use firndb::search::Document;
///
/// /// Applies a feed of one document, and returns the index.
/// fn replace(index: Indexer, key: &str, document: &Document) -> (Indexer, firndb::Result<()>) {
///     let mut feed = match index.into_feed("rooms") {
///         Ok(feed) => feed,
///         Err(not_begun) => {
///             let NotBegun { index, error, .. } = *not_begun;
///             return (index, Err(error));
///         }
///     };
///     if let Err(error) = feed.add(key, document) {
///         return (feed.discard(), Err(error));
///     }
///     let (index, applied) = feed.finish();
///     (index, applied.map(drop))
/// }
/// ```
pub struct OwnedFeed {
    index: Indexer,
    progress: Progress,
}

/// Why a feed could not be begun, and its index.
#[non_exhaustive]
pub struct NotBegun {
    /// The index, unchanged.
    pub index: Indexer,
    /// The error.
    pub error: Error,
}

impl Indexer {
    /// Begins a new version of a source, as [`Indexer::feed`] does.
    pub fn into_feed(self, source: &str) -> std::result::Result<OwnedFeed, Box<NotBegun>> {
        OwnedFeed::begin(self, source, true)
    }

    /// Begins single changes of a source, as [`Indexer::changes`] does.
    pub fn into_changes(self, source: &str) -> std::result::Result<OwnedFeed, Box<NotBegun>> {
        OwnedFeed::begin(self, source, false)
    }
}

impl OwnedFeed {
    fn begin(
        mut index: Indexer,
        source: &str,
        is_whole: bool,
    ) -> std::result::Result<OwnedFeed, Box<NotBegun>> {
        let progress = index
            .finish_interrupted()
            .and_then(|()| Progress::new(&index.state, source, is_whole, index.options.removals));
        match progress {
            Ok(progress) => Ok(OwnedFeed { index, progress }),
            Err(error) => Err(Box::new(NotBegun { index, error })),
        }
    }

    /// See [`Feed::removals`](super::Feed::removals).
    pub fn removals(mut self, removals: Removals) -> Self {
        self.progress.removals = removals;
        self
    }

    /// See [`Feed::left_out`](super::Feed::left_out).
    pub fn left_out(&mut self, rows: u64) {
        self.progress.left_out += rows;
    }

    /// See [`Feed::add`](super::Feed::add).
    pub fn add(&mut self, key: impl AsRef<[u8]>, document: &Document) -> Result<()> {
        self.progress.add_change(&self.index.state, key.as_ref(), Some(document))
    }

    /// See [`Feed::remove`](super::Feed::remove).
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.progress.add_change(&self.index.state, key.as_ref(), None)
    }

    /// The schema of the documents.
    pub fn schema(&self) -> &Schema {
        self.index.schema()
    }

    /// Applies all changes, as [`Feed::finish`](super::Feed::finish) does, and returns the index.
    pub fn finish(mut self) -> (Indexer, Result<Applied>) {
        let applied = self.progress.finish(&mut self.index.state);
        (self.discard(), applied)
    }

    /// Discards the feed and returns the index.
    pub fn discard(self) -> Indexer {
        // Best effort: the next feed or the next opening removes what remains.
        let _ = drop_chunks(&self.index.state.log);
        self.index
    }
}
