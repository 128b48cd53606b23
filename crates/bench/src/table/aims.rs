//! What the Table is meant to reach, and whether it did in this run.

use super::report::{Report, Section};
use crate::bound::Bound::{self, AtLeast, AtMost};
use firndb_bench_protocol::table::Workload;
use std::fmt::Write;

/// An aim: in words, the bound, if there is one, and what was measured.
struct Aim {
    words: String,
    bound: Option<Bound>,
    found: Option<f64>,
    /// The same of `floor`, for gets beside a peer.
    floor: Option<f64>,
}

impl Aim {
    fn at_least(words: impl Into<String>, bound: f64, found: Option<f64>) -> Aim {
        Aim { words: words.into(), bound: Some(AtLeast(bound)), found, floor: None }
    }
}

const HEAD: &str = "\
## What is aimed at, and what this run found

Times of gets are CPU times; of one thread and of two the lesser ratio is told. `firndb` is the
Table as it comes, mapped. A resident table has an index of its records in memory and is in huge
pages always. A mapped one has an index in its file if records are large, and is in huge pages where
the page cache keeps the file in them, as after its build; else it is in pages of 4 KiB
(`firndb-smallpages`, whose process forbids itself others). *Bare arrays* is what `floor` reaches:
slots and records in two arrays, found by the hash. A get hands a value over where it lies. Of
`small` all of it is read, of `json` and `large` the first eight bytes; the table after this one
tells what reading the others takes.

| aim | bound | found | | bare arrays |
|---|---:|---:|---|---:|
";

const READING: &str = "\
## When all of a value is read

Here every byte of a value is read, of FirnDB and every peer alike. That takes the memory longer than
any store takes to find 10 KB, so no store can be several times as fast as another, and the bound is
what `floor` takes, which knows the place by the hash
([0018](decisions/0018-a-get-hands-a-value-over.md)).

| what | bound | found | | bare arrays |
|---|---:|---:|---|---:|
";

/// A row for each aim that the figures of the run tell of.
pub fn table(report: &Report, out: &mut String) {
    out.push_str(HEAD);
    rows(report, out, |section| gets(section).into_iter().chain(costs(section)).collect());
    let large = |section: &&Section| section.records.workload != Workload::Small;
    if report.sections.iter().any(|section| large(&section)) {
        out.push_str(READING);
        rows(report, out, |section| if large(&section) { reading(section) } else { Vec::new() });
    }
}

fn rows(report: &Report, out: &mut String, aims: impl Fn(&Section) -> Vec<Aim>) {
    for section in &report.sections {
        let name = section.records.workload.name();
        for Aim { words, bound, found, floor } in aims(section) {
            let Some(found) = found else { continue };
            let verdict = bound.as_ref().map_or("", |bound| bound.verdict(found));
            let bound = bound.map_or(String::new(), |bound| bound.text());
            let floor = floor.map_or(String::new(), |floor| format!("{floor:.3}"));
            let _ =
                writeln!(out, "| {name}: {words} | {bound} | {found:.3} | {verdict} | {floor} |");
        }
    }
    out.push('\n');
}

fn figure(section: &Section, engine: &str, what: &str) -> Option<f64> {
    section.engines.iter().find(|other| other.name == engine)?.get(what)
}

/// How many times as fast `than` is as `of`, with one thread or two: the lesser.
fn faster(section: &Section, of: (&str, &str), than: (&str, &str)) -> Option<f64> {
    let times = |threads: u32| {
        let cpu = |(engine, what): (&str, &str)| {
            figure(section, engine, &format!("{what} {threads} cpu"))
        };
        ratio(cpu(of), cpu(than))
    };
    times(1).into_iter().chain(times(2)).reduce(f64::min)
}

/// Gets of present keys by `engine`, beside each peer; bounds if there are some.
fn beside_peers(section: &Section, kind: &str, engine: &str, words: &str, bound: bool) -> Vec<Aim> {
    let peers = [("cdb", "cdb", 1.3), ("lmdb", "LMDB", 3.0), ("rocksdb", "RocksDB", 8.0)];
    let aim = |(peer, name, least)| Aim {
        words: format!("{words}, times as fast as {name}"),
        bound: bound.then_some(AtLeast(least)),
        found: faster(section, (peer, kind), (engine, kind)),
        floor: faster(section, (peer, kind), ("floor", kind)),
    };
    peers.map(aim).into()
}

const FORMS: [(&str, &str); 2] = [("firndb", ""), ("firndb-resident", " of a resident table")];

fn gets(section: &Section) -> Vec<Aim> {
    let (kind, batch) = match section.records.workload {
        // All of such a value is in the lines where it begins.
        Workload::Small => ("present", "batch"),
        _ => ("handed", "handed batch"),
    };
    let beside = |(engine, words): (&str, &str)| {
        beside_peers(section, kind, engine, &format!("get{words}"), true)
    };
    let mut aims: Vec<Aim> = FORMS.into_iter().flat_map(beside).collect();
    let faster = |of, than| faster(section, of, than);
    let resident = ("firndb-resident", kind);
    aims.extend([
        Aim::at_least(
            "absent, with the filter, times as fast as cdb",
            2.0,
            faster(("cdb", "absent"), ("firndb-filter8", "absent")),
        ),
        Aim::at_least(
            "get_many of 64, times as fast as get",
            2.0,
            faster(("firndb", kind), ("firndb", batch)),
        ),
        Aim::at_least(
            "get, resident, times as fast as mapped in huge pages too",
            1.0,
            faster(("firndb", kind), resident),
        ),
        Aim::at_least(
            "get, resident in huge pages, times as fast as mapped in pages of 4 KiB",
            1.3,
            faster(("firndb-smallpages", kind), resident),
        ),
    ]);
    aims
}

fn reading(section: &Section) -> Vec<Aim> {
    let kind = "present";
    let of_form = |(engine, words): (&str, &str)| {
        let words = format!("get{words}");
        let floor = faster(section, ("floor", kind), (engine, kind));
        let floor = Aim::at_least(format!("{words}, times as fast as bare arrays"), 1.0, floor);
        let many = faster(section, (engine, kind), (engine, "batch"));
        let many = Aim {
            bound: None,
            ..Aim::at_least(format!("get_many of 64, times as fast as {words}"), 1.0, many)
        };
        let peers = beside_peers(section, kind, engine, &words, false);
        [floor].into_iter().chain(peers).chain([many])
    };
    FORMS.into_iter().flat_map(of_form).collect()
}

fn ratio(of: Option<f64>, than: Option<f64>) -> Option<f64> {
    of.zip(than).map(|(of, than)| of / than)
}

fn costs(section: &Section) -> Vec<Aim> {
    let figure = |engine: &str, what: &str| figure(section, engine, what);
    let aim = |words: &str, bound, of, than| Aim {
        words: words.into(),
        bound: Some(bound),
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
