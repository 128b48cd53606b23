//! An origin with the faults of an object store behind a network.

use super::*;
use crate::catalog::local::LocalOrigin;
use crate::catalog::{Content, Origin};
use crate::{Error, ErrorKind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Objects on a simulated disk that cannot be hard-linked, as behind a network.
#[derive(Debug)]
pub(super) struct Faulty {
    inner: LocalOrigin,
    /// One in this many calls fails; none if 0.
    pub(super) one_in: AtomicU64,
    random: Mutex<u64>,
    /// Calls of `read` that returned bytes, and the number of bytes.
    pub(super) reads: AtomicUsize,
    pub(super) bytes: AtomicUsize,
}

#[derive(Clone, Copy, PartialEq)]
enum Ill {
    No,
    /// The request is lost.
    Lost,
    /// The request arrives, and its response is lost.
    Unanswered,
    /// The request arrives twice, and the second response is returned.
    Repeated,
    /// Half the response is returned: of bytes, or a list without the newest entries.
    Half,
}

impl Faulty {
    pub(super) fn new(disk: &Arc<SimDisk>, seed: u64) -> Faulty {
        Faulty {
            inner: LocalOrigin::new(disk.clone() as DiskRef, Path::new(CATALOG)),
            one_in: AtomicU64::new(0),
            random: Mutex::new(seed),
            reads: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    fn next(&self) -> Ill {
        let mut random = self.random.lock().unwrap();
        *random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let (draw, one_in) = (*random >> 33, self.one_in.load(Relaxed));
        if one_in == 0 || !draw.is_multiple_of(one_in) {
            return Ill::No;
        }
        [Ill::Lost, Ill::Unanswered, Ill::Repeated, Ill::Half][(draw / one_in % 4) as usize]
    }

    fn call<T>(&self, call: impl Fn() -> Result<T>, halve: impl Fn(T) -> T) -> Result<T> {
        let lost = || Error::new(ErrorKind::Io, "no answer in time");
        match self.next() {
            Ill::No => call(),
            Ill::Lost => Err(lost()),
            Ill::Unanswered => call().and(Err(lost())),
            Ill::Repeated => call().and_then(|_| call()),
            Ill::Half => call().map(halve),
        }
    }
}

impl Origin for Faulty {
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.call(|| self.inner.create(object, bytes), |done| done)
    }

    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()> {
        self.call(|| self.inner.store(objects, progress), |done| done)
    }

    fn hint(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.call(|| self.inner.hint(object, bytes), |done| done)
    }

    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        let halve = |mut bytes: Vec<u8>| {
            bytes.truncate(bytes.len() / 2);
            bytes
        };
        let bytes = self.call(|| self.inner.read(object, offset, len), halve)?;
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes.len(), Relaxed);
        Ok(bytes)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let late = |mut names: Vec<String>| {
            names.truncate(names.len().saturating_sub(2));
            names
        };
        self.call(|| self.inner.list(folder), late)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>> {
        self.call(|| self.inner.list_folders(folder), |names| names)
    }

    fn remove(&self, objects: &[String]) -> Result<()> {
        self.call(|| self.inner.remove(objects), |done| done)
    }
}
