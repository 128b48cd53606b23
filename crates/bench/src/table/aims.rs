//! What the Table is meant to reach, and whether it did in this run.

use super::report::{Report, Section};
use crate::bound::Bound::{self, AtLeast, AtMost};
use firndb_bench_protocol::table::Workload;
use std::fmt::Write;

/// A figure, or how many times one is in another: by the medians, and by the least of each.
#[derive(Clone, Copy)]
struct Pair {
    median: f64,
    least: f64,
}

/// An aim: in words, the bound, and what was measured.
struct Aim {
    words: String,
    bound: Bound,
    found: Option<Pair>,
    /// The same of `floor`, for gets beside a peer.
    floor: Option<f64>,
}

impl Aim {
    /// How many times `than` is in `of`.
    fn of(words: impl Into<String>, bound: Bound, of: Option<Pair>, than: Option<Pair>) -> Aim {
        Aim { words: words.into(), bound, found: ratio(of, than), floor: None }
    }
}

const HEAD: &str = "\
## What is aimed at, and what this run found

Times of gets are CPU times; beside peers of one thread and of two, of which the lesser ratio is
told, else of one. `firndb` is the Table as it comes, mapped. A resident table has an index of its
records in memory and is in huge pages always. A mapped one has an index in its file if records are
large, and is in huge pages where the page cache keeps the file in them, as after its build; else it
is in pages of 4 KiB (`firndb-smallpages`, whose process forbids itself others). *Bare arrays* is
what `floor` reaches: slots and records in two arrays, found by the hash. A get hands a value over
where it lies. Of `small` all of it is read, of `json` and `large` the first eight bytes
([0018](decisions/0018-a-get-hands-a-value-over.md)). Who reads a field further on waits once more,
with any store. The table after this one tells what reading all takes. Found are ratios of medians;
*of the least* divides the shortest turn or build of one by the shortest of the other.

| aim | bound | found | | of the least | bare arrays |
|---|---:|---:|---|---:|---:|
";

const READING: &str = "\
## When all of a value is read

The same aims and bounds when every byte of a value is read, of FirnDB and every peer alike and by
the same code. Of 10 KB that takes the memory longer than any store takes to find them, so not all
of these can be reached ([0018](decisions/0018-a-get-hands-a-value-over.md)). Beside `floor`, which
knows the place by the hash, a get is to be at least as fast. `get_many` hands values over, whatever
is read of them; `read_many` is for who reads them to their end.

| aim | bound | found | | of the least | bare arrays |
|---|---:|---:|---|---:|---:|
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
            let Some(Pair { median, least }) = found else { continue };
            let verdict = bound.verdict(median);
            let (bound, floor) = (bound.text(), floor.map_or(String::new(), |f| format!("{f:.3}")));
            let _ = writeln!(
                out,
                "| {name}: {words} | {bound} | {median:.3} | {verdict} | {least:.3} | {floor} |"
            );
        }
    }
    out.push('\n');
}

fn figure(section: &Section, engine: &str, what: &str) -> Option<Pair> {
    let engine = section.engines.iter().find(|other| other.name == engine)?;
    Some(Pair { median: engine.get(what)?, least: engine.range(what)?.0 })
}

/// CPU time of one kind of get with so many threads.
fn cpu(section: &Section, engine: &str, kind: &str, threads: u32) -> Option<Pair> {
    figure(section, engine, &format!("{kind} {threads} cpu"))
}

/// Gets of present keys by `engine`, beside each peer, with one thread or two, whichever is the
/// lesser ratio.
fn beside_peers(section: &Section, kind: &str, engine: &str, words: &str) -> Vec<Aim> {
    let peers = [("cdb", "cdb", 1.3), ("lmdb", "LMDB", 3.0), ("rocksdb", "RocksDB", 8.0)];
    let aim = |(peer, name, least)| {
        let times = |engine: &str, threads: u32| {
            ratio(cpu(section, peer, kind, threads), cpu(section, engine, kind, threads))
        };
        let both = times(engine, 1).zip(times(engine, 2));
        let threads = if both.is_some_and(|(one, two)| two.median < one.median) { 2 } else { 1 };
        Aim {
            words: format!("{words}, times as fast as {name}"),
            bound: AtLeast(least),
            found: both.map(|(one, two)| Pair {
                median: one.median.min(two.median),
                least: one.least.min(two.least),
            }),
            floor: times("floor", threads).map(|floor| floor.median),
        }
    };
    peers.map(aim).into()
}

/// FirnDB's ways of getting a kind of values beside each other.
fn beside_itself(section: &Section, kind: &str, batch: &str) -> Vec<Aim> {
    let cpu = |engine: &str, kind: &str| cpu(section, engine, kind, 1);
    let (mapped, resident) = (cpu("firndb", kind), cpu("firndb-resident", kind));
    let aim = |words: &str, least, of, than| Aim::of(words, AtLeast(least), of, than);
    vec![
        aim("get_many of 64, times as fast as get", 2.0, mapped, cpu("firndb", batch)),
        aim("get, resident, times as fast as mapped in huge pages too", 1.0, mapped, resident),
        aim(
            "get, resident in huge pages, times as fast as mapped in pages of 4 KiB",
            1.3,
            cpu("firndb-smallpages", kind),
            resident,
        ),
    ]
}

const FORMS: [(&str, &str); 2] =
    [("firndb", "get"), ("firndb-resident", "get of a resident table")];

fn gets(section: &Section) -> Vec<Aim> {
    let (kind, batch) = match section.records.workload {
        // All of such a value is in the lines where it begins.
        Workload::Small => ("present", "batch"),
        _ => ("handed", "handed batch"),
    };
    let beside = |(engine, words)| beside_peers(section, kind, engine, words);
    let mut aims: Vec<Aim> = FORMS.into_iter().flat_map(beside).collect();
    let absent = |engine: &str| cpu(section, engine, "absent", 1);
    aims.push(Aim::of(
        "absent, with the filter, times as fast as cdb",
        AtLeast(2.0),
        absent("cdb"),
        absent("firndb-filter8"),
    ));
    aims.extend(beside_itself(section, kind, batch));
    aims
}

fn reading(section: &Section) -> Vec<Aim> {
    let kind = "present";
    let of_form = |(engine, words): (&str, &str)| {
        let cpu = |engine: &str| cpu(section, engine, kind, 1);
        let floor = format!("{words}, times as fast as bare arrays");
        let floor = Aim::of(floor, AtLeast(1.0), cpu("floor"), cpu(engine));
        [floor].into_iter().chain(beside_peers(section, kind, engine, words))
    };
    let mut aims: Vec<Aim> = FORMS.into_iter().flat_map(of_form).collect();
    aims.extend(beside_itself(section, kind, "batch"));
    let cpu = |kind: &str| cpu(section, "firndb", kind, 1);
    let told = "read_many of 64, times as fast as get";
    aims.push(Aim::of(told, AtLeast(2.0), cpu(kind), cpu("read batch")));
    aims
}

fn ratio(of: Option<Pair>, than: Option<Pair>) -> Option<Pair> {
    let divide = |(of, than): (Pair, Pair)| Pair {
        median: of.median / than.median,
        least: of.least / than.least,
    };
    of.zip(than).map(divide)
}

fn costs(section: &Section) -> Vec<Aim> {
    let figure = |engine: &str, what: &str| figure(section, engine, what);
    let exactly = |value| Some(Pair { median: value, least: value });
    // These are meant of many small records; others take several pages each.
    let small = |words: &str, bound, of: Option<Pair>, than| {
        Aim::of(words, bound, of.filter(|_| section.records.workload == Workload::Small), than)
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
        small("4 KiB read a get", AtMost(1.001), figure(direct, "cold 1 read"), exactly(4096.0)),
        small(
            "get_many past the page cache, of the reads of fio",
            AtLeast(0.9),
            figure(direct, "cold 32 of fio"),
            exactly(1.0),
        ),
        small("file, of the keys and values", AtMost(1.06), disk, exactly(section.bytes as f64)),
        Aim::of(
            "a frame a record, times the file of BSDB's layout (`phf-zstd`)",
            AtMost(1.0),
            figure("firndb-zstd", "disk"),
            bsdb,
        ),
        Aim::of(
            "a frame a block of 16 KiB, times the file of BSDB's layout",
            AtMost(1.0),
            figure("firndb-zstdblocks", "disk"),
            bsdb,
        ),
    ]
}
