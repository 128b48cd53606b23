//! The aims of the Table, and whether this run reached them.

use super::report::{Report, Section, median, range, ratios};
use crate::bound::Bound::{self, AtLeast, AtMost};
use firndb_bench_protocol::table::Workload;
use std::fmt::Write;

/// An aim: its words, the bound, and what was measured.
struct Aim {
    words: String,
    bound: Bound,
    /// The values of the passes.
    found: Option<Vec<f64>>,
    /// The same of `floor`, for gets compared with a peer.
    floor: Option<f64>,
}

impl Aim {
    /// The ratio of `of` to `than`.
    fn of(
        words: impl Into<String>,
        bound: Bound,
        of: Option<Vec<f64>>,
        than: Option<Vec<f64>>,
    ) -> Aim {
        Aim { words: words.into(), bound, found: times(of, than), floor: None }
    }
}

fn times(of: Option<Vec<f64>>, than: Option<Vec<f64>>) -> Option<Vec<f64>> {
    Some(ratios(&of?, &than?))
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
with any store. The table after this one tells what reading all takes. *By way of cdb*: BSDB was
measured on another machine, beside cdb, both warm and mapped: 1.41 us of CPU a get and 0.62, 115 s
of CPU to build and 7.3; what is found beside cdb here is multiplied by that.

Found is the median of three passes, each of which built and opened everything anew; *passes* are
the least and the most of them. Of each it is a ratio of the medians of its turns.

| aim | bound | found | | passes | bare arrays |
|---|---:|---:|---|---:|---:|
";

const READING: &str = "\
## When all of a value is read

The same aims and bounds when every byte of a value is read, of FirnDB and every peer alike and by
the same code. Of 10 KB that takes the memory longer than any store takes to find them, so not all
of these can be reached ([0018](decisions/0018-a-get-hands-a-value-over.md)). Beside `floor`, which
knows the place by the hash, a get is to be at least as fast. `get_many` hands values over, whatever
is read of them; `read_many` is for who reads them to their end.

| aim | bound | found | | passes | bare arrays |
|---|---:|---:|---|---:|---:|
";

/// One row per aim that the figures of the run cover.
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
            let Some(passes) = found else { continue };
            let Some((found, (least, most))) = median(&passes).zip(range(&passes)) else {
                continue;
            };
            let verdict = bound.verdict(found);
            let (bound, floor) = (bound.text(), floor.map_or(String::new(), |f| format!("{f:.3}")));
            let passes = format!("{least:.3} to {most:.3}");
            let _ = writeln!(
                out,
                "| {name}: {words} | {bound} | {found:.3} | {verdict} | {passes} | {floor} |"
            );
        }
    }
    out.push('\n');
}

/// The values of a figure, one per pass.
fn figure(section: &Section, engine: &str, what: &str) -> Option<Vec<f64>> {
    section.engines.iter().find(|other| other.name == engine)?.by_pass(what)
}

/// CPU time of one kind of get with this many threads.
fn cpu(section: &Section, engine: &str, kind: &str, threads: u32) -> Option<Vec<f64>> {
    figure(section, engine, &format!("{kind} {threads} cpu"))
}

/// Gets of present keys by `engine` compared with each peer, with one thread or two, whichever
/// ratio is smaller.
fn against_peers(section: &Section, kind: &str, engine: &str, words: &str) -> Vec<Aim> {
    let peers = [("cdb", "cdb", 1.3), ("lmdb", "LMDB", 3.0), ("rocksdb", "RocksDB", 8.0)];
    let aim = |(peer, name, least)| {
        let times = |engine: &str, threads: u32| {
            times(cpu(section, peer, kind, threads), cpu(section, engine, kind, threads))
        };
        let (one, two) = (times(engine, 1), times(engine, 2));
        let middle = |passes: &Option<Vec<f64>>| median(passes.as_ref()?);
        let threads = if middle(&two) < middle(&one) { 2 } else { 1 };
        Aim {
            words: format!("{words}, times as fast as {name}"),
            bound: AtLeast(least),
            found: one.zip(two).map(|(one, two)| if threads == 2 { two } else { one }),
            floor: times("floor", threads).and_then(|passes| median(&passes)),
        }
    };
    peers.map(aim).into()
}

/// Compares FirnDB's ways of getting a kind of values.
fn between_forms(section: &Section, kind: &str, batch: &str) -> Vec<Aim> {
    let cpu = |engine: &str, kind: &str| cpu(section, engine, kind, 1);
    let (mapped, resident) = (|| cpu("firndb", kind), || cpu("firndb-resident", kind));
    let aim = |words: &str, least, of, than| Aim::of(words, AtLeast(least), of, than);
    vec![
        aim("get_many of 64, times as fast as get", 2.0, mapped(), cpu("firndb", batch)),
        aim("get, resident, times as fast as mapped in huge pages too", 1.0, mapped(), resident()),
        aim(
            "get, resident in huge pages, times as fast as mapped in pages of 4 KiB",
            1.3,
            cpu("firndb-smallpages", kind),
            resident(),
        ),
    ]
}

const FORMS: [(&str, &str); 2] =
    [("firndb", "get"), ("firndb-resident", "get of a resident table")];

fn gets(section: &Section) -> Vec<Aim> {
    let (kind, batch) = match section.records.workload {
        // Such a value lies entirely in the cache lines where it starts.
        Workload::Small => ("present", "batch"),
        _ => ("handed", "handed batch"),
    };
    let against = |(engine, words)| against_peers(section, kind, engine, words);
    let mut aims: Vec<Aim> = FORMS.into_iter().flat_map(against).collect();
    if section.records.workload == Workload::Small {
        let cdb = aims.first().and_then(|against_cdb| against_cdb.found.clone());
        aims.push(by_way_of_cdb("get, times as fast as BSDB", 2.5, cdb, BSDB_GET));
    }
    let absent = |engine: &str| cpu(section, engine, "absent", 1);
    aims.push(Aim::of(
        "absent, with the filter, times as fast as cdb",
        AtLeast(2.0),
        absent("cdb"),
        absent("firndb-filter8"),
    ));
    aims.extend(between_forms(section, kind, batch));
    aims
}

fn reading(section: &Section) -> Vec<Aim> {
    let kind = "present";
    let of_form = |(engine, words): (&str, &str)| {
        let cpu = |engine: &str| cpu(section, engine, kind, 1);
        let floor = format!("{words}, times as fast as bare arrays");
        let floor = Aim::of(floor, AtLeast(1.0), cpu("floor"), cpu(engine));
        [floor].into_iter().chain(against_peers(section, kind, engine, words))
    };
    let mut aims: Vec<Aim> = FORMS.into_iter().flat_map(of_form).collect();
    aims.extend(between_forms(section, kind, "batch"));
    let cpu = |kind: &str| cpu(section, "firndb", kind, 1);
    let words = "read_many of 64, times as fast as get";
    aims.push(Aim::of(words, AtLeast(2.0), cpu(kind), cpu("read batch")));
    aims
}

/// BSDB's time divided by cdb's, both warm and mapped, for a get and for the CPU of a build, of the
/// workload `small`: figures that the page quotes from another machine.
const BSDB_GET: f64 = 1.41 / 0.62;
const BSDB_BUILD: f64 = 115.0 / 7.3;

/// An aim relative to BSDB: cdb's time divided by FirnDB's, times BSDB's divided by cdb's.
fn by_way_of_cdb(words: &str, least: f64, cdb: Option<Vec<f64>>, bsdb: f64) -> Aim {
    let found = cdb.map(|passes| passes.iter().map(|times| times * bsdb).collect());
    Aim { words: format!("{words}, by way of cdb"), bound: AtLeast(least), found, floor: None }
}

/// The engines that build the same file.
const SAME_FILE: [&str; 4] = ["firndb", "firndb-smallpages", "firndb-resident", "firndb-direct"];

/// A figure of the builds of the plain file in each pass; of several builds the median.
fn built(section: &Section, what: &str) -> Option<Vec<f64>> {
    let all: Vec<_> = SAME_FILE.iter().filter_map(|name| figure(section, name, what)).collect();
    let passes = all.iter().map(Vec::len).max()?;
    let pass = |pass| median(&all.iter().filter_map(|f| f.get(pass).copied()).collect::<Vec<_>>());
    (0..passes).map(pass).collect()
}

fn costs(section: &Section) -> Vec<Aim> {
    let figure = |engine: &str, what: &str| figure(section, engine, what);
    // These aims are for many small records; large records take several pages each.
    let is_small = section.records.workload == Workload::Small;
    let small = |words: &str, bound, of: Option<Vec<f64>>, than| {
        Aim::of(words, bound, of.filter(|_| is_small), than)
    };
    let (wall, direct) = (built(section, "build wall"), "firndb-direct");
    let (disk, bsdb) = (figure("firndb", "disk"), figure("phf-zstd", "disk"));
    let cheaper =
        times(figure("cdb", "build cpu").filter(|_| is_small), built(section, "build cpu"));
    let always = |value: f64| disk.as_ref().map(|passes| vec![value; passes.len()]);
    vec![
        small(
            "build, times the CPU of cdb",
            AtMost(1.5),
            built(section, "build cpu"),
            figure("cdb", "build cpu"),
        ),
        by_way_of_cdb("build, times less CPU than BSDB", 8.0, cheaper, BSDB_BUILD),
        small(
            "build, times the time of writing the records once (`floor`)",
            AtMost(2.0),
            wall.clone(),
            figure("floor", "build wall"),
        ),
        small(
            "build with memory for a tenth, times the time of one in memory",
            AtMost(2.0),
            figure("firndb-tenth", "build wall"),
            wall,
        ),
        small("4 KiB read a get", AtMost(1.001), figure(direct, "cold 1 read"), always(4096.0)),
        small(
            "get_many past the page cache, of the reads of fio",
            AtLeast(0.9),
            figure(direct, "cold 32 rate"),
            figure(direct, "fio 32 rate"),
        ),
        small(
            "file, of the keys and values",
            AtMost(1.06),
            disk.clone(),
            always(section.bytes as f64),
        ),
        Aim::of(
            "a frame a record, times the file of BSDB's layout (`phf-zstd`)",
            AtMost(1.0),
            figure("firndb-zstd", "disk"),
            bsdb.clone(),
        ),
        Aim::of(
            "a frame a block of 16 KiB, times the file of BSDB's layout",
            AtMost(1.0),
            figure("firndb-zstdblocks", "disk"),
            bsdb,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::report::{engine, records};
    use std::time::Duration;

    #[test]
    fn aims_are_judged_by_the_median_of_ratios_within_passes() {
        let cpu = |one, two| [("present 1 cpu", one), ("present 2 cpu", two)];
        // The medians alone would give 1.5 with one thread, and 1.2 with two.
        let ours = [
            &cpu([100.0, 200.0, 400.0], [100.0; 3])[..],
            &[("disk", [1.0; 3]), ("build cpu", [9.0, 3.0, 3.0])],
        ];
        let peer =
            [&cpu([140.0, 300.0, 480.0], [120.0, 131.0, 119.0])[..], &[("build cpu", [2.0; 3])]];
        let direct = [
            ("cold 32 rate", [90.0, 50.0, 99.0]),
            ("fio 32 rate", [100.0, 50.0, 200.0]),
            ("build cpu", [1.0, 3.0, 5.0]),
        ];
        let section = Section {
            records: records(Workload::Small, 1000),
            bytes: 1,
            making: Duration::ZERO,
            engines: vec![
                engine("firndb", &ours.concat()),
                engine("cdb", &peer.concat()),
                engine("firndb-direct", &direct),
            ],
        };
        let mut page = String::new();
        table(&Report { sections: vec![section] }, &mut page);
        for row in [
            "get, times as fast as cdb | at least 1.3 | 1.200 | **missed** | 1.190 to 1.310 | ",
            "of the reads of fio | at least 0.9 | 0.900 | reached | 0.495 to 1.000 | ",
            // 5, 3 and 4 are the medians of both builds of the file.
            "build, times the CPU of cdb | at most 1.5 | 2.000 | **missed** | 1.500 to 2.500 | ",
            // 1.2, 1.31 and 1.19 times as fast as cdb, and BSDB 2.274 times as slow.
            "BSDB, by way of cdb | at least 2.5 | 2.729 | reached | 2.706 to 2.979 | ",
            // 15.75 times as much CPU as cdb, which takes 2/5, 2/3 and 1/2 of ours.
            "than BSDB, by way of cdb | at least 8 | 7.877 | **missed** | 6.301 to 10.502 | ",
        ] {
            assert!(page.contains(row), "no {row} in {page}");
        }
    }
}
