//! A table in several files, each with the keys of one shard.

use crate::bytes::inspection::Verification;
use crate::disk::{self, DiskRef};
use crate::table::options::Access;
use crate::table::read::iter::Iter;
use crate::table::read::table::Table;
use crate::{Error, Result};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::Path;
use std::slice;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Most shards of a sharded table.
pub const MAX_SHARDS: usize = 100_000;

/// Seed of the hash that selects the shard. A table orders its records by the hash with seed 0, or
/// with a seed made from its keys. With one of these seeds, all keys of a shard would be in a
/// fraction of the bins of its table.
const SEED: u64 = 0x5348_4152_4453_2031;

/// The shard of a key in a [`ShardedTable`] of `shards` shards: a number below `shards`, or 0 if
/// `shards` is 0.
///
/// The result is part of the format: it is the same in all releases, on all machines. It is the
/// XXH3-64 of the key with seed `0x5348_4152_4453_2031`, times `shards`, divided by 2^64. It does
/// not depend on the tables. Shards have nearly equal numbers of keys, unless the keys were crafted
/// to share a shard.
///
/// ```
/// use firndb::table::{TableBuilder, shard_of};
/// use std::path::Path;
///
/// /// Builds one shard of a table. Each of `shards` machines calls this with another `shard`.
/// fn build(
///     records: &[(&str, &str)],
///     path: &Path,
///     shard: usize,
///     shards: usize,
/// ) -> firndb::Result<()> {
///     let mut builder = TableBuilder::create(path)?;
///     for (key, value) in records.iter().filter(|(key, _)| shard_of(key, shards) == shard) {
///         builder.add(key, value)?;
///     }
///     builder.finish().map(drop)
/// }
/// ```
#[inline]
pub fn shard_of(key: impl AsRef<[u8]>, shards: usize) -> usize {
    shard_of_hash(shard_hash(key.as_ref()), shards)
}

/// The hash that selects the shard of a key.
#[inline]
fn shard_hash(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, SEED)
}

/// The shard of a key with this hash. Never decreases as the hash increases.
#[inline]
pub(crate) fn shard_of_hash(hash: u64, shards: usize) -> usize {
    ((u128::from(hash) * shards as u128) >> 64) as usize
}

/// The least and the greatest shard hash of the keys of a table; `None` if it is empty. All keys
/// are in one shard if both hashes are. Reads the whole table.
pub(crate) fn shard_hashes(table: &Table) -> Result<Option<(u64, u64)>> {
    let mut range: Option<(u64, u64)> = None;
    table.scan(0, 1, |key, _| {
        let hash = shard_hash(key);
        let (least, greatest) = range.unwrap_or((hash, hash));
        range = Some((least.min(hash), greatest.max(hash)));
        ControlFlow::Continue(())
    })?;
    Ok(range)
}

/// A key of a table that is not in this shard; `None` if all keys are. Reads the whole table.
pub(crate) fn misplaced(table: &Table, shard: usize, shards: usize) -> Result<Option<Vec<u8>>> {
    let mut found = None;
    table.scan(0, 1, |key, _| {
        if shard_of(key, shards) == shard {
            return ControlFlow::Continue(());
        }
        found = Some(key.to_vec());
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The message about a key that is not in the shard whose file contains it.
pub(crate) fn misplaced_message(key: &[u8], shard: usize, shards: usize) -> String {
    let shown = key[..key.len().min(80)].escape_ascii();
    let right = shard_of(key, shards);
    format!("the key '{shown}' is in the file of shard {shard} of {shards}, not {right}")
}

/// The name of the file of a shard in the directory of a sharded table.
pub(crate) fn shard_file(shard: usize) -> String {
    format!("shard-{shard:05}.table")
}

/// Whether `name` is the name of the file of a shard.
pub(crate) fn is_shard_file(name: &str) -> bool {
    let digits = name.strip_prefix("shard-").and_then(|name| name.strip_suffix(".table"));
    digits.is_some_and(|digits| digits.len() == 5 && digits.bytes().all(|c| c.is_ascii_digit()))
}

/// Sorts the names of all that is in the directory of a sharded table. An error if something else
/// is among them, or if a shard is missing before the last one.
pub(crate) fn check_shard_files(names: &mut [String]) -> Result<()> {
    names.sort();
    if let Some(other) = names.iter().find(|name| !is_shard_file(name)) {
        return Err(Error::invalid(format!(
            "the directory of a sharded table has `{other}` in it: it may contain nothing but \
             files `shard-NNNNN.table`"
        )));
    }
    match (0..names.len()).find(|&shard| names[shard] != shard_file(shard)) {
        None => Ok(()),
        Some(gap) => {
            let message = format!("`{}` is missing from the sharded table", shard_file(gap));
            Err(Error::invalid(message))
        }
    }
}

/// A table in several files: file `i` has the keys whose [`shard_of`] is `i`. Any number of threads
/// may share it; reads take no lock.
///
/// Use it if one machine cannot build the whole table, or if most updates change few keys: a shard
/// is built, published and fetched by itself. The files are ordinary tables, of any block size,
/// compression and filter, but with one value schema.
/// [`Catalog::publish_staged`](crate::catalog::Catalog::publish_staged) publishes shards that
/// several machines have built.
///
/// ```
/// use firndb::table::{ShardedTable, TableBuilder, shard_of};
/// # fn main() -> firndb::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("firndb-doc-shards-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let result = guide(&dir);
/// # let _ = std::fs::remove_dir_all(&dir);
/// # result }
/// # fn guide(dir: &std::path::Path) -> firndb::Result<()> {
///
/// let paths = [dir.join("shard-00000.table"), dir.join("shard-00001.table")];
/// let mut builders = Vec::new();
/// for path in &paths {
///     builders.push(TableBuilder::create(path)?);
/// }
/// for (city, country) in [("Oslo", "Norway"), ("Lyon", "France"), ("Porto", "Portugal")] {
///     builders[shard_of(city, paths.len())].add(city, country)?;
/// }
/// for builder in builders {
///     builder.finish()?;
/// }
///
/// let table = ShardedTable::open(&paths)?;
/// assert_eq!(table.get("Lyon")?.as_deref(), Some(&b"France"[..]));
/// assert_eq!(table.len(), 3);
/// table.verify()?; // also checks that each key is in its shard
/// # Ok(()) }
/// ```
///
/// A get reads one shard and costs what [`Table::get`] costs, and a hash of the key. Limits: at
/// most [`MAX_SHARDS`] shards. The number of shards is fixed: another number needs other files.
pub struct ShardedTable {
    shards: Vec<Arc<Table>>,
}

/// Counts and sizes of a sharded table: the sums of its shards. [`ShardedTable::shards`] has the
/// rest. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ShardedStats {
    /// Number of shards.
    pub shards: u64,
    /// Number of records.
    pub records: u64,
    /// Records of the shard with the fewest.
    pub smallest_shard_records: u64,
    /// Records of the shard with the most.
    pub largest_shard_records: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// All keys.
    pub key_bytes: u64,
    /// All values, before compression.
    pub value_bytes: u64,
    /// The files.
    pub file_bytes: u64,
    /// The filters.
    pub filter_bytes: u64,
    /// The indexes in the files.
    pub index_bytes: u64,
    /// Memory that the open tables use, without mapped pages.
    pub memory_bytes: u64,
}

impl ShardedTable {
    /// Opens the shards in these files, mapped into memory ([`Access::Map`]). Errors: as
    /// [`ShardedTable::open_with`].
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<ShardedTable> {
        ShardedTable::open_with(paths, Access::default())
    }

    /// Opens the shards in these files: file `i` is shard `i`. That the keys are in their shards is
    /// not checked here, but by [`ShardedTable::verify`] and when a catalog publishes them.
    ///
    /// Errors: `InvalidArgument` if there is no file, if there are more than [`MAX_SHARDS`], or if
    /// the files have different value schemas; otherwise as [`Table::open_with`].
    pub fn open_with<P: AsRef<Path>>(paths: &[P], access: Access) -> Result<ShardedTable> {
        ShardedTable::open_on(&disk::os(), paths, access)
    }

    /// Opens the shards in a directory: the files `shard-00000.table`, `shard-00001.table` and so
    /// on, and nothing else. Reads one block of each shard in addition, to find out whether files
    /// belong to other shards or the last ones are missing.
    ///
    /// Errors: `InvalidArgument` if there is no shard, if a shard is missing or of another table,
    /// or if there are other files; otherwise as [`ShardedTable::open_with`].
    pub fn open_dir(dir: impl AsRef<Path>, access: Access) -> Result<ShardedTable> {
        ShardedTable::open_dir_on(&disk::os(), dir.as_ref(), access)
    }

    pub(crate) fn open_dir_on(disk: &DiskRef, dir: &Path, access: Access) -> Result<ShardedTable> {
        let mut names = [disk.list(dir)?, disk.list_dirs(dir)?, disk.list_others(dir)?].concat();
        let checked = check_count(names.len()).and_then(|()| check_shard_files(&mut names));
        checked.map_err(|e| e.in_file(dir))?;
        let paths: Vec<_> = names.iter().map(|name| dir.join(name)).collect();
        let table = ShardedTable::open_on(disk, &paths, access)?;
        let shards = paths.len();
        for (number, shard) in table.shards.iter().enumerate() {
            let first = shard.iter().next().transpose()?;
            if let Some((key, _)) = first.filter(|(key, _)| shard_of(key, shards) != number) {
                let message = misplaced_message(&key, number, shards);
                return Err(Error::invalid(message).in_file(shard.path()));
            }
        }
        Ok(table)
    }

    pub(crate) fn open_on<P: AsRef<Path>>(
        disk: &DiskRef,
        paths: &[P],
        access: Access,
    ) -> Result<ShardedTable> {
        check_count(paths.len())?;
        let open = |path: &P| Table::open_on(disk, path.as_ref(), access).map(Arc::new);
        ShardedTable::from_tables(paths.iter().map(open).collect::<Result<_>>()?)
    }

    /// Combines open tables: table `i` is shard `i`. Errors as [`ShardedTable::open_with`].
    pub(crate) fn from_tables(shards: Vec<Arc<Table>>) -> Result<ShardedTable> {
        check_count(shards.len())?;
        let schema = shards[0].value_schema()?;
        for shard in &shards {
            if shard.value_schema()? != schema {
                let message = format!(
                    "the value schema differs from the one of {}",
                    shards[0].path().display()
                );
                return Err(Error::invalid(message).in_file(shard.path()));
            }
        }
        Ok(ShardedTable { shards })
    }

    #[inline]
    fn shard(&self, key: &[u8]) -> &Table {
        &self.shards[shard_of(key, self.shards.len())]
    }

    /// The value of a key, or `None`. Reads one block of one shard at most. Errors as
    /// [`Table::get`].
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Cow<'_, [u8]>>> {
        let key = key.as_ref();
        self.shard(key).get(key)
    }

    /// Whether the table has a key. Errors as [`Table::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.shard(key).contains(key)
    }

    /// The values of many keys, in the order of the keys. The keys are grouped by shard, and each
    /// group is passed to [`Table::get_many`]. Takes O(n log n) time for n keys, and the reads.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Cow<'_, [u8]>>>> {
        let shards = self.shards.len();
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let mut order: Vec<(usize, usize)> =
            keys.iter().enumerate().map(|(i, key)| (shard_of(key, shards), i)).collect();
        order.sort_unstable();
        let mut values = Vec::new();
        values.resize_with(keys.len(), || None);
        for group in order.chunk_by(|a, b| a.0 == b.0) {
            let wanted: Vec<&[u8]> = group.iter().map(|&(_, i)| keys[i]).collect();
            let found = self.shards[group[0].0].get_many(&wanted)?;
            group.iter().zip(found).for_each(|(&(_, i), value)| values[i] = value);
        }
        Ok(values)
    }

    /// All records: those of shard 0 in the order of [`Table::iter`], then those of shard 1, and so
    /// on.
    pub fn iter(&self) -> ShardedIter<'_> {
        ShardedIter { shards: self.shards.iter(), records: None }
    }

    /// Number of records.
    pub fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.len()).sum()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts and sizes of all shards together.
    pub fn stats(&self) -> ShardedStats {
        let mut sums = ShardedStats {
            shards: self.shards.len() as u64,
            smallest_shard_records: u64::MAX,
            ..ShardedStats::default()
        };
        for shard in &self.shards {
            let stats = shard.stats();
            sums.records += stats.records;
            sums.smallest_shard_records = sums.smallest_shard_records.min(stats.records);
            sums.largest_shard_records = sums.largest_shard_records.max(stats.records);
            sums.blocks += stats.blocks;
            sums.key_bytes += stats.key_bytes;
            sums.value_bytes += stats.value_bytes;
            sums.file_bytes += stats.file_bytes;
            sums.filter_bytes += stats.filter_bytes;
            sums.index_bytes += stats.index_bytes;
            sums.memory_bytes += stats.memory_bytes;
        }
        sums
    }

    /// The tables, in the order of the shards; at least one.
    pub fn shards(&self) -> &[Arc<Table>] {
        &self.shards
    }

    /// The schema of the values, which is that of each shard; empty if none.
    pub fn value_schema(&self) -> Result<&str> {
        self.shards[0].value_schema()
    }

    /// Checks every byte of the files, that a get in a shard finds each of its records, and that
    /// each key is in its shard; a get would not find a key in another shard. Takes time
    /// proportional to the files. Errors: `Corrupt`, with the file; `Io`.
    pub fn verify(&self) -> Result<Verification> {
        let shards = self.shards.len();
        let mut report = Verification::default();
        for (number, shard) in self.shards.iter().enumerate() {
            report.add(shard.verify()?);
            if let Some(key) = misplaced(shard, number, shards)? {
                let message = misplaced_message(&key, number, shards);
                return Err(Error::corrupt(message).in_file(shard.path()));
            }
        }
        Ok(report)
    }
}

fn check_count(shards: usize) -> Result<()> {
    if (1..=MAX_SHARDS).contains(&shards) {
        return Ok(());
    }
    let message = format!("a sharded table has 1 to {MAX_SHARDS} shards, not {shards}");
    Err(Error::invalid(message))
}

/// Iterator over copies of the keys and values of a [`ShardedTable`]. Ends after the first error.
pub struct ShardedIter<'a> {
    /// The remaining shards.
    shards: slice::Iter<'a, Arc<Table>>,
    /// The remaining records of the current shard.
    records: Option<Iter<'a>>,
}

impl Iterator for ShardedIter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.records.as_mut().and_then(Iterator::next) {
                Some(Err(e)) => {
                    (self.shards, self.records) = ([].iter(), None);
                    return Some(Err(e));
                }
                Some(record) => return Some(record),
                None => self.records = Some(self.shards.next()?.iter()),
            }
        }
    }
}
