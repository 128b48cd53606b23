//! LMDB as a peer, through heed: a mapped B+ tree, filled in key order so that its pages are full.

mod log;
mod ordered;

use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Engine, Handle, Key, Records, Store, serve};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags, RoTxn, WithoutTls};
use std::path::Path;

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("log") => firndb_bench_protocol::log::serve(&log::LmdbLog),
        Some("ordered-log") => firndb_bench_protocol::ordered::serve(&ordered::LmdbLog),
        Some("ordered-table") => firndb_bench_protocol::ordered::serve_tables(&ordered::LmdbTable),
        _ => serve(&Lmdb),
    }
}

struct Lmdb;

/// Address space; the file grows as needed.
const MAP: usize = 64 << 30;
/// Records per transaction: dirty pages stay in memory until it ends.
const BATCH: u64 = 1_000_000;

fn environment(dir: &Path, flags: EnvFlags, size: usize) -> Result<Env<WithoutTls>> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(size);
    // SAFETY: no other process changes the files, and they are not opened a second time.
    Ok(unsafe { options.flags(flags).open(dir)? })
}

impl Engine for Lmdb {
    type Store = Opened;

    fn version(&self) -> String {
        let version = heed::lmdb_version();
        format!("LMDB {}.{}.{}, through heed 0.23", version.major, version.minor, version.patch)
    }

    fn build(&self, records: &Records, dir: &Path) -> Result<()> {
        let env = environment(dir, EnvFlags::NO_SYNC, MAP)?;
        let data: Database<Bytes, Bytes> = env
            .create_databases_and_commit(env.write_txn()?, |opener, txn| {
                opener.create_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        let (mut open, mut count) = (Some(env.write_txn()?), 0);
        records.each_sorted(|key, value| {
            let txn = open.as_mut().ok_or("no transaction")?;
            data.put_with_flags(txn, PutFlags::APPEND, key, value)?;
            count += 1;
            if count % BATCH == 0 {
                open.take().map_or(Ok(()), |txn| txn.commit())?;
                open = Some(env.write_txn()?);
            }
            Ok(())
        })?;
        open.map_or(Ok(()), |txn| txn.commit())?;
        env.force_sync()?;
        Ok(())
    }

    fn open(&self, _: &Records, dir: &Path) -> Result<Opened> {
        // Read-ahead does not help random gets.
        let env = environment(dir, EnvFlags::READ_ONLY | EnvFlags::NO_READ_AHEAD, MAP)?;
        Ok(Opened { env })
    }
}

struct Opened {
    env: Env<WithoutTls>,
}

impl Store for Opened {
    type Handle<'a> = Reading<'a>;

    fn handle(&self) -> Result<Reading<'_>> {
        let opened = self.env.open_databases_and_commit(self.env.read_txn()?, |opener, txn| {
            opener.open_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
        });
        let data = opened?.unwrap_commit().ok_or("there is no database")?;
        Ok(Reading { txn: self.env.read_txn()?, data })
    }
}

/// One transaction for all gets: nothing changes.
struct Reading<'a> {
    txn: RoTxn<'a, WithoutTls>,
    data: Database<'a, Bytes, Bytes>,
}

impl Handle for Reading<'_> {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let value = self.data.get(&self.txn, key)?;
        Ok(value.map(found).is_some())
    }
}
