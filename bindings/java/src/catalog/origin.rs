//! The origin of a catalog, with a switch that ends calls early.

use firndb::catalog::{Catalog, Content, Origin};
use firndb::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Objects that are stored at a time. A cancelled call ends after them.
const GROUP: usize = 64;

/// Ends calls of a catalog early. Clones are the same switch.
#[derive(Clone, Debug, Default)]
pub struct Switch(Arc<AtomicBool>);

impl Switch {
    /// Lets calls fail from now on.
    pub fn turn_off(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_off(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The catalog, whose calls fail once the switch is off.
    pub fn over(&self, catalog: &Catalog) -> Catalog {
        let origin = catalog.origin().clone();
        Catalog::at(Arc::new(Switched { origin, switch: self.clone() }))
    }
}

#[derive(Debug)]
struct Switched {
    origin: Arc<dyn Origin>,
    switch: Switch,
}

impl Switched {
    fn origin(&self) -> Result<&dyn Origin> {
        if self.switch.is_off() {
            return Err(Error::new(ErrorKind::Cancelled, "the call was cancelled"));
        }
        Ok(&*self.origin)
    }
}

impl Origin for Switched {
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.origin()?.create(object, bytes)
    }

    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()> {
        objects.chunks(GROUP).try_for_each(|group| self.origin()?.store(group, progress))
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
        self.origin.begin();
    }

    fn is_awaited(&self, object: &str) -> bool {
        self.origin.is_awaited(object)
    }

    fn reject(&self, object: &str) -> bool {
        self.origin().is_ok_and(|origin| origin.reject(object))
    }

    fn sweep(&self, folder: &str) -> Result<()> {
        self.origin()?.sweep(folder)
    }
}
