//! The origin of a catalog, with a switch that lets calls end early.

use firndb::catalog::{Content, Origin};
use firndb::{Error, ErrorKind, Result};
use std::fmt;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends calls early. Clones are the same switch.
#[derive(Clone, Default)]
pub struct Switch(Arc<AtomicBool>);

impl Switch {
    /// Lets calls fail from now on, or succeed again.
    pub fn set(&self, is_off: bool) {
        self.0.store(is_off, Ordering::Relaxed);
    }

    /// Set while calls fail.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

/// The objects of a catalog on this machine or on others.
#[derive(Clone)]
pub struct Place {
    origin: Option<Arc<dyn Origin>>,
    /// A network client has threads, which a forked child does not have.
    is_remote: bool,
    process: u32,
}

impl Place {
    pub fn new(origin: Arc<dyn Origin>, is_remote: bool) -> Place {
        Place { origin: Some(origin), is_remote, process: process::id() }
    }

    /// The catalog, whose calls fail once `switch` is off.
    pub fn catalog(&self, switch: Switch) -> firndb::catalog::Catalog {
        firndb::catalog::Catalog::at(Arc::new(Switched { place: self.clone(), switch }))
    }

    fn is_lost(&self) -> bool {
        self.is_remote && self.process != process::id()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // In a forked child, ending the threads of the client would wait for threads of the parent.
        if self.is_lost() {
            std::mem::forget(self.origin.take());
        }
    }
}

struct Switched {
    place: Place,
    switch: Switch,
}

impl fmt::Debug for Switched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.origin.fmt(f)
    }
}

impl Switched {
    fn origin(&self) -> Result<&dyn Origin> {
        if self.switch.0.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "the call was interrupted"));
        }
        match &self.place.origin {
            Some(origin) if !self.place.is_lost() => Ok(&**origin),
            _ => Err(Error::new(
                ErrorKind::Failed,
                "this is a forked child of the process that opened the catalog, without its \
                 network connections: open the catalog after the fork",
            )),
        }
    }
}

impl Origin for Switched {
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.origin()?.create(object, bytes)
    }

    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()> {
        // In groups where they are files of this machine, so that the switch has an effect.
        if self.place.is_remote {
            return self.origin()?.store(objects, progress);
        }
        objects.chunks(64).try_for_each(|some| self.origin()?.store(some, progress))
    }

    fn hint(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.origin()?.hint(object, bytes)
    }

    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        self.origin()?.read(object, offset, len)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.origin()?.list(folder)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>> {
        self.origin()?.list_folders(folder)
    }

    fn remove(&self, objects: &[String]) -> Result<()> {
        self.origin()?.remove(objects)
    }

    fn are_intact(&self, objects: &[(String, u64)]) -> Result<Vec<bool>> {
        self.origin()?.are_intact(objects)
    }

    fn file(&self, object: &str) -> Option<PathBuf> {
        self.origin().ok()?.file(object)
    }

    fn begin(&self) {
        if let Ok(origin) = self.origin() {
            origin.begin();
        }
    }

    fn is_awaited(&self, object: &str) -> bool {
        self.origin().is_ok_and(|origin| origin.is_awaited(object))
    }

    fn reject(&self, object: &str) -> bool {
        self.origin().is_ok_and(|origin| origin.reject(object))
    }

    fn sweep(&self, folder: &str) -> Result<()> {
        self.origin()?.sweep(folder)
    }
}
