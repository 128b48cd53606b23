//! Records of tables and logs to and from record batches of keys and values.
//!
//! Columns are `key` and `value` (`Binary`), and for logs `expires_at` (`Timestamp(Millisecond,
//! "UTC")`, null for records that do not expire). Values of tables with a schema are Avro data:
//! [`Decoder`](crate::avro::Decoder) decodes them.
//!
//! ```
//! use firndb::log::LogStore;
//! use firndb_arrow::record::{KeyValues, log_batches};
//!
//! # let dir = std::env::temp_dir().join(format!("firndb-arrow-doc-{}", std::process::id()));
//! let store = LogStore::open(&dir)?;
//! store.put(b"k", b"v")?;
//! for batch in log_batches(&store.snapshot(), 1024) {
//!     let batch = batch?;
//!     let records = KeyValues::new(&batch).map_err(firndb::Error::invalid)?;
//!     assert_eq!(records.get(0), Some((&b"k"[..], &b"v"[..], None)));
//! }
//! # drop(store);
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), firndb::Error>(())
//! ```

use arrow_array::builder::{BinaryBuilder, TimestampMillisecondBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, TimestampMillisecondArray};
use arrow_schema::{DataType, Field as Column, Schema, TimeUnit};
use firndb::log::{Expiry, Snapshot};
use firndb::table::Table;
use firndb::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Bytes of keys and values after which a batch ends, regardless of its number of records.
const BATCH_BYTES: usize = 16 << 20;

/// Maximum bytes of a column: offsets have 32 bits.
const COLUMN_MAX: usize = i32::MAX as usize;

/// The records of a table, in batches of at most `rows` records and about 16 MiB. Values are as
/// they are stored.
///
/// Errors of the iterator: as those of [`Table::iter`]; `InvalidArgument` for a value of 2 GiB.
pub fn table_batches(
    table: &Table,
    rows: usize,
) -> impl Iterator<Item = Result<RecordBatch>> + use<'_> {
    let mut records = table.iter();
    let next = move |to: &mut Builder| match records.next().transpose()? {
        Some((key, value)) => to.push(&key, &value, None).map(|()| true),
        None => Ok(false),
    };
    Batches { next, builder: Builder::new(false), rows: rows.max(1), is_done: false }
}

/// The records of a log as they are in a snapshot, in batches of at most `rows` records and about
/// 16 MiB.
///
/// Errors of the iterator: as those of [`Snapshot::iter`]; `InvalidArgument` for a value of 2 GiB.
pub fn log_batches(
    snapshot: &Snapshot,
    rows: usize,
) -> impl Iterator<Item = Result<RecordBatch>> + use<'_> {
    let mut records = snapshot.iter();
    let next = move |to: &mut Builder| {
        let push =
            |entry: firndb::log::Entry<'_>| to.push(entry.key, entry.value, entry.expiry.millis());
        match records.next_entry_with(push).transpose()? {
            Some(pushed) => pushed.map(|()| true),
            None => Ok(false),
        }
    };
    Batches { next, builder: Builder::new(true), rows: rows.max(1), is_done: false }
}

/// Builds batches of the records that `next` pushes. It returns false at the end.
struct Batches<N> {
    next: N,
    builder: Builder,
    rows: usize,
    is_done: bool,
}

impl<N: FnMut(&mut Builder) -> Result<bool>> Iterator for Batches<N> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_done && self.builder.rows < self.rows && self.builder.bytes < BATCH_BYTES {
            match (self.next)(&mut self.builder) {
                Ok(more) => self.is_done = !more,
                Err(e) => {
                    self.is_done = true;
                    self.builder = Builder::new(false);
                    return Some(Err(e));
                }
            }
        }
        (self.builder.rows > 0).then(|| self.builder.finish())
    }
}

struct Builder {
    keys: BinaryBuilder,
    values: BinaryBuilder,
    expiry: Option<TimestampMillisecondBuilder>,
    rows: usize,
    bytes: usize,
}

impl Builder {
    fn new(expiring: bool) -> Builder {
        let times = || TimestampMillisecondBuilder::new().with_timezone("UTC");
        Builder {
            keys: BinaryBuilder::new(),
            values: BinaryBuilder::new(),
            expiry: expiring.then(times),
            rows: 0,
            bytes: 0,
        }
    }

    fn push(&mut self, key: &[u8], value: &[u8], expiry: Option<u64>) -> Result<()> {
        let bytes = self.bytes + key.len() + value.len();
        if bytes > COLUMN_MAX {
            return Err(Error::invalid("a value is too long for a record batch: 2 GiB or more"));
        }
        self.keys.append_value(key);
        self.values.append_value(value);
        if let Some(times) = &mut self.expiry {
            // A time after the last date that Arrow can express is stored as that date.
            times.append_option(expiry.map(|time| i64::try_from(time).unwrap_or(i64::MAX)));
        }
        (self.rows, self.bytes) = (self.rows + 1, bytes);
        Ok(())
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        (self.rows, self.bytes) = (0, 0);
        let mut fields = vec![
            Column::new("key", DataType::Binary, false),
            Column::new("value", DataType::Binary, false),
        ];
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(self.keys.finish()), Arc::new(self.values.finish())];
        if let Some(times) = &mut self.expiry {
            let ty = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
            fields.push(Column::new("expires_at", ty, true));
            columns.push(Arc::new(times.finish()));
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        batch.map_err(|e| Error::new(ErrorKind::Failed, format!("cannot make a batch: {e}")))
    }
}

/// The keys and values of a record batch with the columns of [`log_batches`] or [`table_batches`].
#[derive(Debug)]
pub struct KeyValues<'a> {
    keys: &'a BinaryArray,
    values: &'a BinaryArray,
    expiry: Option<&'a TimestampMillisecondArray>,
}

impl<'a> KeyValues<'a> {
    /// The records of `batch`.
    ///
    /// # Errors
    ///
    /// The reason, if a column is missing, is of another type, or has nulls in keys or values.
    pub fn new(batch: &'a RecordBatch) -> std::result::Result<KeyValues<'a>, String> {
        let bytes = |name: &str| {
            let column =
                batch.column_by_name(name).ok_or(format!("there is no column `{name}`"))?;
            let column = column.as_binary_opt::<i32>().filter(|column| column.null_count() == 0);
            column.ok_or(format!("column `{name}` is not binary, or has nulls"))
        };
        let times = batch.column_by_name("expires_at").map(|column| {
            let times = column.as_primitive_opt::<TimestampMillisecondType>();
            times.ok_or("column `expires_at` is not of milliseconds".to_string())
        });
        Ok(KeyValues { keys: bytes("key")?, values: bytes("value")?, expiry: times.transpose()? })
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Key, value, and time of expiry of a record; `None` beyond the last.
    pub fn get(&self, row: usize) -> Option<(&'a [u8], &'a [u8], Option<Expiry>)> {
        if row >= self.len() {
            return None;
        }
        let expiry = self.expiry.filter(|times| times.is_valid(row));
        let expiry = expiry.map(|times| Expiry::At(times.value(row).max(0).cast_unsigned()));
        Some((self.keys.value(row), self.values.value(row), expiry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firndb::log::LogStore;
    use firndb::table::TableBuilder;
    use std::path::PathBuf;
    use std::time::Duration;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("firndb-arrow-{name}-{}", std::process::id()))
    }

    type Records = Vec<(Vec<u8>, Vec<u8>, Option<Expiry>)>;

    /// The records of batches by key, and the sizes of the batches.
    fn read(batches: impl Iterator<Item = Result<RecordBatch>>) -> (Records, Vec<usize>) {
        let (mut records, mut sizes) = (Vec::new(), Vec::new());
        for batch in batches {
            let batch = batch.unwrap();
            let rows = KeyValues::new(&batch).unwrap();
            sizes.push(rows.len());
            let row = |i| rows.get(i).map(|(k, v, expiry)| (k.to_vec(), v.to_vec(), expiry));
            records.extend((0..rows.len()).filter_map(row));
            assert!(rows.get(rows.len()).is_none());
        }
        records.sort_by(|a, b| a.0.cmp(&b.0));
        (records, sizes)
    }

    #[test]
    fn all_records_of_a_table_are_in_its_batches() {
        let path = place("table");
        let mut builder = TableBuilder::create(&path).unwrap();
        for i in 0..2500_u32 {
            builder.add(i.to_be_bytes(), i.to_string()).unwrap();
        }
        builder.finish().unwrap();
        let table = Table::open(&path).unwrap();
        let (records, sizes) = read(table_batches(&table, 1000));
        assert_eq!(sizes, [1000, 1000, 500]);
        let value = |i: u32| (i.to_be_bytes().to_vec(), i.to_string().into_bytes(), None);
        assert_eq!(records, (0..2500).map(value).collect::<Records>());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn records_of_a_log_keep_their_expiry() {
        let dir = place("log");
        let store = LogStore::open(&dir).unwrap();
        store.put("a", "stays").unwrap();
        let options = firndb::log::WriteOptions::default().ttl(Duration::from_secs(3600));
        store.put_with("b", "expires", options).unwrap();
        let (records, sizes) = read(log_batches(&store.snapshot(), 100));
        assert_eq!(sizes, [2]);
        assert_eq!(records[0], (b"a".to_vec(), b"stays".to_vec(), None));
        assert!(matches!(records[1].2, Some(Expiry::At(_))));
        store.close().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
