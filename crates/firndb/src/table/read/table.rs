//! The public type of an open table.

use crate::Error;
use crate::Result;
use crate::bytes::key_range::KeyRange;
use crate::disk::{self, DiskRef};
use crate::table::options::{Access, Order, Stats};
use crate::table::read::iter::{self, Iter};
use crate::table::read::range::Range;
use crate::table::read::reader::TableReader;
use crate::table::read::scan_from;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::Path;

/// An open table. Any number of threads may share it; reads take no lock.
///
/// The directory (about 0.04 bytes per record; in key order about 10 bytes per block) stays in
/// memory; blocks are read as [`Access`] says.
/// The file stays usable while the table is open, even if its name is removed or given to another
/// file.
pub struct Table {
    pub(crate) reader: TableReader,
}

impl Table {
    /// Opens a table, mapped into memory ([`Access::Map`]). Errors: as [`Table::open_with`].
    pub fn open(path: impl AsRef<Path>) -> Result<Table> {
        Table::open_with(path, Access::default())
    }

    /// Opens a table. Reads only its small sections and its filter, unless `access` is
    /// [`Access::Resident`], which loads all blocks.
    ///
    /// Errors: `NotFound`; `Corrupt` if a section that was read is damaged; `UnsupportedVersion`;
    /// `Failed` if the file was replaced each time it was opened; `Io`.
    pub fn open_with(path: impl AsRef<Path>, access: Access) -> Result<Table> {
        Table::open_on(&disk::os(), path.as_ref(), access)
    }

    pub(crate) fn open_on(disk: &DiskRef, path: &Path, access: Access) -> Result<Table> {
        span!(INFO, "firndb.table.open", path = %path.display());
        TableReader::open_on(disk, path, access).map(|reader| Table { reader })
    }

    /// The value of a key, or `None`. The value is borrowed from the table where it is in memory
    /// uncompressed, and a copy otherwise. Reads one block at most.
    ///
    /// Errors: `Corrupt` if the block that can hold the key is damaged; `Io` if it cannot be read.
    // Inlined into callers: the fewer instructions a get takes, the more of the next get the
    // processor executes while this one waits for memory.
    #[inline(always)]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Cow<'_, [u8]>>> {
        self.reader.get(key.as_ref())
    }

    /// Whether the table has a key. Errors as [`Table::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.reader.contains(key.as_ref())
    }

    /// The values of many keys, in the order of the keys. Equal to calling [`Table::get`] for each
    /// key, but cache misses overlap, and with [`Access::Direct`] reads do.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Cow<'_, [u8]>>>> {
        self.reader.get_many(keys)
    }

    /// Calls `read` with the position of each key in `keys` and its value, in the order of the
    /// keys; `None` for an absent key. Faster than [`Table::get_many`] for callers that read whole
    /// values: the table prefetches the first 16 KiB of a value two keys ahead, if the value is in
    /// memory uncompressed.
    ///
    /// Stops at the first error, of the table or of `read`. Because the table works ahead, an error
    /// of the table may come before `read` has seen all values of the keys before it.
    ///
    /// ```
    /// use firndb::table::Table;
    ///
    /// /// The total length of the values of these keys.
    /// fn total(table: &Table, keys: &[String]) -> firndb::Result<usize> {
    ///     let mut total = 0;
    ///     table.read_many(keys, |_position, value| {
    ///         total += value.map_or(0, <[u8]>::len);
    ///         Ok::<(), firndb::Error>(()) // or an error of your own: `From<firndb::Error>`
    ///     })?;
    ///     Ok(total)
    /// }
    /// ```
    pub fn read_many<K: AsRef<[u8]>, E: From<Error>>(
        &self,
        keys: &[K],
        read: impl FnMut(usize, Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.reader.read_many(keys, read)
    }

    /// The records of a range of keys, in the order of the bytes of their keys. The table must be
    /// in key order: [`BuildOptions::order`](crate::table::BuildOptions::order).
    ///
    /// ```
    /// use firndb::table::{BuildOptions, Order, Table, TableBuilder};
    /// # fn main() -> firndb::Result<()> {
    /// # let name = format!("firndb-range-{}.table", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let result = example(&path);
    /// # let _ = std::fs::remove_file(&path);
    /// # result }
    ///
    /// fn example(path: &std::path::Path) -> firndb::Result<()> {
    ///     let options = BuildOptions::new().order(Order::Key);
    ///     let mut builder = TableBuilder::create_with(path, options)?;
    ///     for (day, high) in [("2026-02-01", "-3"), ("2026-01-31", "-7"), ("2026-01-30", "-9")] {
    ///         builder.add(day, high)?;
    ///     }
    ///     builder.finish()?;
    ///
    ///     let table = Table::open(path)?;
    ///     let days = |range: firndb::table::Range| -> firndb::Result<Vec<Vec<u8>>> {
    ///         range.map(|record| Ok(record?.0)).collect()
    ///     };
    ///     assert_eq!(days(table.range("2026-01-31"..)?)?, [b"2026-01-31", b"2026-02-01"]);
    ///     assert_eq!(days(table.prefix("2026-01")?.reversed())?, [b"2026-01-31", b"2026-01-30"]);
    ///     assert_eq!(days(table.range(..)?)?.len(), 3);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// Reads nothing yet. Finding the first record takes O(log n) time and the read of one block;
    /// the records of a block follow each other, so each further record takes O(1).
    ///
    /// Errors: `InvalidArgument` if the table is in hash order. Errors of blocks come from the
    /// iterator: `Corrupt`, `Io`.
    pub fn range(&self, range: impl Into<KeyRange>) -> Result<Range<'_>> {
        Range::new(&self.reader, range.into())
    }

    /// The records whose keys begin with `prefix`: [`Table::range`] of [`KeyRange::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range<'_>> {
        self.range(KeyRange::prefix(prefix))
    }

    /// Whether the records are in key order, so that [`Table::range`] works.
    pub fn is_ordered(&self) -> bool {
        self.reader.meta.order == Order::Key
    }

    /// All records, in the order of the hashes of their keys; in key order if the table
    /// [is ordered](Table::is_ordered).
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(&self.reader, 0, 1)
    }

    /// All records in `n` iterators over equal numbers of blocks, for as many threads. One after
    /// another they are [`Table::iter`]. At least one, even if `n` is 0.
    ///
    /// ```
    /// use firndb::table::Table;
    ///
    /// /// Counts records with empty values, with four threads.
    /// fn empty(table: &Table) -> firndb::Result<usize> {
    ///     std::thread::scope(|scope| {
    ///         let count = |split: firndb::table::Iter| -> firndb::Result<usize> {
    ///             let mut empty = 0;
    ///             for record in split {
    ///                 let (_key, value) = record?;
    ///                 empty += usize::from(value.is_empty());
    ///             }
    ///             Ok(empty)
    ///         };
    ///         let start = |split| scope.spawn(move || count(split));
    ///         let threads: Vec<_> = table.splits(4).into_iter().map(start).collect();
    ///         threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    ///     })
    /// }
    /// ```
    pub fn splits(&self, n: usize) -> Vec<Iter<'_>> {
        let n = n.max(1) as u64;
        (0..n).map(|split| Iter::new(&self.reader, split, n)).collect()
    }

    /// Calls `visit` with the borrowed keys and values of split `split` of `splits`, as
    /// [`Table::splits`] divides the table; `scan(0, 1, ..)` visits all. Returns whether `visit`
    /// saw all records of the split.
    pub fn scan(
        &self,
        split: u64,
        splits: u64,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<bool> {
        iter::scan(&self.reader, split, splits, &mut visit)
    }

    /// Calls `read` with each record of a page, without copying it, for a scan that keeps no state:
    /// the cursor 0 begins a scan, the returned cursor continues it, and `None` ends it. Keys come
    /// in the order of [`Table::iter`].
    ///
    /// ```
    /// # use firndb::table::Table;
    /// # fn pages(table: &Table) -> firndb::Result<()> {
    /// let mut cursor = Some(0);
    /// while let Some(at) = cursor {
    ///     cursor = table.scan_from(at, 100, |key, value| {
    ///         println!("{} bytes, {} bytes", key.len(), value.len());
    ///     })?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A scan returns each key once. A cursor is valid for every table with the same
    /// [`Table::content_id`], also after it was closed and opened again. In another table it gives
    /// some page of that table.
    ///
    /// A page has `limit` keys, except the last one. It may have more, because a cursor cannot
    /// stand between keys whose hashes differ in the last bit only. 0 counts as 1. A page has at
    /// most about 65,536 keys, and ends after 16 MiB. A cursor is never 0 and below 2^63. In key
    /// order a page has exactly `limit` keys, except the last one, or 16 MiB; to begin a page at a
    /// key, use [`Table::range`].
    ///
    /// Reads the blocks of the page. Errors: `InvalidArgument` if the cursor is not below 2^63,
    /// `Corrupt` if a block is damaged, `Io`.
    pub fn scan_from(
        &self,
        cursor: u64,
        limit: usize,
        read: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<u64>> {
        scan_from::scan_from(&self.reader, cursor, limit, read)
    }

    /// Identifies the contents of the file: tables of the same records, built with the same
    /// options, have the same id, and others have another one.
    pub fn content_id(&self) -> u128 {
        self.reader.file.content()
    }

    /// Number of records.
    pub fn len(&self) -> u64 {
        self.reader.meta.records
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts, sizes and options of the table.
    pub fn stats(&self) -> Stats {
        self.reader.stats()
    }

    /// The metadata that [`BuildOptions::metadata`](crate::table::BuildOptions::metadata) gave to
    /// the build.
    pub fn metadata(&self) -> Result<&[u8]> {
        self.reader.metadata()
    }

    /// The schema of the values that
    /// [`BuildOptions::value_schema`](crate::table::BuildOptions::value_schema) gave to the build;
    /// empty if none.
    pub fn value_schema(&self) -> Result<&str> {
        self.reader.value_schema()
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        self.reader.path()
    }
}
