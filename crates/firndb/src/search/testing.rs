//! Helpers for tests of the search module: seeded random values that include edge cases, readers
//! of partitions in memory, and switches that force a way to execute queries.

use crate::Result;
use crate::disk::{DiskRef, SimDisk};
use crate::search::model::types::Type;
use crate::search::model::value::Value;
use crate::search::partition::Partition;
use crate::search::partition::verify;
use crate::search::{PartitionBuilder, Reader};
pub(crate) use crate::testing::Rng;
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// A reader of partitions named 0, 1, ... on a simulated disk.
pub(crate) fn reader_of(builders: impl IntoIterator<Item = PartitionBuilder>) -> Reader {
    let disk = SimDisk::new();
    let write = |(n, builder): (usize, PartitionBuilder)| {
        let path = PathBuf::from(format!("/{n}"));
        builder.write_on(&(disk.clone() as DiskRef), &path).unwrap();
        path
    };
    let paths: Vec<PathBuf> = builders.into_iter().enumerate().map(write).collect();
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    Reader::open_files_on(&*disk, &paths).unwrap()
}

/// Forces how this thread executes queries and writes partitions, regardless of cost. Results must
/// not change.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forced {
    /// Drive conjunctions by postings lists always (where possible) or never.
    pub(crate) list: Option<bool>,
    /// Execute queries on small partitions like on large ones.
    pub(crate) large: bool,
    /// Use all threads of a reader, however small the query is.
    pub(crate) threads: bool,
    /// Behave as if the system could not start threads.
    pub(crate) alone: bool,
    /// Write the encodings of large partitions in all partitions (`has_large_forms`).
    pub(crate) forms: bool,
}

thread_local! {
    pub(crate) static FORCED: Cell<Forced> =
        const {
            let (large, threads, alone, forms) = (false, false, false, false);
            Cell::new(Forced { list: None, large, threads, alone, forms })
        };
}

impl Rng {
    fn i64(&mut self) -> i64 {
        let edge = *self.pick(&[i64::MIN, i64::MAX, 0, 1 << 53, -(1 << 53), 1 << 62, 1_000_000]);
        match self.below(3) {
            0 => self.next() as i64,
            1 => self.below(21) as i64 - 10,
            _ => edge.saturating_add(self.below(9) as i64 - 4),
        }
    }

    fn u64(&mut self) -> u64 {
        let edge = *self.pick(&[0, u64::MAX, 1 << 63, 1 << 53, 1_000_000]);
        match self.below(3) {
            0 => self.next(),
            1 => self.below(12) as u64,
            _ => edge.saturating_add(self.below(4) as u64).saturating_sub(self.below(4) as u64),
        }
    }

    fn f64(&mut self) -> f64 {
        let two = 2f64;
        let edges = [
            f64::NEG_INFINITY,
            f64::MIN,
            -two.powi(63),
            -two.powi(53),
            -1.5,
            -f64::MIN_POSITIVE,
            -f64::from_bits(1),
            -0.0,
            0.0,
            f64::from_bits(1),
            0.1,
            two.powi(53),
            two.powi(63),
            two.powi(64),
            f64::MAX,
            f64::INFINITY,
        ];
        match self.below(4) {
            0 => Some(f64::from_bits(self.next())).filter(|v| !v.is_nan()).unwrap_or(0.5),
            1 => (self.below(81) as f64 - 40.0) / 4.0,
            2 => self.i64() as f64,
            _ => match self.below(3) {
                0 => self.pick(&edges).next_up(),
                1 => self.pick(&edges).next_down(),
                _ => *self.pick(&edges),
            },
        }
    }

    /// Up to 4 bytes. Results are often equal or prefixes of each other.
    pub fn bytes(&mut self) -> Vec<u8> {
        let len = self.below(5);
        (0..len).map(|_| *self.pick(&[0, 1, b'a', b'b', 0xFE, 0xFF])).collect()
    }

    /// A short text with characters that need escaping or are not ASCII.
    pub fn text(&mut self) -> String {
        let len = self.below(6);
        let chars = ['a', 'b', 'z', ' ', '\'', '"', '%', '\n', '\\', '\u{e9}', '\u{10ffff}', '-'];
        (0..len).map(|_| *self.pick(&chars)).collect()
    }

    /// A value of a type, often an edge case, never NaN.
    pub fn value(&mut self, ty: Type) -> Value {
        match ty {
            Type::Bool => Value::Bool(self.below(2) == 1),
            Type::I64 => Value::I64(self.i64()),
            Type::U64 => Value::U64(self.u64()),
            Type::F64 => Value::F64(self.f64()),
            Type::Timestamp => Value::Timestamp(self.i64()),
            Type::String => Value::Str(self.text()),
            Type::Bytes => Value::Bytes(self.bytes()),
        }
    }
}

impl Partition {
    /// Verifies this partition, see [`verify::partition`].
    pub(crate) fn verify(&self) -> Result<()> {
        verify::partition(self)
    }
}
