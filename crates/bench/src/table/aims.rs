//! What the Table is meant to reach, and whether it did in this run.

use super::report::{Report, Section};
use crate::bound::Bound::{self, AtLeast, AtMost};
use firndb_bench_protocol::table::Workload;
use std::fmt::Write;

/// An aim: in words, the bound, and what was measured.
struct Aim {
    words: &'static str,
    bound: Bound,
    found: Option<f64>,
    /// The same of `floor`, for gets beside a peer.
    floor: Option<f64>,
}

const HEAD: &str = "\
## What is aimed at, and what this run found

Times of gets are CPU times of one thread; `firndb` is the Table as it comes, mapped. A resident
table has an index of its records in memory and is in huge pages always. A mapped one has an index
in its file if records are large, and is in huge pages where the page cache keeps the file in them,
as after its build; else it is in pages of 4 KiB
(`firndb-smallpages`, whose process forbids itself others). *Bare arrays* is what `floor` reaches:
slots and records in two arrays, found by the hash. Of *get* and *get_many* every byte of the value
is read, by FirnDB's user and every peer's alike; where bare arrays stay below a bound too, that
reading is most of the time. Of *get alone* the first eight bytes are read: what the store itself
takes, to hand a value over.

| aim | bound | found | | bare arrays |
|---|---:|---:|---|---:|
";

/// A row for each aim that the figures of the run tell of.
pub fn table(report: &Report, out: &mut String) {
    out.push_str(HEAD);
    for section in &report.sections {
        let name = section.records.workload.name();
        for Aim { words, bound, found, floor } in gets(section).into_iter().chain(costs(section)) {
            let Some(found) = found else { continue };
            let verdict = bound.verdict(found);
            let (bound, floor) = (bound.text(), floor.map_or(String::new(), |f| format!("{f:.3}")));
            let _ =
                writeln!(out, "| {name}: {words} | {bound} | {found:.3} | {verdict} | {floor} |");
        }
    }
    out.push('\n');
}

fn figure(section: &Section, engine: &str, what: &str) -> Option<f64> {
    section.engines.iter().find(|other| other.name == engine)?.get(what)
}

fn gets(section: &Section) -> Vec<Aim> {
    let cpu = |engine: &str, what: &str| figure(section, engine, &format!("{what} 1 cpu"));
    let faster = |words, bound, slow: Option<f64>, fast: Option<f64>| Aim {
        words,
        bound: AtLeast(bound),
        found: slow.zip(fast).map(|(slow, fast)| slow / fast),
        floor: None,
    };
    let ours = cpu("firndb", "present");
    let resident = cpu("firndb-resident", "present");
    let beside = |words, bound, peer, ours| Aim {
        floor: cpu(peer, "present").zip(cpu("floor", "present")).map(|(peer, floor)| peer / floor),
        ..faster(words, bound, cpu(peer, "present"), ours)
    };
    let filtered = cpu("firndb-filter8", "absent");
    let batched = cpu("firndb", "batch");
    let mut aims = vec![
        beside("get, times as fast as cdb", 1.3, "cdb", ours),
        beside("get, times as fast as LMDB", 3.0, "lmdb", ours),
        beside("get, times as fast as RocksDB", 8.0, "rocksdb", ours),
        beside("get of a resident table, times as fast as cdb", 1.3, "cdb", resident),
        beside("get of a resident table, times as fast as LMDB", 3.0, "lmdb", resident),
        beside("get of a resident table, times as fast as RocksDB", 8.0, "rocksdb", resident),
        faster(
            "absent, with the filter, times as fast as cdb",
            2.0,
            cpu("cdb", "absent"),
            filtered,
        ),
        faster("get_many of 64, times as fast as get", 2.0, ours, batched),
        faster("resident, times as fast as mapped in huge pages too", 1.0, ours, resident),
        faster(
            "resident in huge pages, times as fast as mapped in pages of 4 KiB",
            1.3,
            cpu("firndb-smallpages", "present"),
            resident,
        ),
    ];
    if section.records.workload != Workload::Small {
        aims.extend(gets_alone(section));
    }
    aims
}

/// Gets of which the value is handed over: of small values it is the same to read every byte.
fn gets_alone(section: &Section) -> Vec<Aim> {
    let cpu = |engine: &str, what: &str| figure(section, engine, &format!("{what} 1 cpu"));
    let alone = |engine: &str| cpu(engine, "handed");
    let faster = |words, bound, slow: Option<f64>, fast: Option<f64>, floor: Option<f64>| Aim {
        words,
        bound: AtLeast(bound),
        found: slow.zip(fast).map(|(slow, fast)| slow / fast),
        floor: slow.zip(floor).map(|(slow, floor)| slow / floor),
    };
    let beside = |words, bound, peer, ours: &str| {
        faster(words, bound, alone(peer), alone(ours), alone("floor"))
    };
    let (ours, resident) = ("firndb", "firndb-resident");
    vec![
        beside("get alone, times as fast as cdb", 1.3, "cdb", ours),
        beside("get alone, times as fast as LMDB", 3.0, "lmdb", ours),
        beside("get alone, times as fast as RocksDB", 8.0, "rocksdb", ours),
        beside("get alone of a resident table, times as fast as cdb", 1.3, "cdb", resident),
        beside("get alone of a resident table, times as fast as LMDB", 3.0, "lmdb", resident),
        beside("get alone of a resident table, times as fast as RocksDB", 8.0, "rocksdb", resident),
        faster(
            "get_many of 64 alone, times as fast as get",
            2.0,
            alone(ours),
            cpu(ours, "handed batch"),
            None,
        ),
        faster(
            "get alone, resident, times as fast as mapped in huge pages too",
            1.0,
            alone(ours),
            alone(resident),
            None,
        ),
        faster(
            "get alone, resident in huge pages, times as fast as mapped in pages of 4 KiB",
            1.3,
            alone("firndb-smallpages"),
            alone(resident),
            None,
        ),
    ]
}

fn costs(section: &Section) -> Vec<Aim> {
    let figure = |engine: &str, what: &str| figure(section, engine, what);
    let aim = |words, bound, of: Option<f64>, than: Option<f64>| Aim {
        words,
        bound,
        found: of.zip(than).map(|(of, than)| of / than),
        floor: None,
    };
    // These are meant of many small records; others take several pages each.
    let small = |words, bound, of: Option<f64>, than| {
        aim(words, bound, of.filter(|_| section.records.workload == Workload::Small), than)
    };
    let (wall, direct) = (figure("firndb", "build wall"), "firndb-direct");
    let (disk, bsdb) = (figure("firndb", "disk"), figure("phf-zstd", "disk"));
    vec![
        small(
            "build, times the CPU of cdb",
            AtMost(1.5),
            figure("firndb", "build cpu"),
            figure("cdb", "build cpu"),
        ),
        small(
            "build, times the time of writing the records once (`floor`)",
            AtMost(2.0),
            wall,
            figure("floor", "build wall"),
        ),
        small(
            "build with memory for a tenth, times the time of one in memory",
            AtMost(2.0),
            figure("firndb-tenth", "build wall"),
            wall,
        ),
        small("4 KiB read a get", AtMost(1.001), figure(direct, "cold 1 read"), Some(4096.0)),
        small(
            "get_many past the page cache, of the reads of fio",
            AtLeast(0.9),
            figure(direct, "cold 32 rate"),
            figure(direct, "fio 32 rate"),
        ),
        small("file, of the keys and values", AtMost(1.06), disk, Some(section.bytes as f64)),
        aim(
            "a frame a record, times the file of BSDB's layout (`phf-zstd`)",
            AtMost(1.0),
            figure("firndb-zstd", "disk"),
            bsdb,
        ),
        aim(
            "a frame a block of 16 KiB, times the file of BSDB's layout",
            AtMost(1.0),
            figure("firndb-zstdblocks", "disk"),
            bsdb,
        ),
    ]
}
