//! Access of other machines to the files of a reader: the files that it has fetched and verified,
//! and the manifest of its open version. The network protocol is not part of this crate.

use crate::catalog::format::{Version, is_hex, twenty_digits};
use crate::disk::{DiskRef, ReadAt};
use crate::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most bytes that one call of [`SharedFile::read`] returns.
const MAX_READ: usize = 1 << 22;

/// Shortest time between two wake-ups of the thread that looks for newer versions.
const WAKE: Duration = Duration::from_millis(500);

/// Exposes the files of a reader to other machines. Empty until it is passed to a reader in
/// [`crate::catalog::ReaderOptions`]. Clones are cheap and refer to the same share. No call blocks.
#[derive(Clone)]
pub struct Share {
    name: Arc<str>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The directory of the files.
    cache: Option<(DiskRef, PathBuf)>,
    /// The open version, all of whose files are present.
    open: Option<Arc<Version>>,
    /// The newest version that the reader knows.
    newest: u64,
    /// BLAKE3 hashes of the files that are being fetched.
    fetching: HashSet<String>,
    /// When bytes of these files last arrived, or the fetch began.
    progressed: Option<Instant>,
    /// Since when requests wait for the next look for newer versions, because they name versions
    /// that the reader does not know.
    waiting_since: Option<Instant>,
    /// When the last look that has ended began.
    last_look: Option<Instant>,
    /// Wakes the thread that looks for newer versions.
    wake: Option<Sender<Wake>>,
    /// When the thread was last woken.
    woken: Option<Instant>,
}

/// A message to the thread that looks for newer versions.
pub(crate) enum Wake {
    /// Another machine knows a newer version.
    Look,
    Stop,
}

/// The state of a file.
#[derive(Debug)]
pub enum Found {
    /// The file is complete and verified.
    Here(SharedFile),
    /// The file is being fetched, or belongs to a version that the reader will look for soon. The
    /// duration is the time since the last progress.
    Coming(Duration),
    /// The reader does not have the file, and will not fetch it soon.
    Missing,
}

/// An open file. It stays readable after the reader has removed it.
pub struct SharedFile {
    file: Box<dyn ReadAt>,
    len: u64,
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFile").field("len", &self.len).finish_non_exhaustive()
    }
}

impl SharedFile {
    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Reads up to `len` bytes from `offset` on: fewer at the end of the file, and at most 4 MiB.
    pub fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let there = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(MAX_READ);
        let mut bytes = vec![0; there.min(len).min(MAX_READ)];
        if !bytes.is_empty() {
            self.file.read_at(offset, &mut bytes)?;
        }
        Ok(bytes)
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Share {
    /// Creates the share of a reader that follows this name.
    pub fn new(name: &str) -> Share {
        Share { name: name.into(), state: Arc::default() }
    }

    /// The name whose versions the reader follows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The open version; `None` before the first version is open.
    pub fn version(&self) -> Option<Arc<Version>> {
        self.state().open.clone()
    }

    /// Looks up a file by the last part of its object's name. `since` is when the file was first
    /// requested.
    ///
    /// If the file belongs to a version that the reader does not know, this wakes the thread of
    /// [`crate::catalog::CatalogReader::watch`]. The file is missing if the reader has looked for
    /// newer versions since `since`. So a request for a version that does not exist waits for at
    /// most one look, and does not delay other requests.
    pub fn find(&self, file: &str, since: Instant) -> Result<Found> {
        let parts = file.split_once('-').and_then(|(n, hash)| Some((twenty_digits(n)?, hash)));
        let Some((number, hash)) = parts.filter(|(_, hash)| is_hex(hash, 64)) else {
            return Ok(Found::Missing);
        };
        let mut state = self.state();
        let Some((disk, dir)) = state.cache.clone() else {
            return Ok(state.wait_for_look()); // The reader has not started yet.
        };
        let has_looked = state.last_look.is_some_and(|looked| looked >= since);
        // Read under one lock, and before the file is opened: concurrently the reader may start or
        // finish fetching a version.
        let (is_fetching, newest) = (state.fetching.contains(hash), state.newest);
        let idle = state.progressed.map_or(Duration::ZERO, |moved| moved.elapsed());
        drop(state);
        match disk.open(&dir.join(format!("{hash}.firn"))) {
            Ok(file) => Ok(Found::Here(SharedFile { len: file.len()?, file })),
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            Err(_) if is_fetching => Ok(Found::Coming(idle)),
            Err(_) if number <= newest || has_looked => Ok(Found::Missing),
            Err(_) => {
                let mut state = self.state();
                state.wake_watch();
                Ok(state.wait_for_look())
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects the share with the reader, whose files are in `dir`. `InvalidArgument` if the
    /// reader follows another name.
    pub(crate) fn attach(&self, name: &str, disk: &DiskRef, dir: &Path) -> Result<()> {
        if *self.name != *name {
            let message = format!("what is shared is `{}`, and not `{name}`", self.name);
            return Err(Error::invalid(message));
        }
        self.state().cache = Some((disk.clone(), dir.to_path_buf()));
        Ok(())
    }

    /// Called before files of a version are fetched.
    pub(crate) fn fetching<'a>(&self, version: u64, files: impl Iterator<Item = &'a str>) {
        let mut state = self.state();
        state.newest = version.max(state.newest);
        state.fetching = files.map(str::to_string).collect();
        state.progressed = Some(Instant::now());
    }

    /// Called when bytes have arrived.
    pub(crate) fn progressed(&self) {
        self.state().progressed = Some(Instant::now());
    }

    /// Called when a file is complete.
    pub(crate) fn fetched(&self, blake3: &str) {
        let mut state = self.state();
        state.fetching.remove(blake3);
        state.progressed = Some(Instant::now());
    }

    /// Called after a look for newer versions, with the time at which it began.
    pub(crate) fn looked(&self, began: Instant) {
        let mut state = self.state();
        state.last_look = state.last_look.max(Some(began));
        state.waiting_since = None;
    }

    /// Called when no more files are being fetched.
    pub(crate) fn fetch_ended(&self) {
        self.state().fetching.clear();
    }

    /// Called when a version was opened.
    pub(crate) fn opened(&self, version: &Version) {
        let mut state = self.state();
        state.newest = version.number.max(state.newest);
        state.open = Some(Arc::new(version.clone()));
    }

    pub(crate) fn set_waker(&self, wake: Option<Sender<Wake>>) {
        self.state().wake = wake;
    }
}

impl State {
    fn wake_watch(&mut self) {
        let Some(wake) = &self.wake else { return };
        if self.woken.is_none_or(|woken| woken.elapsed() > WAKE) {
            self.woken = Some(Instant::now());
            let _ = wake.send(Wake::Look); // Fails if the thread is ending.
        }
    }

    /// The answer for versions that the reader does not know.
    fn wait_for_look(&mut self) -> Found {
        Found::Coming(self.waiting_since.get_or_insert_with(Instant::now).elapsed())
    }
}
