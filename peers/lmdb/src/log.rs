//! LMDB for records that change: one transaction per put, without sync, with a writable map, which
//! avoids copying pages.

use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::{Engine, Handle, Key, Records, Store};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithTls};
use std::path::Path;

pub struct LmdbLog;

impl Engine for LmdbLog {
    type Store = Opened;

    fn version(&self) -> String {
        let version = heed::lmdb_version();
        format!(
            "LMDB {}.{}.{}, through heed 0.23, NOSYNC, WRITEMAP, NORDAHEAD",
            version.major, version.minor, version.patch
        )
    }

    fn open(&self, records: &Records, dir: &Path) -> Result<Opened> {
        let mut options = EnvOpenOptions::new();
        // Room for half-full pages, and for the pages of earlier transactions.
        options.map_size((4 * records.bytes() as usize + (1 << 30)).next_multiple_of(1 << 30));
        let flags = EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP | EnvFlags::NO_READ_AHEAD;
        // SAFETY: no other process changes the files, and they are not opened a second time.
        let env = unsafe { options.flags(flags).open(dir)? };
        env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
            opener.create_database::<Bytes, Bytes>(txn, None).map(CommitOrAbort::<_, ()>::Commit)
        })?;
        Ok(Opened { env })
    }
}

pub struct Opened {
    env: Env<WithTls>,
}

impl Store for Opened {
    type Handle<'a> = Working<'a>;

    fn handle(&self, changing: bool) -> Result<Working<'_>> {
        let opened = self.env.open_databases_and_commit(self.env.read_txn()?, |opener, txn| {
            opener.open_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
        });
        let data = opened?.unwrap_commit().ok_or("there is no database")?;
        Ok(Working { env: &self.env, data, txn: None, changing })
    }

    fn close(self) -> Result<()> {
        self.env.force_sync()?;
        Ok(())
    }
}

pub struct Working<'a> {
    env: &'a Env<WithTls>,
    data: Database<'a, Bytes, Bytes>,
    /// Reused from get to get while nothing changes.
    txn: Option<RoTxn<'a, WithTls>>,
    changing: bool,
}

impl Handle for Working<'_> {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        if self.changing {
            let txn = self.env.read_txn()?;
            return Ok(self.data.get(&txn, key)?.map(found).is_some());
        }
        let txn = match &mut self.txn {
            Some(txn) => txn,
            none => none.insert(self.env.read_txn()?),
        };
        Ok(self.data.get(txn, key)?.map(found).is_some())
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        // Pages that an old reader can see cannot be reused.
        self.txn = None;
        let mut txn = self.env.write_txn()?;
        self.data.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }
}
