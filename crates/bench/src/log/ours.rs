//! FirnDB's LogStore as an engine of the benchmark.

use firndb::log::LogStore;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::{Engine, Handle, Key, Records, Store};
use std::path::Path;

/// FirnDB with its default options.
pub struct Ours;

impl Engine for Ours {
    type Store = Opened;

    fn version(&self) -> String {
        format!("FirnDB {}, default options", env!("CARGO_PKG_VERSION"))
    }

    fn open(&self, _: &Records, dir: &Path) -> Result<Opened> {
        Ok(Opened(LogStore::open(dir)?))
    }
}

/// An open store.
pub struct Opened(LogStore);

impl Store for Opened {
    type Handle<'a> = &'a Opened;

    fn handle(&self, _: bool) -> Result<&Opened> {
        Ok(self)
    }

    fn written(&self) -> Option<u64> {
        let stats = self.0.stats();
        Some(stats.log_bytes + stats.moved_bytes + stats.maintenance_bytes)
    }

    fn close(self) -> Result<()> {
        Ok(self.0.close()?)
    }
}

impl Handle for &Opened {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        Ok(self.0.get_with(key, found)?.is_some())
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }
}
