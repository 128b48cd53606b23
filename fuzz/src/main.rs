//! Fuzz targets: `cargo xtask fuzz TARGET` builds this program and runs it.
//!
//! One program contains all targets; the variable `FIRNDB_FUZZ` selects one. All check the same
//! property: bytes from outside give answers or errors, and never a panic, a hang, or an allocation
//! out of proportion to the size of the input. libFuzzer enforces the limits of time and memory.
//!
//! Every section, block and record has a checksum, so random mutations would only ever test the
//! checksums. The mutators of the targets therefore change bytes under a checksum and recompute it,
//! producing files that an attacker could write. One mutation in eight leaves the checksums alone.
//! A failing input is an ordinary file, which `firn verify` can read.

#![no_main]

mod ask;
mod frozen;
mod log;
mod manifest;
mod mutate;
mod partition;
mod place;
mod query;
mod redis;
mod rows;
mod segment;
mod table;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use mutate::Rng;
use std::sync::LazyLock;

/// The function that runs an input, and the mutator. The mutator changes the first `size` bytes of
/// the buffer and returns the new size, at most `max_size`.
struct Target {
    name: &'static str,
    run: fn(&[u8]),
    mutate: fn(&mut Rng, &mut [u8], usize, usize) -> usize,
}

const TARGETS: [Target; 15] = [
    Target { name: "query", run: query::run, mutate: mutate::plain },
    Target { name: "request", run: firndb_server::fuzzing::request, mutate: mutate::plain },
    Target { name: "partition", run: partition::run, mutate: frozen::mutate },
    Target { name: "set", run: partition::run_set, mutate: frozen::mutate },
    Target { name: "table", run: table::run, mutate: frozen::mutate },
    Target { name: "segment", run: log::run_segment, mutate: segment::mutate },
    Target { name: "hint", run: log::run_auxiliary, mutate: frozen::mutate },
    Target { name: "manifest", run: manifest::run, mutate: manifest::mutate },
    Target { name: "redis", run: redis::run, mutate: mutate::plain },
    Target { name: "text", run: rows::text, mutate: mutate::plain },
    Target { name: "csv", run: rows::csv, mutate: mutate::plain },
    Target { name: "jsonl", run: rows::json_lines, mutate: mutate::plain },
    Target { name: "parquet", run: rows::parquet, mutate: rows::mutate_parquet },
    Target { name: "arrow", run: rows::arrow, mutate: rows::mutate_arrow },
    Target { name: "avro", run: rows::avro, mutate: rows::mutate_avro },
];

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FIRNDB_FUZZ").unwrap_or_default();
    let names = TARGETS.map(|target| target.name).join(", ");
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("FIRNDB_FUZZ is `{name}`; targets are {names}"))
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    (TARGET.mutate)(&mut Rng::new(u64::from(seed)), data, size, max_size)
});
