//! The benchmark of the Java library, beside RocksDB and LMDB through their Java libraries, and the
//! library in Rust.
//!
//! The project in `bindings/java/bench` measures with JMH.

use super::{Options, Part, Report, Suite, Target};
use crate::bound::Bound;
use firndb_bench_protocol::Result;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The benchmark.
pub static SUITE: Suite = Suite {
    title: "the Java library",
    verb: "java",
    text: "JMH measures each line in a separate JVM with a heap of 1 GiB: three seconds of \
           warm-up, then five seconds. The engines have the same data from a seed, all of which is \
           in memory. Each JVM compares all values with what was put before anything is timed. \
           Rounds of the engines alternate, figures are medians of the rounds, and a ratio is the \
           median of the ratios of the rounds.",
    parts: &PARTS,
};

const PARTS: [Part; 4] = [
    Part {
        name: "gets",
        title: "Single gets of 100 bytes",
        text: "Random keys of 8 bytes: `byte[] get(byte[])`, and a get into a direct buffer that \
               is used again. rocksdbjni has a block cache that holds everything and a Bloom \
               filter; lmdbjava reads all in one transaction, which is its fastest form, and its \
               keys are copied into a direct buffer, because it has no other.",
        unit: "get",
        size: ("records", 1_000_000),
        targets: &[
            Target::ratio("gets: times rocksdbjni", "rocksdb", "firndb", Bound::AtLeast(3.0)),
            Target::ratio("gets: times lmdbjava", "lmdb", "firndb", Bound::AtLeast(1.3)),
            Target::ratio(
                "gets into a buffer: times rocksdbjni",
                "rocksdb, into a buffer",
                "firndb, into a buffer",
                Bound::AtLeast(3.0),
            ),
            Target::ratio(
                "gets into a buffer: times lmdbjava",
                "lmdb, into a buffer",
                "firndb, into a buffer",
                Bound::AtLeast(1.3),
            ),
            Target::bytes(
                "gets into a buffer: bytes allocated",
                "firndb, into a buffer",
                Bound::AtMost(0.0),
            ),
        ],
    },
    Part {
        name: "get_many",
        title: "100 keys per call",
        text: "`getMany` of 100 random keys, beside 100 single gets whose values are put into a \
               list, and beside `multiGetAsList` of rocksdbjni.",
        unit: "key",
        size: ("records", 1_000_000),
        targets: &[Target::ratio(
            "getMany: times single gets",
            "firndb, single gets",
            "firndb",
            Bound::AtLeast(2.0),
        )],
    },
    Part {
        name: "puts",
        title: "Puts",
        text: "New records in random order, one per call, into an empty store. No engine waits for \
               the disk. rocksdbjni has its default options, with its log; lmdbjava has a \
               transaction per put. A store is filled once before it is measured twice.",
        unit: "put",
        size: ("records", 1_000_000),
        targets: &[Target::ratio(
            "puts: times rocksdbjni",
            "rocksdb",
            "firndb",
            Bound::AtLeast(5.0),
        )],
    },
    Part {
        name: "page",
        title: "A filtered page of 20 hits",
        text: "A query with two conditions and an order: `search(Query)`, which returns the hits, \
               and with the payloads of the hits, 100 bytes each. The query is made once, also in \
               Rust; \"text\" is the same query as a string, which is parsed by each call.",
        unit: "page",
        size: ("rows", 1_000_000),
        targets: &[
            Target::ratio(
                "page: times the Rust call, after 2 us are subtracted",
                "firndb",
                "Rust",
                Bound::AtMost(1.5),
            )
            .less(2000.0),
            Target::ratio(
                "page and payloads: times the Rust calls, after 2 us are subtracted",
                "firndb, payloads",
                "Rust, payloads",
                Bound::AtMost(1.5),
            )
            .less(2000.0),
        ],
    },
];

/// lmdbjava sets the addresses of direct buffers.
const ACCESS: [&str; 2] =
    ["--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"];

/// Runs the parts with this `java`. `class_path` has the library, the project and the peers.
pub fn run(java: &Path, class_path: &OsStr, options: &Options) -> Result<Report> {
    let program = |name: &str| {
        let mut command = Command::new(java);
        command.args(ACCESS).arg("-cp").arg(class_path).args(["io.firndb.bench.Main", name]);
        command
    };
    super::run(&SUITE, options, &mut program("versions"), |part| program(part.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_has_every_part() {
        let folder = "../../bindings/java/bench/src/main/java/io/firndb/bench";
        let main = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("Main.java");
        let text = std::fs::read_to_string(main).unwrap();
        for part in SUITE.parts {
            assert!(text.contains(&format!("case \"{}\" ->", part.name)), "{}", part.name);
        }
    }
}
