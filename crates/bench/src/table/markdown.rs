//! The page `docs/benchmarks-table.md`: every figure on it comes from one machine, except those of
//! BSDB's own program, which are marked.

use super::aims;
use super::report::{Figures, Report, Section, median, ratios};
use crate::machine;
use crate::units::{bytes, is_ours, is_peer, time};
use std::fmt::Write;
use std::path::Path;

const METHOD: &str = "\
Every engine, FirnDB included, is a child process that speaks the same few lines
(`peers/README.md`) and makes the same records from their numbers, so a build streams and its time
has the time of making the records in it. Keys are `k` and twelve hexadecimal digits of a bijection:
they come in random order. LMDB, redb and RocksDB want them sorted; they get them sorted, at the
price of sorting eight bytes a record. Values of `small` and `large` cannot be compressed.

Before anything is timed, each engine is opened anew, 20,000 whole values and 20,000 absent keys are
compared with the generator, singly and in batches, and then every record is got once and a fold of
all values is compared. The same once more when all are open, right before the turns, so every page
has been touched; gets by *CPU a get* that then read from the disk end the run. Every byte of a
value is read, but where it is said that the first eight are; by the same code of every engine, from
256 bytes on in vectors of 32 where the machine has such.

*CPU a get* is the time that threads spent on a CPU, divided by the gets, one after the other over
four million random keys: the processor may overlap a get with the next one. With two threads it is
the same sum, so what threads lose to each other shows in it; gets a second are by the wall clock.
Percentiles are of gets timed one by one, from one reading of the clock to the next, so they hold
the clock (about 20 ns) and no overlap.

Engines are open at the same time, as many as memory holds, in each pass the same, and measured in
turns: each kind of get of one engine after the other, a fraction of a second each, in several
rounds, there and back. All of that is done in three passes, with files built and opened anew, for
how the pages of a file lie differs from build to build. Turns of one pass mostly agree; passes may
not. So a figure of a pass is the median of its turns, and a figure of a table the median of the
passes; in brackets are the least and the most of all turns. Aims divide figures of the same pass,
and tell the median of the passes. A turn of percentiles ends after half a million gets, or four
times the time of other turns, and has its own percentiles. Turns of the disk, of FirnDB and of
`fio`, are three times longer, and with many reads at a time there are four times as many of them.
Of builds, openings and sizes there is one of each in a pass. `--json` has every measurement.

Builds come one after the other, in the order of the tables; of those that are measured together the
second pass begins with one after a third, the third after two thirds. The host of a virtual machine
may take back memory that is free, here what was free for two seconds, and give it again slowly,
page by page. So before each build as much memory as it may hold is filled and freed, in huge pages.
That lasts for about the first two seconds of a build; a longer one may have to wait again, if it
asks for huge pages: those are what the host takes.

`firndb`, `firndb-smallpages`, `firndb-resident` and `firndb-direct` build the same file: their
builds show how much the machine differs from minute to minute, and the aims of builds take the
median of the four. Only `phf` does not sync what it
built. *Own memory* is what no file backs; *mapped* is what the page cache could take back. The
files are read from the page cache as their builds left them there: those of FirnDB in huge pages,
which its writer makes possible by writing whole ones; read from the disk again they would be in
small ones. *Floor* is no engine: an array of slots and an array of records; its build writes the
records to a file, one after the other. `firndb-tenth` builds with memory for a tenth of the
records, from a file that it writes and reads again.

*What a get waits for.* A get of `firndb` in memory reads the directory (0.04 bytes a record: in the
outer caches as a rule), which names the block; then it needs the head of the block and the record,
in one page: three lines of a head of small records and one or two of the record. Of small records
it asks for twelve lines around the likely place with those of the head, and nine times in ten waits
for memory once ([0007](decisions/0007-a-place-names-one-block.md)), else twice.
cdb waits twice, for a slot of its hash table and then for the record, each in a page of its
own; so does `phf`. So does `firndb-resident`, for a line of its index and the record, and `firndb`
where records are large and the file has an index; the index is small beside such records and mostly
in the caches. Lines are what gets wait for that overlap.
";

const BSDB: &str = "\
## BSDB itself

`phf` above is BSDB's design without its JVM. BSDB's own program (0.1.3, JDK 11), measured by us on
another machine (2 cores of a Xeon at 2.5 GHz, 24 GB; not comparable with the tables above), with 20
million records of 13 + 32 bytes: build 115 CPU seconds; 1,141 MB on disk, 57.1 bytes a record; 1.41
us of CPU for a key that is there and 0.74 us for an absent one; two dependent reads a get from the
disk; 6.27 bits of memory a key for its hash function. A million JSON values of 988 bytes,
compressed: 22.5 us of CPU a get. Its README tells 558,000 gets a second for 13.2 billion records on
NVMe.

";

/// The page. `chart` is the drawing to show, in the directory of the page.
pub fn page(report: &Report, chart: Option<&Path>) -> String {
    let mut out = String::from("# Benchmarks of the Table\n\n");
    let _ = write!(
        out,
        "{}, on {}.\nRun it yourself: `cargo xtask bench table`.\n\n",
        machine::today(),
        machine::describe(),
    );
    if let Some(name) = chart.and_then(Path::file_name) {
        let _ = writeln!(out, "![CPU time of a get by engine]({})\n", name.to_string_lossy());
    }
    aims::table(report, &mut out);
    for section in &report.sections {
        gets(section, &mut out);
        against_peers(section, &mut out);
        costs(section, &mut out);
    }
    losses(report, &mut out);
    cold(report, &mut out);
    let _ = write!(out, "{BSDB}## Method\n\n{METHOD}\n");
    versions(report, &mut out);
    out
}

fn row(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

/// The header of a table: the first column is text, the others are numbers.
fn head(out: &mut String, cells: &[&str]) {
    let _ = writeln!(out, "| {} |\n|---|{}", cells.join(" | "), "---:|".repeat(cells.len() - 1));
}

fn or_dash<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or("-".into(), show)
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

fn gets(section: &Section, out: &mut String) {
    let records = section.records;
    let (name, text) = (records.workload.name(), records.workload.text());
    let _ = writeln!(out, "## {name}: {} records, {text}\n", records.count);
    head(
        out,
        &[
            "engine",
            "present: CPU a get",
            "2 threads",
            "median",
            "p99",
            "p99.9",
            "gets/s",
            "2 threads",
            "absent: CPU a get",
            "2 threads",
            "median",
            "p99",
            "batch of 64: CPU a key",
            "told that all is read: CPU a key",
            "first bytes of the value read: CPU a get",
            "2 threads",
            "first bytes, batch of 64: CPU a key",
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
        "How many times FirnDB's CPU time a peer takes, for a present key / an absent one:\n"
    );
    let names = ours.iter().map(|engine| engine.name.as_str());
    head(out, &["peer"].into_iter().chain(names).collect::<Vec<_>>());
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
        "The keys and values have {}; making them alone takes {}. Building, opening, and memory \
         while serving:\n",
        bytes(section.bytes),
        time(section.making.as_nanos() as f64)
    );
    head(
        out,
        &[
            "engine",
            "build",
            "CPU",
            "peak memory",
            "on disk",
            "of keys and values",
            "bytes a record beyond",
            "open",
            "own memory",
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
    ("present 1 cpu", "a present key, CPU", time),
    ("present p50", "a present key, median", time),
    ("present p99", "a present key, p99", time),
    ("present p999", "a present key, p99.9", time),
    ("present 2 cpu", "a present key, CPU with 2 threads", time),
    ("absent 1 cpu", "an absent key, CPU", time),
    ("absent p99", "an absent key, p99", time),
    ("absent 2 cpu", "an absent key, CPU with 2 threads", time),
    ("batch 1 cpu", "a key of a batch, CPU", time),
    ("read batch 1 cpu", "a key of a batch, told that all is read, CPU", time),
    ("handed 1 cpu", "a present key, first bytes of the value read, CPU", time),
    ("handed 2 cpu", "a present key, first bytes of the value read, CPU with 2 threads", time),
    ("handed batch 1 cpu", "a key of a batch, first bytes of the value read, CPU", time),
    ("build wall", "build", time),
    ("build cpu", "build, CPU", time),
    ("build peak", "build, peak memory", size),
    ("disk", "on disk", size),
    ("open", "open", time),
    ("memory own", "own memory while serving", size),
];

/// The peers that beat the plain form of FirnDB, and whether another form beats them.
fn losses(report: &Report, out: &mut String) {
    let _ = writeln!(
        out,
        "## Where a peer wins\n\nPeers that are better than FirnDB as it comes (`firndb`), and \
         whether another form of FirnDB is better still. In brackets, as of aims, the median of \
         the ratios of the passes.\n"
    );
    let mut none = true;
    for section in &report.sections {
        for measure in MEASURES {
            none &= !lost(section, measure, out);
        }
    }
    let _ = writeln!(out, "{}", if none { "Nowhere in this run.\n" } else { "" });
}

fn lost(section: &Section, (figure, words, show): Measure, out: &mut String) -> bool {
    let plain = section.engines.iter().find(|engine| engine.name == "firndb");
    let Some(passes) = plain.and_then(|engine| engine.by_pass(figure)) else { return false };
    // The ratio of an engine's figure to that of `firndb`, computed as for aims.
    let times = |engine: &Figures| median(&ratios(&passes, &engine.by_pass(figure)?));
    let describe = |engine: &Figures, times: f64| {
        let value = or_dash(engine.get(figure), show);
        format!("{} {value} ({times:.2} x)", engine.name)
    };
    let mut winners: Vec<(&Figures, f64)> =
        section.peers().filter_map(|peer| Some((peer, times(peer)?))).collect();
    winners.retain(|(_, times)| *times > 1.0);
    winners.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some(&(_, most)) = winners.first() else { return false };
    let text: Vec<String> = winners.iter().map(|&(peer, times)| describe(peer, times)).collect();
    let others = section.engines.iter().filter(|e| is_ours(&e.name) && e.name != "firndb");
    let others = others.filter_map(|engine| Some((engine, times(engine)?)));
    let best = others.reduce(|a, b| if b.1 > a.1 { b } else { a });
    let best = best.filter(|(_, times)| *times > most);
    let best = best.map_or(String::new(), |(form, times)| format!("; {}", describe(form, times)));
    let _ = writeln!(
        out,
        "- {}, {words}: {}; firndb {}{best}.",
        section.records.workload.name(),
        text.join(", "),
        or_dash(median(&passes), show)
    );
    true
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
        "## Past the page cache\n\n`firndb-direct` reads with O_DIRECT and keeps nothing. Beside \
         it `fio`, random reads of 4 KiB of the same file in turns of the same second: one at a \
         time, and 32 at a time through io_uring; their ratio is of the same pass. `get_many` \
         gets 512 keys a call, with 32 reads under way. *Read a get* is what the kernel counted.\n"
    );
    head(
        out,
        &[
            "records",
            "get: median",
            "p99",
            "fio: median",
            "p99",
            "gets/s",
            "fio reads/s",
            "get_many, 32 reads at a time: gets/s",
            "fio at 32: reads/s",
            "of fio",
            "CPU a get",
            "read a get",
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
            let mut page = String::new();
            losses(&Report { sections: vec![section] }, &mut page);
            page
        };
        let plain = || engine("firndb", &wall([100.0, 200.0, 400.0]));
        // Its median is smaller, but only because of one pass of three.
        let slower = || engine("cdb", &wall([110.0, 190.0, 410.0]));
        let page = of(vec![plain(), slower(), engine("floor", &wall([1.0; 3]))]);
        assert!(page.contains("Nowhere"), "{page}");
        // The reverse: twice, twice and half as fast.
        let faster = engine("lmdb", &wall([50.0, 400.0, 200.0]));
        let form = engine("firndb-tenth", &wall([25.0, 400.0, 100.0]));
        let page = of(vec![plain(), slower(), faster, form]);
        let row =
            "- small, build: lmdb 200 ns (2.00 x); firndb 200 ns; firndb-tenth 100 ns (4.00 x).";
        assert!(page.contains(row) && !page.contains("Nowhere"), "no {row} in {page}");
    }
}
