//! What the Table is meant to reach, and whether it did in this run.

use super::report::{Report, Section};
use crate::bound::Bound::{self, AtLeast, AtMost};
use firndb_bench_protocol::table::Workload;
use std::fmt::Write;

/// An aim: in words, the bound, and what was measured.
struct Aim {
    words: String,
    bound: Bound,
    found: Option<f64>,
    /// The same of `floor`, for gets beside a peer.
    floor: Option<f64>,
}

impl Aim {
    fn at_least(words: impl Into<String>, bound: f64, found: Option<f64>) -> Aim {
        Aim { words: words.into(), bound: AtLeast(bound), found, floor: None }
    }
}

const HEAD: &str = "\
## What is aimed at, and what this run found

Times of gets are CPU times of one thread; `firndb` is the Table as it comes, mapped. A resident
table has an index of its records in memory and is in huge pages always. A mapped one has an index
in its file if records are large, and is in huge pages where the page cache keeps the file in them,
as after its build; else it is in pages of 4 KiB
(`firndb-smallpages`, whose process forbids itself others). *Bare arrays* is what `floor` reaches:
slots and records in two arrays, found by the hash. Of *get* and *get_many* every byte of the value
is read, of FirnDB and every peer alike, and of 10 KB that is most of the time. Of *get alone* only
the first eight bytes are read. These rows are told in addition: those bytes are among the two lines
that FirnDB asks for, and who reads a field further on waits once more, with any store.

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
    let absent = ratio(cpu("cdb", "absent"), cpu("firndb-filter8", "absent"));
    let mut aims = present(section, "present", "");
    aims.insert(6, Aim::at_least("absent, with the filter, times as fast as cdb", 2.0, absent));
    // Of small values it is the same to read every byte.
    if section.records.workload != Workload::Small {
        aims.extend(present(section, "handed", " alone"));
    }
    aims
}

/// Gets of present keys of a kind; `alone` is how its words differ.
fn present(section: &Section, kind: &str, alone: &str) -> Vec<Aim> {
    let cpu = |engine: &str, what: &str| figure(section, engine, &format!("{what} 1 cpu"));
    let of = |engine: &str| cpu(engine, kind);
    let mut aims = Vec::new();
    for (words, engine) in [("", "firndb"), (" of a resident table", "firndb-resident")] {
        for (peer, name, bound) in
            [("cdb", "cdb", 1.3), ("lmdb", "LMDB", 3.0), ("rocksdb", "RocksDB", 8.0)]
        {
            let words = format!("get{alone}{words}, times as fast as {name}");
            let aim = Aim::at_least(words, bound, ratio(of(peer), of(engine)));
            aims.push(Aim { floor: ratio(of(peer), of("floor")), ..aim });
        }
    }
    let batch = if kind == "present" { "batch" } else { "handed batch" };
    let (mapped, resident) = (of("firndb"), of("firndb-resident"));
    aims.extend([
        Aim::at_least(
            format!("get_many{alone} of 64, times as fast as get{alone}"),
            2.0,
            ratio(mapped, cpu("firndb", batch)),
        ),
        Aim::at_least(
            format!("get{alone}, resident, times as fast as mapped in huge pages too"),
            1.0,
            ratio(mapped, resident),
        ),
        Aim::at_least(
            format!(
                "get{alone}, resident in huge pages, times as fast as mapped in pages of 4 KiB"
            ),
            1.3,
            ratio(of("firndb-smallpages"), resident),
        ),
    ]);
    aims
}

fn ratio(of: Option<f64>, than: Option<f64>) -> Option<f64> {
    of.zip(than).map(|(of, than)| of / than)
}

fn costs(section: &Section) -> Vec<Aim> {
    let figure = |engine: &str, what: &str| figure(section, engine, what);
    let aim = |words: &str, bound, of, than| Aim {
        words: words.into(),
        bound,
        found: ratio(of, than),
        floor: None,
    };
    // These are meant of many small records; others take several pages each.
    let small = |words: &str, bound, of: Option<f64>, than| {
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
