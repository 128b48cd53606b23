//! redb for records that change: one transaction per put, with its weakest durability.

use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::{Engine, Handle, Key, Records, Store};
use redb::{Builder, Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition};
use std::path::Path;

pub struct RedbLog;

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("data");
const CACHE: usize = 4 << 30;
/// Records per transaction of a bulk load.
const BATCH: usize = 200_000;

impl Engine for RedbLog {
    type Store = Opened;

    fn version(&self) -> String {
        "redb 4.5, durability none, cache of 4 GiB".into()
    }

    fn open(&self, _: &Records, dir: &Path) -> Result<Opened> {
        let data = Builder::new().set_cache_size(CACHE).create(dir.join("data.redb"))?;
        let txn = data.begin_write()?;
        txn.open_table(TABLE)?;
        txn.commit()?;
        Ok(Opened { data })
    }
}

pub struct Opened {
    data: Database,
}

impl Store for Opened {
    type Handle<'a> = Working<'a>;

    fn handle(&self, changing: bool) -> Result<Working<'_>> {
        Ok(Working { data: &self.data, table: None, changing })
    }

    fn close(self) -> Result<()> {
        // Commits without durability need a final transaction with it.
        self.data.begin_write()?.commit()?;
        Ok(())
    }
}

pub struct Working<'a> {
    data: &'a Database,
    /// Reused from get to get while nothing changes.
    table: Option<ReadOnlyTable<u64, &'static [u8]>>,
    changing: bool,
}

fn number(key: &Key) -> u64 {
    u64::from_be_bytes(*key)
}

impl Handle for Working<'_> {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        if self.changing {
            self.table = None;
        }
        let table = match &mut self.table {
            Some(table) => table,
            none => none.insert(self.data.begin_read()?.open_table(TABLE)?),
        };
        Ok(table.get(number(key))?.map(|value| found(value.value())).is_some())
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        self.table = None;
        let mut txn = self.data.begin_write()?;
        txn.set_durability(Durability::None)?;
        txn.open_table(TABLE)?.insert(number(key), value)?;
        Ok(txn.commit()?)
    }

    fn load(&mut self, mut records: impl Iterator<Item = (Key, Vec<u8>)>) -> Result<()> {
        self.table = None;
        let mut is_over = false;
        while !is_over {
            let txn = self.data.begin_write()?;
            let mut table = txn.open_table(TABLE)?;
            let mut batch: Vec<_> = records.by_ref().take(BATCH).collect();
            is_over = batch.len() < BATCH;
            batch.sort_unstable();
            for (key, value) in batch {
                table.insert(number(&key), value.as_slice())?;
            }
            drop(table);
            txn.commit()?;
        }
        Ok(())
    }
}
