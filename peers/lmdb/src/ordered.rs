//! LMDB for ranges of keys: a store as in `log.rs`, and a table filled in key order, so that its
//! pages are full.

use crate::{MAP, environment};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::ordered::{
    Engine, GROUP, Key, Prefix, Reader, Records, Store, TableEngine,
};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, PutFlags, RoTxn, WithoutTls};
use std::path::Path;

pub struct LmdbLog;
pub struct LmdbTable;

fn version(flags: &str) -> String {
    let heed::LmdbVersion { major, minor, patch, .. } = heed::lmdb_version();
    format!("LMDB {major}.{minor}.{patch}, through heed 0.23, {flags}")
}

fn create(dir: &Path, flags: EnvFlags, size: usize) -> Result<Env<WithoutTls>> {
    let env = environment(dir, flags, size)?;
    env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        opener.create_database::<Bytes, Bytes>(txn, None).map(CommitOrAbort::<_, ()>::Commit)
    })?;
    Ok(env)
}

impl Engine for LmdbLog {
    type Store = Opened;

    fn version(&self) -> String {
        version("NOSYNC, WRITEMAP, NORDAHEAD")
    }

    fn create(&self, records: &Records, dir: &Path) -> Result<Opened> {
        // With a writable map the file is as long as the map.
        let flags = EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP | EnvFlags::NO_READ_AHEAD;
        let size = (4 * records.bytes() as usize + (1 << 30)).next_multiple_of(1 << 30);
        Ok(Opened { env: create(dir, flags, size)?, changes: true })
    }
}

impl TableEngine for LmdbTable {
    type Store = Opened;

    fn version(&self) -> String {
        version("filled in the order of keys")
    }

    fn build(&self, records: &Records, dir: &Path) -> Result<()> {
        let env = create(dir, EnvFlags::NO_SYNC, MAP)?;
        let data = data(&env)?;
        let (mut txn, mut value) = (env.write_txn()?, Vec::new());
        for (place, group) in records.sorted().into_iter().enumerate() {
            for number in group * GROUP..(group + 1) * GROUP {
                Records::value(number, &mut value);
                data.put_with_flags(&mut txn, PutFlags::APPEND, &Records::key(number), &value)?;
            }
            // Dirty pages stay in memory until their transaction ends.
            if place % 10_000 == 9999 {
                txn.commit()?;
                txn = env.write_txn()?;
            }
        }
        txn.commit()?;
        env.force_sync()?;
        Ok(())
    }

    fn open(&self, dir: &Path) -> Result<Opened> {
        let env = environment(dir, EnvFlags::READ_ONLY | EnvFlags::NO_READ_AHEAD, MAP)?;
        Ok(Opened { env, changes: false })
    }
}

pub struct Opened {
    env: Env<WithoutTls>,
    /// Whether a read transaction may be out of date when the next scan begins.
    changes: bool,
}

type Data<'a> = Database<'a, Bytes, Bytes>;

fn data(env: &Env<WithoutTls>) -> Result<Data<'_>> {
    let opened = env.open_databases_and_commit(env.read_txn()?, |opener, txn| {
        opener.open_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
    });
    Ok(opened?.unwrap_commit().ok_or("there is no database")?)
}

impl Store for Opened {
    type Reader<'a> = Working<'a>;

    fn reader(&self) -> Result<Working<'_>> {
        Ok(Working { env: &self.env, data: data(&self.env)?, txn: None, changes: self.changes })
    }

    fn close(self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

pub struct Working<'a> {
    env: &'a Env<WithoutTls>,
    data: Data<'a>,
    /// Reused from scan to scan of a table.
    txn: Option<RoTxn<'a, WithoutTls>>,
    changes: bool,
}

impl Working<'_> {
    /// Begins a scan.
    fn begin(&mut self) -> Result<()> {
        if self.changes || self.txn.is_none() {
            self.txn = Some(self.env.read_txn()?);
        }
        Ok(())
    }
}

/// Passes all records to `each`.
fn walk<'t>(
    records: impl Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>>,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    for record in records {
        let (key, value) = record?;
        each(key, value);
    }
    Ok(())
}

impl Reader for Working<'_> {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        // Pages that an old reader can see cannot be reused.
        self.txn = None;
        let mut txn = self.env.write_txn()?;
        self.data.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }

    fn prefix(
        &mut self,
        prefix: &Prefix,
        reverse: bool,
        each: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        self.begin()?;
        let txn = self.txn.as_ref().ok_or("no transaction")?;
        match reverse {
            false => walk(self.data.prefix_iter(txn, prefix)?, each),
            true => walk(self.data.rev_prefix_iter(txn, prefix)?, each),
        }
    }

    fn scan(&mut self, reverse: bool, each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.begin()?;
        let txn = self.txn.as_ref().ok_or("no transaction")?;
        match reverse {
            false => walk(self.data.iter(txn)?, each),
            true => walk(self.data.rev_iter(txn)?, each),
        }
    }
}
