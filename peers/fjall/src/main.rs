//! fjall as a peer: a log-structured merge tree in Rust, with values of 512 bytes and more in
//! separate files, and a block cache as large as the data.

use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::{Engine, Handle, Key, Records, Store, serve};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions};
use std::path::Path;

/// Size of its cache: nothing is evicted.
const CACHE: u64 = 8 << 30;

fn main() -> Result<()> {
    serve(&Fjall)
}

struct Fjall;

impl Engine for Fjall {
    type Store = Opened;

    fn version(&self) -> String {
        "fjall 3.1, values from 512 bytes on apart from keys, cache of 8 GiB".into()
    }

    fn open(&self, _: &Records, dir: &Path) -> Result<Opened> {
        let database = Database::builder(dir).cache_size(CACHE).open()?;
        let options = || {
            KeyspaceCreateOptions::default()
                .with_kv_separation(Some(KvSeparationOptions::default().separation_threshold(512)))
        };
        let records = database.keyspace("records", options)?;
        Ok(Opened { database, records })
    }
}

struct Opened {
    database: Database,
    records: Keyspace,
}

impl Store for Opened {
    type Handle<'a> = &'a Opened;

    fn handle(&self, _: bool) -> Result<&Opened> {
        Ok(self)
    }

    fn close(self) -> Result<()> {
        drop(self.records);
        drop(self.database);
        Ok(())
    }
}

impl Handle for &Opened {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        Ok(self.records.get(key)?.map(|value| found(&value)).is_some())
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        Ok(self.records.insert(key, value)?)
    }
}
