//! FirnDB's engines: log stores with and without the order of keys, and ordered tables.

use firndb::log::{LogStore, Options};
use firndb::table::{BuildOptions, Order, Table, TableBuilder};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::ordered::{
    Engine, GROUP, Key, Prefix, Reader, Records, Store, TableEngine,
};
use std::path::Path;
use std::time::Duration;

/// A log store with its default options.
pub struct Log {
    /// Whether its keys can be scanned in order.
    ordered: bool,
}

impl Log {
    /// Parses an engine's name.
    pub fn parse(name: &str) -> Option<Log> {
        match name {
            "firndb" => Some(Log { ordered: true }),
            "firndb-unordered" => Some(Log { ordered: false }),
            _ => None,
        }
    }
}

impl Engine for Log {
    type Store = OpenLog;

    fn version(&self) -> String {
        let order = if self.ordered { "ordered" } else { "default options" };
        format!("FirnDB {}, log store, {order}", env!("CARGO_PKG_VERSION"))
    }

    fn scans(&self) -> bool {
        self.ordered
    }

    fn create(&self, _: &Records, dir: &Path) -> Result<OpenLog> {
        Ok(OpenLog(LogStore::open_with(dir, Options::new().ordered(self.ordered))?))
    }
}

/// An open log store.
pub struct OpenLog(LogStore);

impl Store for OpenLog {
    type Reader<'a> = &'a OpenLog;

    fn reader(&self) -> Result<&OpenLog> {
        Ok(self)
    }

    /// Waits until maintenance no longer writes files and compaction has nothing to do.
    fn settle(&self) -> Result<()> {
        let mut before = None;
        loop {
            let stats = self.0.stats();
            let now = (stats.maintenance_bytes, stats.moved_bytes, stats.pending_segments);
            if before == Some(now) && !stats.is_compacting && stats.pending_segments == 0 {
                return Ok(());
            }
            before = Some(now);
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn close(self) -> Result<()> {
        Ok(self.0.close()?)
    }
}

impl Reader for &OpenLog {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }

    fn prefix(
        &mut self,
        prefix: &Prefix,
        reverse: bool,
        each: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        read_log(self.0.prefix(prefix)?, reverse, each)
    }

    fn scan(&mut self, reverse: bool, each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        read_log(self.0.range(..)?, reverse, each)
    }
}

/// A table in the order of keys, with its default options, mapped.
pub struct Tables;

const FILE: &str = "records.table";

impl TableEngine for Tables {
    type Store = OpenTable;

    fn version(&self) -> String {
        format!("FirnDB {}, table in the order of keys, mapped", env!("CARGO_PKG_VERSION"))
    }

    fn build(&self, records: &Records, dir: &Path) -> Result<()> {
        let options = BuildOptions::new().order(Order::Key);
        let mut builder = TableBuilder::create_with(dir.join(FILE), options)?;
        let mut value = Vec::new();
        for group in records.sorted() {
            for number in group * GROUP..(group + 1) * GROUP {
                Records::value(number, &mut value);
                builder.add(Records::key(number), &value)?;
            }
        }
        builder.finish()?;
        Ok(())
    }

    fn open(&self, dir: &Path) -> Result<OpenTable> {
        Ok(OpenTable(Table::open(dir.join(FILE))?))
    }
}

/// An open table.
pub struct OpenTable(Table);

impl Store for OpenTable {
    type Reader<'a> = &'a OpenTable;

    fn reader(&self) -> Result<&OpenTable> {
        Ok(self)
    }
}

impl Reader for &OpenTable {
    fn prefix(
        &mut self,
        prefix: &Prefix,
        reverse: bool,
        each: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        read_table(self.0.prefix(prefix)?, reverse, each)
    }

    fn scan(&mut self, reverse: bool, each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        read_table(self.0.range(..)?, reverse, each)
    }
}

fn read_log(
    range: firndb::log::Range<'_>,
    reverse: bool,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    let mut range = if reverse { range.reversed() } else { range };
    while let Some(done) = range.next_with(&mut each) {
        done?;
    }
    Ok(())
}

fn read_table(
    range: firndb::table::Range<'_>,
    reverse: bool,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    let mut range = if reverse { range.reversed() } else { range };
    while let Some(done) = range.next_with(&mut each) {
        done?;
    }
    Ok(())
}
