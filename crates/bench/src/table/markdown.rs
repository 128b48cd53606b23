//! The page `docs/benchmarks-table.md`. Every figure that this module prints comes from one run,
//! except those of BSDB's own program, which are marked.

use super::report::{Figures, Report, Section, median, ratios};
use super::targets;
use crate::machine;
use crate::page::{self, Loss, head, or_dash, row};
use crate::units::{bytes, is_ours, is_peer, time};
use std::fmt::Write;
use std::path::Path;

const METHOD: &str = "\
Every engine, FirnDB included, is a child process that implements the same protocol
([peers/README.md](../peers/README.md)) and generates the same records from their numbers. Builds
stream, and the time of a build includes generating the records. Keys are `k` and twelve hexadecimal
digits of a bijection, so they arrive in random order. LMDB, redb and RocksDB need sorted keys and
receive them sorted, for the price of sorting eight bytes per record. Values of `small` and `large`
do not compress.

**Correctness.** Before anything is timed, each engine is opened anew, and 20,000 whole values and
20,000 absent keys are compared with the generator, individually and in batches. Then every record
is read once, and a checksum of all values is compared. This is repeated when all engines are open,
right before the measurements, so every page has been touched; a measurement of CPU time that still
reads from the disk ends the run with an error. Unless a column says that only the first eight bytes
are read, every byte of a value is read, by the same code for every engine (for values of 256 bytes
and more in vectors of 32 bytes, where the processor has them).

**Gets.** *CPU per get* is the CPU time of the threads divided by the number of gets, one after
another over four million random keys; the processor may overlap consecutive gets. With two threads
it is the same quotient, so it shows what threads cost each other; gets per second are by the wall
clock. Percentiles are of gets timed one by one, from one reading of the clock to the next, so they
include reading the clock (about 20 ns), and nothing overlaps. Batches are `get_many`; with the
full-read hint they are `read_many`, which prefetches whole values.

**Passes and rounds.** As many engines as fit into memory are open at the same time, in the same
groups in every pass, and are measured interleaved: one kind of get of one engine after another, a
fraction of a second each, in several rounds of alternating direction. All of this is done in three
passes with files that are built and opened anew, because the placement of a file's pages differs
from build to build. The figure of a pass is the median of its measurements, and the figure in a
table is the median of the passes; parentheses give the smallest and the largest of all
measurements. Targets divide figures of the same pass and report the median of these ratios. A
measurement of percentiles ends after half a million gets or four times the usual duration.
Measurements of the disk, of FirnDB and of `fio`, are three times as long, and those with many
concurrent reads are four times as many. Builds, openings and sizes are measured once per pass.
`--json` writes every measurement.

**Builds** run one after another in the order of the tables, rotated by a third of the engines in
the second pass and by two thirds in the third. The host of a virtual machine may reclaim free
memory (here after two seconds) and return it slowly, page by page. Before each build, as much
memory as the build may use is therefore touched in huge pages and freed. This covers about the
first two seconds of a build; a longer build may have to wait for huge pages again. `firndb`,
`firndb-smallpages`, `firndb-resident` and `firndb-direct` build the same file: their builds show
how much the machine varies, and targets use the median of the four. `firndb-tenth` builds with
memory for a tenth of the records, through a temporary file. Every engine except `phf` syncs what it
built.

**Memory.** *Anonymous memory* is not backed by files; *mapped* is what the page cache could
reclaim. Files are read from the page cache as their builds left them: FirnDB's in huge pages,
because its writer writes whole ones. A file that is read back from disk is in small pages.

**Floor** is not an engine: an array of slots and an array of records. Its build writes the records
to a file, one after another.

**Cache misses.** A get of `firndb` in memory reads the directory (0.04 bytes per record, usually in
the outer caches), which names the block. Then it needs the head of the block and the record, in the
same page: three cache lines of the head, for small records, and one or two of the record. For small
records it prefetches twelve lines around the predicted position together with those of the head; in
nine gets of ten that is one memory wait, otherwise two
([0007](decisions/0007-a-hash-maps-to-one-block.md)). cdb waits twice, for a slot of its hash table
and then for the record, each in a page of its own; so does `phf`. `firndb-resident` waits for a
line of its index and for the record, and so does `firndb` where records are large and the file has
an index, which is small beside such records and mostly cached. Gets that overlap are limited by the
number of cache lines.
";

const BSDB: &str = "\
## BSDB itself

`phf` above is BSDB's design without its JVM. BSDB's own program (0.1.3, JDK 11) was measured on
another machine (2 cores of a Xeon at 2.5 GHz, 24 GB), which is not comparable with the tables
above. With 20 million records of 13 + 32 bytes: 115 s of CPU to build; 1,141 MB on disk, 57.1 bytes
per record; 1.41 us of CPU per get of a present key and 0.74 us of an absent one; two dependent
reads per get from disk; 6.27 bits of memory per key for its hash function. With a million JSON
values of 988 bytes, compressed: 22.5 us of CPU per get. Its README states 558,000 gets per second
for 13.2 billion records on NVMe.

";

/// The page. `chart` is the drawing to show, in the directory of the page.
pub fn page(report: &Report, chart: Option<&Path>) -> String {
    let mut targets = String::new();
    let tally = targets::table(report, &mut targets);
    let losses = losses(report);
    let mut out = String::from("# Benchmarks: tables\n\n");
    let _ = write!(
        out,
        "{}\n\nMeasured on {} on {}. To run it: `cargo xtask bench table`.\n\n",
        page::summary(tally, &losses),
        machine::today(),
        machine::describe(),
    );
    if let Some(name) = chart.and_then(Path::file_name) {
        let _ = writeln!(out, "![CPU time per get by engine]({})\n", name.to_string_lossy());
    }
    out.push_str(&targets);
    medians(report, &mut out);
    page::losses(&losses, LOSSES, &mut out);
    let _ = write!(out, "## Method\n\n{METHOD}\n");
    for section in &report.sections {
        gets(section, &mut out);
        against_peers(section, &mut out);
        costs(section, &mut out);
    }
    cold(report, &mut out);
    out.push_str(BSDB);
    versions(report, &mut out);
    out
}

/// A time, with the smallest and the largest measurement.
fn spread(engine: &Figures, what: &str) -> String {
    or_dash(engine.get(what).zip(engine.range(what)), |(median, (least, most))| {
        format!("{} ({} to {})", time(median), time(least), time(most))
    })
}

fn size(value: f64) -> String {
    bytes(value as u64)
}

/// CPU times of single gets with one thread; every byte of the values is read.
fn medians(report: &Report, out: &mut String) {
    let _ = writeln!(
        out,
        "## Medians\n\nCPU time per get with one thread, every byte of the value read.\n"
    );
    let mut names: Vec<&str> = Vec::new();
    for engine in report.sections.iter().flat_map(|section| &section.engines) {
        if engine.get("present 1 cpu").is_some() && !names.contains(&engine.name.as_str()) {
            names.push(&engine.name);
        }
    }
    head(out, 1, &[&["gets"], &names[..]].concat());
    for section in &report.sections {
        for what in ["present", "absent"] {
            let of = |name: &&str| section.engines.iter().find(|engine| engine.name == **name);
            let cell = |name| {
                or_dash(of(name).and_then(|engine| engine.get(&format!("{what} 1 cpu"))), time)
            };
            let title = format!("{}, {what} keys", section.records.workload.name());
            row(out, &[vec![title], names.iter().map(cell).collect()].concat());
        }
    }
    out.push('\n');
}

fn gets(section: &Section, out: &mut String) {
    let records = section.records;
    let (name, text) = (records.workload.name(), records.workload.text());
    let _ = writeln!(out, "## {name}: {} records, {text}\n", records.count);
    head(
        out,
        1,
        &[
            "engine",
            "present: CPU per get",
            "2 threads",
            "median",
            "p99",
            "p99.9",
            "gets/s",
            "2 threads",
            "absent: CPU per get",
            "2 threads",
            "median",
            "p99",
            "batch of 64: CPU per key",
            "batch of 64, full-read hint: CPU per key",
            "first bytes read: CPU per get",
            "2 threads",
            "first bytes read, batch of 64: CPU per key",
        ],
    );
    for engine in section.engines.iter().filter(|engine| engine.get("present p50").is_some()) {
        let nanos = |what: &str| or_dash(engine.get(what), time);
        let spread = |what: &str| spread(engine, what);
        let rate = |what: &str| or_dash(engine.get(what), |rate| format!("{:.2} M", rate / 1e6));
        let cells = [
            engine.name.clone(),
            spread("present 1 cpu"),
            spread("present 2 cpu"),
            nanos("present p50"),
            nanos("present p99"),
            nanos("present p999"),
            rate("present 1 rate"),
            rate("present 2 rate"),
            nanos("absent 1 cpu"),
            nanos("absent 2 cpu"),
            nanos("absent p50"),
            nanos("absent p99"),
            nanos("batch 1 cpu"),
            nanos("read batch 1 cpu"),
            spread("handed 1 cpu"),
            spread("handed 2 cpu"),
            nanos("handed batch 1 cpu"),
        ];
        row(out, &cells);
    }
    out.push('\n');
}

/// The CPU time of a get by each peer, divided by FirnDB's.
fn against_peers(section: &Section, out: &mut String) {
    let ours: Vec<&Figures> = section
        .engines
        .iter()
        .filter(|e| is_ours(&e.name) && e.get("present 1 cpu").is_some())
        .collect();
    if ours.is_empty() || section.peers().next().is_none() {
        return;
    }
    let _ = writeln!(
        out,
        "CPU time per get of each peer relative to FirnDB's, for a present key / an absent key:\n"
    );
    let names = ours.iter().map(|engine| engine.name.as_str());
    head(out, 1, &["peer"].into_iter().chain(names).collect::<Vec<_>>());
    for peer in section.peers() {
        let ratio = |engine: &Figures, what: &str| {
            let passes = ratios(&peer.by_pass(what)?, &engine.by_pass(what)?);
            Some(format!("{:.2}", median(&passes)?))
        };
        let cell = |engine: &&Figures| {
            let pair = (ratio(engine, "present 1 cpu"), ratio(engine, "absent 1 cpu"));
            let text = |cell: Option<String>| cell.unwrap_or("-".into());
            format!("{} / {}", text(pair.0), text(pair.1))
        };
        row(out, &[vec![peer.name.clone()], ours.iter().map(cell).collect()].concat());
    }
    out.push('\n');
}

fn costs(section: &Section, out: &mut String) {
    let _ = writeln!(
        out,
        "Keys and values take {}; generating them alone takes {}. Costs of building and opening, \
         and memory while serving:\n",
        bytes(section.bytes),
        time(section.making.as_nanos() as f64)
    );
    head(
        out,
        1,
        &[
            "engine",
            "build",
            "CPU",
            "peak memory",
            "on disk",
            "relative to keys and values",
            "overhead, bytes per record",
            "open",
            "anonymous memory",
            "mapped",
        ],
    );
    let count = section.records.count as f64;
    for engine in &section.engines {
        let Some(disk) = engine.get("disk") else { continue };
        // The floor does not open what it built.
        let opened = |what: &str| engine.get(what).filter(|_| engine.name != "floor");
        let beyond = (disk - section.bytes as f64) / count;
        let cells = [
            engine.name.clone(),
            spread(engine, "build wall"),
            spread(engine, "build cpu"),
            or_dash(engine.get("build peak"), size),
            size(disk),
            format!("{:.3}", disk / section.bytes as f64),
            format!("{beyond:.1}"),
            or_dash(opened("open"), time),
            or_dash(opened("memory own"), size),
            or_dash(opened("memory mapped"), size),
        ];
        row(out, &cells);
    }
    out.push('\n');
}

/// A comparison: figure, words, format. Less is better.
type Measure = (&'static str, &'static str, fn(f64) -> String);

const MEASURES: [Measure; 19] = [
    ("present 1 cpu", "get of a present key, CPU", time),
    ("present p50", "get of a present key, median", time),
    ("present p99", "get of a present key, p99", time),
    ("present p999", "get of a present key, p99.9", time),
    ("present 2 cpu", "get of a present key, CPU with 2 threads", time),
    ("absent 1 cpu", "get of an absent key, CPU", time),
    ("absent p99", "get of an absent key, p99", time),
    ("absent 2 cpu", "get of an absent key, CPU with 2 threads", time),
    ("batch 1 cpu", "batch, CPU per key", time),
    ("read batch 1 cpu", "batch with full-read hint, CPU per key", time),
    ("handed 1 cpu", "get of a present key, first bytes read, CPU", time),
    ("handed 2 cpu", "get of a present key, first bytes read, CPU with 2 threads", time),
    ("handed batch 1 cpu", "batch, first bytes read, CPU per key", time),
    ("build wall", "build", time),
    ("build cpu", "build, CPU", time),
    ("build peak", "build, peak memory", size),
    ("disk", "on disk", size),
    ("open", "open", time),
    ("memory own", "anonymous memory while serving", size),
];

const LOSSES: &str = "\
Peers that are better than FirnDB with default options (`firndb`), and the form of FirnDB that is
better still, if there is one. Ratios are, as for targets, medians of the ratios of the passes.

";

/// The comparisons in which peers beat the plain form of FirnDB, and whether another form beats
/// them.
fn losses(report: &Report) -> Vec<Loss> {
    let lost = |section| MEASURES.into_iter().filter_map(move |measure| lost(section, measure));
    report.sections.iter().flat_map(lost).collect()
}

fn lost(section: &Section, (figure, words, show): Measure) -> Option<Loss> {
    let plain = section.engines.iter().find(|engine| engine.name == "firndb");
    let passes = plain.and_then(|engine| engine.by_pass(figure))?;
    // The ratio of an engine's figure to that of `firndb`, computed as for targets.
    let times = |engine: &Figures| median(&ratios(&passes, &engine.by_pass(figure)?));
    let describe = |engine: &Figures, times: f64| {
        let value = or_dash(engine.get(figure), show);
        format!("{} {value} ({times:.2} x)", engine.name)
    };
    let mut winners: Vec<(&Figures, f64)> =
        section.peers().filter_map(|peer| Some((peer, times(peer)?))).collect();
    winners.retain(|(_, times)| *times > 1.0);
    winners.sort_by(|a, b| b.1.total_cmp(&a.1));
    let &(_, most) = winners.first()?;
    let text: Vec<String> = winners.iter().map(|&(peer, times)| describe(peer, times)).collect();
    let others = section.engines.iter().filter(|e| is_ours(&e.name) && e.name != "firndb");
    let others = others.filter_map(|engine| Some((engine, times(engine)?)));
    let best = others.reduce(|a, b| if b.1 > a.1 { b } else { a });
    let best = best.filter(|(_, times)| *times > most);
    let best = best.map_or(String::new(), |(form, times)| format!("; {}", describe(form, times)));
    let line = format!(
        "{}, {words}: {}; firndb {}{best}.",
        section.records.workload.name(),
        text.join(", "),
        or_dash(median(&passes), show)
    );
    Some(Loss { peers: winners.iter().map(|(peer, _)| peer.name.clone()).collect(), line })
}

fn cold(report: &Report, out: &mut String) {
    let sections = report.sections.iter();
    let rows: Vec<(&Section, &Figures)> = sections
        .flat_map(|section| section.engines.iter().map(move |engine| (section, engine)))
        .filter(|(_, engine)| engine.get("cold 1 rate").is_some())
        .collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "## Past the page cache\n\n`firndb-direct` reads with O_DIRECT and caches nothing. It is \
         interleaved with `fio`, which reads 4 KiB at random offsets of the same file: one read at \
         a time, and 32 at a time through io_uring. Ratios are of the same pass. `get_many` takes \
         512 keys per call and keeps 32 reads in flight. The kernel counts *read per get*.\n"
    );
    head(
        out,
        1,
        &[
            "records",
            "get: median",
            "p99",
            "fio: median",
            "p99",
            "gets/s",
            "fio reads/s",
            "get_many, 32 reads in flight: keys/s",
            "fio, 32 in flight: reads/s",
            "relative to fio",
            "CPU per key",
            "read per get",
        ],
    );
    for (section, engine) in rows {
        let nanos = |what: &str| or_dash(engine.get(what), time);
        let rate = |what: &str| or_dash(engine.get(what), |rate| format!("{rate:.0}"));
        let reads = engine.by_pass("cold 32 rate").zip(engine.by_pass("fio 32 rate"));
        let share = reads.and_then(|(of, than)| median(&ratios(&of, &than)));
        let cells = [
            section.records.workload.name().to_string(),
            nanos("cold p50"),
            nanos("cold p99"),
            nanos("fio 1 p50"),
            nanos("fio 1 p99"),
            rate("cold 1 rate"),
            rate("fio 1 rate"),
            rate("cold 32 rate"),
            rate("fio 32 rate"),
            or_dash(share, |share| format!("{:.0} %", share * 100.0)),
            nanos("cold 32 cpu"),
            or_dash(engine.get("cold 1 read"), |read| format!("{:.3} x 4 KiB", read / 4096.0)),
        ];
        row(out, &cells);
    }
    out.push('\n');
}

fn versions(report: &Report, out: &mut String) {
    let _ = writeln!(out, "## Versions\n");
    let mut listed = Vec::new();
    let engines = report.sections.iter().flat_map(|section| &section.engines);
    for engine in engines.filter(|engine| is_peer(&engine.name) || is_ours(&engine.name)) {
        if !listed.contains(&&engine.name) {
            listed.push(&engine.name);
            let _ = writeln!(out, "- {}: {}", engine.name, engine.version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::{engine, records};
    use super::*;
    use firndb_bench_protocol::table::Workload;
    use std::time::Duration;

    #[test]
    fn peers_win_by_the_median_of_the_ratios_of_passes() {
        let wall = |passes| [("build wall", passes)];
        let of = |engines: Vec<Figures>| {
            let records = records(Workload::Small, 1000);
            let section = Section { records, bytes: 1, making: Duration::ZERO, engines };
            losses(&Report { sections: vec![section] })
        };
        let plain = || engine("firndb", &wall([100.0, 200.0, 400.0]));
        // Its median is smaller, but only because of one pass of three.
        let slower = || engine("cdb", &wall([110.0, 190.0, 410.0]));
        let found = of(vec![plain(), slower(), engine("floor", &wall([1.0; 3]))]);
        assert!(found.is_empty(), "{found:?}");
        // The reverse: twice, twice and half as fast.
        let faster = engine("lmdb", &wall([50.0, 400.0, 200.0]));
        let form = engine("firndb-tenth", &wall([25.0, 400.0, 100.0]));
        let found = of(vec![plain(), slower(), faster, form]);
        let line =
            "small, build: lmdb 200 ns (2.00 x); firndb 200 ns; firndb-tenth 100 ns (4.00 x).";
        assert_eq!((found.len(), &*found[0].line), (1, line));
        assert_eq!(found[0].peers, ["lmdb"]);
    }
}
