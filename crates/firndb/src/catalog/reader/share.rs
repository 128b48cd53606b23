//! What a reader has to give to others: the files it has fetched and checked, and the manifest of
//! the version that it has open. Whoever carries them over the network is not part of this library.

use super::format::{Version, is_hex, twenty_digits};
use crate::disk::{DiskRef, ReadAt};
use crate::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most bytes that [`SharedFile::read`] gives at a time.
const MAX_READ: usize = 1 << 22;

/// How often others can make a reader look for newer versions.
const WAKE: Duration = Duration::from_millis(500);

/// The files of a reader, for others to read. It is empty until it is given to a reader with
/// [`super::ReaderOptions`]. Clones are cheap and are the same one; nothing here waits.
#[derive(Clone)]
pub struct Share {
    name: Arc<str>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Where the files are.
    cache: Option<(DiskRef, PathBuf)>,
    /// The version that is open, all of whose files are here.
    open: Option<Arc<Version>>,
    /// The newest version that was heard of.
    newest: u64,
    /// BLAKE3 of files that are being fetched.
    coming: HashSet<String>,
    /// When one of them got a few bytes more, or was asked for first.
    moved: Option<Instant>,
    /// Since when others ask for files of versions that this reader does not know; it has not
    /// looked for newer ones since.
    asked: Option<Instant>,
    /// When it began to look, the last time that it has come to an end with it.
    looked: Option<Instant>,
    /// Wakes the thread that looks for newer versions.
    wake: Option<Sender<Wake>>,
    /// When it was woken last.
    woken: Option<Instant>,
}

/// What the thread that looks for newer versions is told.
pub(super) enum Wake {
    /// Others know of a version that is newer.
    Look,
    Stop,
}

/// Whether a file is here.
#[derive(Debug)]
pub enum Found {
    /// It is, whole and checked.
    Here(SharedFile),
    /// It is being fetched, or belongs to a version that this reader is about to look for. Nothing
    /// of it has come for so long.
    Coming(Duration),
    /// It is not, and is not going to be soon.
    Missing,
}

/// A file that is open: it can be read also after the reader has removed it.
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
    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Reads up to `len` bytes from `offset` on; fewer where the file ends, and 4 MiB at most.
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
    /// What the reader of this name will have.
    pub fn new(name: &str) -> Share {
        Share { name: name.into(), state: Arc::default() }
    }

    /// The name whose versions the reader follows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version that is open; `None` before the first one is.
    pub fn version(&self) -> Option<Arc<Version>> {
        self.state().open.clone()
    }

    /// Looks for a file by the last part of its object's name. A file that belongs to a version
    /// which this reader has not heard of makes the thread of [`super::CatalogReader::watch`] look
    /// for it at once, and is missing if it has looked after `since`, when the file was asked for
    /// first: whoever makes a number up waits no longer than for one look, and keeps nobody else.
    pub fn find(&self, file: &str, since: Instant) -> Result<Found> {
        let parts = file.split_once('-').and_then(|(n, hash)| Some((twenty_digits(n)?, hash)));
        let Some((number, hash)) = parts.filter(|(_, hash)| is_hex(hash, 64)) else {
            return Ok(Found::Missing);
        };
        let mut state = self.state();
        let Some((disk, dir)) = state.cache.clone() else {
            return Ok(state.wait_for_a_look()); // The reader is about to start.
        };
        let has_looked = state.looked.is_some_and(|looked| looked >= since);
        // All at one moment, and before the disk is looked at: meanwhile the reader may begin with
        // a version, or be done with it.
        let (is_coming, newest) = (state.coming.contains(hash), state.newest);
        let moved = state.moved.map_or(Duration::ZERO, |moved| moved.elapsed());
        drop(state);
        match disk.open(&dir.join(format!("{hash}.firn"))) {
            Ok(file) => Ok(Found::Here(SharedFile { len: file.len()?, file })),
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            Err(_) if is_coming => Ok(Found::Coming(moved)),
            Err(_) if number <= newest || has_looked => Ok(Found::Missing),
            Err(_) => {
                let mut state = self.state();
                state.look();
                Ok(state.wait_for_a_look())
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reader is there, and has its files in `dir`. `InvalidArgument` if it follows another
    /// name.
    pub(super) fn begin(&self, name: &str, disk: &DiskRef, dir: &Path) -> Result<()> {
        if *self.name != *name {
            let message = format!("what is shared is `{}`, and not `{name}`", self.name);
            return Err(Error::invalid(message));
        }
        self.state().cache = Some((disk.clone(), dir.to_path_buf()));
        Ok(())
    }

    /// Files of a version are going to be fetched.
    pub(super) fn expect<'a>(&self, version: u64, files: impl Iterator<Item = &'a str>) {
        let mut state = self.state();
        state.newest = version.max(state.newest);
        state.coming = files.map(str::to_string).collect();
        state.moved = Some(Instant::now());
    }

    /// A few bytes have come.
    pub(super) fn moved(&self) {
        self.state().moved = Some(Instant::now());
    }

    /// A file is whole and has its name.
    pub(super) fn came(&self, blake3: &str) {
        let mut state = self.state();
        state.coming.remove(blake3);
        state.moved = Some(Instant::now());
    }

    /// The reader has looked for newer versions, beginning at this time.
    pub(super) fn looked(&self, began: Instant) {
        let mut state = self.state();
        state.looked = state.looked.max(Some(began));
        state.asked = None;
    }

    /// Nothing is being fetched any more.
    pub(super) fn rest(&self) {
        self.state().coming.clear();
    }

    /// A version is open.
    pub(super) fn opened(&self, version: &Version) {
        let mut state = self.state();
        state.newest = version.number.max(state.newest);
        state.open = Some(Arc::new(version.clone()));
    }

    pub(super) fn wake(&self, wake: Option<Sender<Wake>>) {
        self.state().wake = wake;
    }
}

impl State {
    fn look(&mut self) {
        let Some(wake) = &self.wake else { return };
        if self.woken.is_none_or(|woken| woken.elapsed() > WAKE) {
            self.woken = Some(Instant::now());
            let _ = wake.send(Wake::Look); // Nobody hears it if the thread ends at this moment.
        }
    }

    /// The answer to those who know a version that this reader does not.
    fn wait_for_a_look(&mut self) -> Found {
        Found::Coming(self.asked.get_or_insert_with(Instant::now).elapsed())
    }
}
