//! Records from files of many kinds: what `firn table build` reads.
//!
//! ```text
//! inputs -> source            (files, directories, standard input; gzip and zstd by content)
//!        -> text              (key, separator, value)
//!         | delimited         (CSV and TSV)
//!         | lines             (JSON lines)
//!         | objects           (JSON lines for a store without a schema)
//!         | columnar          (Parquet and Arrow IPC)
//!        -> Batch             (keys and values as bytes, with the place each came from)
//! ```
//!
//! One column becomes a value as it is; several become a record in Avro's binary encoding, whose
//! schema is found before the first batch. Everything here runs in a thread of its own ([`Feed`]),
//! so that reading and parsing go on while records are added.

mod cells;
mod columnar;
mod delimited;
mod feed;
pub mod format;
mod ipc;
mod lines;
mod objects;
mod shape;
mod text;

pub use feed::{Feed, Wanted};
pub use format::Format;
pub use objects::EXPIRES_AT;
pub use shape::Asked;

use shape::Shape;

/// Bits of an origin that say the line; the others say the input.
const LINE_BITS: u32 = 40;

/// Where a record came from: the number of its input and its line (or row), counted from 1.
pub fn origin(input: usize, line: u64) -> u64 {
    (input as u64) << LINE_BITS | line
}

/// `FILE:LINE` of an origin.
pub fn name_of(origin: u64, inputs: &[String]) -> String {
    let (input, line) = (origin >> LINE_BITS, origin & ((1 << LINE_BITS) - 1));
    let name = inputs.get(input as usize).map_or("?", |name| name.as_str());
    format!("{name}:{line}")
}

/// Records on their way from the reading thread.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    records: Vec<Entry>,
    /// Rows that cannot be used: where and why.
    pub bad: Vec<String>,
}

struct Entry {
    origin: u64,
    key: usize,
    value: usize,
    expires: Option<u64>,
}

/// Bytes and records of a batch: large enough that handing it over costs nothing, small enough for
/// the nearer caches.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_RECORDS: usize = 16 << 10;

impl Batch {
    pub fn push(&mut self, origin: u64, key: &[u8], value: &[u8]) {
        self.push_expiring(origin, key, value, None);
    }

    /// [`Batch::push`] of a record that expires at this time, in milliseconds since 1970.
    pub fn push_expiring(&mut self, origin: u64, key: &[u8], value: &[u8], expires: Option<u64>) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.records.push(Entry { origin, key: key.len(), value: value.len(), expires });
    }

    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.records.len() + self.bad.len() >= BATCH_RECORDS
    }

    /// Origin, key and value of each record.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
        self.iter_expiring().map(|(origin, key, value, _)| (origin, key, value))
    }

    /// [`Batch::iter`], and when each record expires.
    pub fn iter_expiring(&self) -> impl Iterator<Item = (u64, &[u8], &[u8], Option<u64>)> {
        let mut rest = &self.bytes[..];
        self.records.iter().map(move |entry| {
            let (key, after) = rest.split_at(entry.key);
            let (value, after) = after.split_at(entry.value);
            rest = after;
            (entry.origin, key, value, entry.expires)
        })
    }
}

/// The records of one input.
trait Records {
    /// Finds the shape of the records from the first of them; `None` if there are none. Called
    /// until an input has one.
    fn shape(&mut self, wanted: &Wanted) -> firndb::Result<Option<Shape>>;

    /// Takes the shape that all inputs have. An error if this one cannot.
    fn follow(&mut self, shape: &Shape, wanted: &Wanted) -> firndb::Result<()>;

    /// Adds records until the batch is full; false at the end of the input. `Err` means that the
    /// input cannot be read any further.
    fn fill(&mut self, batch: &mut Batch) -> firndb::Result<bool>;

    /// Columns of the value that no row had, where rows may lack columns.
    fn absent(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_back_what_was_pushed() {
        let mut batch = Batch::default();
        batch.push(origin(1, 7), b"a", b"");
        batch.push_expiring(origin(0, 8), b"", b"xyz", Some(9));
        assert_eq!(batch.iter_expiring().map(|r| r.3).collect::<Vec<_>>(), [None, Some(9)]);
        let all: Vec<_> = batch.iter().collect();
        assert_eq!(all, [(1 << 40 | 7, &b"a"[..], &b""[..]), (8, &b""[..], &b"xyz"[..])]);
        assert_eq!(name_of(all[0].0, &["x".into(), "y".into()]), "y:7");
    }
}
