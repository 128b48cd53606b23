//! The benchmark of the Python package, beside lmdb and rocksdict, the library in Rust, and `firn`.
//!
//! The programs in `bindings/python/bench` measure: each holds all engines in one process, where
//! rounds of the engines alternate. For [`page`](super::page) the same page is measured in Rust, by
//! this program as a child, in turn with Python.

use super::{Options, Part, Report, Suite, Target};
use crate::bound::Bound;
use firndb_bench_protocol::Result;
use std::path::Path;
use std::process::Command;

/// The benchmark.
pub static SUITE: Suite = Suite {
    title: "the Python package",
    verb: "python",
    text: "The package is a wheel in release mode. The engines of a comparison are in one process, \
           with the same data from a seed, and their answers are compared before anything is \
           timed. Rounds of the engines alternate, the garbage collector of Python is off, figures \
           are medians of the rounds, and a ratio is the median of the ratios of the rounds.",
    parts: &PARTS,
};

const PARTS: [Part; 5] = [
    Part {
        name: "gets",
        title: "Single gets of 100 bytes",
        text: "Random keys of 16 bytes, one `get` per call. lmdb reads all in one transaction, \
               which is its fastest form, and rocksdict is in raw mode with a block cache that \
               holds everything and a Bloom filter. The loop is part of the times: `empty` calls \
               `bool(key)`.",
        unit: "get",
        size: ("records", 1_000_000),
        targets: &[
            Target::ratio("gets: times rocksdict", "rocksdict", "firndb", Bound::AtLeast(1.5)),
            Target::ratio("gets: times lmdb", "lmdb", "firndb", Bound::AtLeast(1.0)),
        ],
    },
    Part {
        name: "get_many",
        title: "1,000 keys to Arrow",
        text: "`get_many(keys, arrow=True)` beside a loop over lmdb's `get` that makes a list, and \
               beside the same loop whose list becomes a `pyarrow` array.",
        unit: "key",
        size: ("records", 1_000_000),
        targets: &[Target::ratio(
            "get_many: times a loop over lmdb",
            "lmdb loop",
            "firndb",
            Bound::AtLeast(5.0),
        )],
    },
    Part {
        name: "puts",
        title: "Batched puts",
        text: "New records in batches of 1,000, into an empty store: `put_many` of a list of \
               pairs, a `batch()` that is written as a whole, a `WriteBatch` of rocksdict, \
               `putmulti` in one transaction of lmdb. No engine waits for the disk. The targets \
               are for the puts; other lines include opening and closing the store.",
        unit: "record",
        size: ("records", 500_000),
        targets: &[
            Target::ratio("put_many: times rocksdict", "rocksdict", "firndb", Bound::AtLeast(3.0)),
            Target::ratio(
                "batch(): times rocksdict",
                "rocksdict",
                "firndb, batch",
                Bound::AtLeast(3.0),
            ),
        ],
    },
    Part {
        name: "page",
        title: "A filtered page of 100 hits into polars",
        text: "A query with two conditions and an order, and five fields: \
               `search(...).to_polars()`. The Rust call is the same: it parses the query, finds \
               the hits and reads their fields into an Arrow batch.",
        unit: "page",
        size: ("rows", 1_000_000),
        targets: &[Target::ratio(
            "page: times the Rust call",
            "firndb, to_polars",
            "Rust",
            Bound::AtMost(3.0),
        )],
    },
    Part {
        name: "build",
        title: "A table from Arrow",
        text: "`build_table` from a `pyarrow` table in memory, beside `firn table build` from an \
               Arrow IPC file of the same rows, which is in the page cache. The tables are equal \
               byte for byte.",
        unit: "row",
        size: ("rows", 5_000_000),
        targets: &[Target::ratio(
            "build: times the command line",
            "firndb",
            "firn",
            Bound::AtMost(1.2),
        )],
    },
];

/// Runs the parts with the Python of an environment that has the package and the peers. `scripts`
/// is the directory of the programs.
pub fn run(python: &Path, scripts: &Path, options: &Options) -> Result<Report> {
    super::run(&SUITE, options, Command::new(python).args(["-c", VERSIONS]), |part| {
        let mut command = Command::new(python);
        command.arg(scripts.join(part.name).with_extension("py"));
        command
    })
}

const VERSIONS: &str = "\
import importlib.metadata as m, platform
names = ['lmdb', 'rocksdict', 'polars', 'pyarrow']
print(', '.join([f'Python {platform.python_version()}', *(f'{n} {m.version(n)}' for n in names)]))";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_program() {
        let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/python/bench");
        super::super::tests::check_engines(&SUITE, |part| {
            let path = Path::new(scripts).join(part.name).with_extension("py");
            std::fs::read_to_string(path).unwrap()
        });
    }
}
