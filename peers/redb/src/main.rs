//! redb as a peer: a copy-on-write B-tree in Rust, filled in key order and compacted, with a cache
//! as large as the data.

mod log;

use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Engine, Handle, Key, Records, Store, serve};
use redb::{Builder, Database, ReadOnlyDatabase, ReadOnlyTable, ReadableDatabase, TableDefinition};
use std::path::Path;

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("log") => firndb_bench_protocol::log::serve(&log::RedbLog),
        _ => serve(&Redb),
    }
}

struct Redb;

const FILE: &str = "data.redb";
const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("data");
/// Size of its cache while building, and while serving: nothing is evicted.
const BUILD_CACHE: usize = 1 << 30;
const CACHE: usize = 8 << 30;
/// Records per transaction.
const BATCH: u64 = 1_000_000;

impl Engine for Redb {
    type Store = Opened;

    fn version(&self) -> String {
        "redb 4.5".into()
    }

    fn build(&self, records: &Records, dir: &Path) -> Result<()> {
        let mut data: Database =
            Builder::new().set_cache_size(BUILD_CACHE).create(dir.join(FILE))?;
        let mut txn = None;
        let mut numbers = 0;
        records.each_sorted(|key, value| {
            let open = match &mut txn {
                Some(open) => open,
                None => txn.insert(data.begin_write()?),
            };
            open.open_table(TABLE)?.insert(key.as_slice(), value)?;
            numbers += 1;
            if numbers % BATCH == 0 {
                txn.take().map_or(Ok(()), |txn| txn.commit())?;
            }
            Ok(())
        })?;
        txn.map_or(Ok(()), |txn| txn.commit())?;
        data.compact()?;
        Ok(())
    }

    fn open(&self, _: &Records, dir: &Path) -> Result<Opened> {
        let data = Builder::new().set_cache_size(CACHE).open_read_only(dir.join(FILE))?;
        Ok(Opened { data })
    }
}

struct Opened {
    data: ReadOnlyDatabase,
}

impl Store for Opened {
    type Handle<'a> = Reading;

    fn handle(&self) -> Result<Reading> {
        Ok(Reading { table: self.data.begin_read()?.open_table(TABLE)? })
    }
}

struct Reading {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl Handle for Reading {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let value = self.table.get(key.as_slice())?;
        Ok(value.map(|value| found(value.value())).is_some())
    }
}
