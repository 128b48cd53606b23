//! The page `docs/benchmarks-log.md`: every figure that this module prints comes from one machine.

use super::runner::Section;
use super::{cold, targets};
use crate::chart::Group;
use crate::machine;
use crate::page::{self, Loss, head, or_dash, row};
use crate::table::report::Figures;
use crate::units::{bytes, is_ours, is_peer, time};
use std::fmt::Write;
use std::path::Path;

const METHOD: &str = "\
Every engine, FirnDB included, is a child process that implements the same protocol
([peers/README.md](../peers/README.md)) and generates the same records from their numbers. Keys have
8 bytes, values 100, 1000 or 10,000 bytes that do not compress. A store is filled in random order,
one put after another, without syncs. Then every value and as many absent keys are compared with the
generator, before anything else is measured. All values are compared again after the updates, and
once more after the store was closed and reopened. A get reads every byte of the value and checks
that it belongs to the key.

**Durability.** A put is one call. When it returns, the record is visible and handed to the
operating system, so it survives a process crash. LMDB and redb use one transaction per put. redb
cannot survive a process crash without a sync, so here it does not. Kyoto Cabinet promises nothing
about the state of its file after a process crash, nor does a mapped LMDB after power loss; FirnDB,
RocksDB, fjall and redb recover their last consistent state.

**Puts and gets.** Rates of puts and updates are calls divided by the time within the calls, each
timed with two readings of the clock (about 40 ns, which are included). *CPU* is that of the whole
process with its background threads, minus the cost of generating the values. Gets of all engines
are interleaved over several rounds, because the speed of the machine's memory varies from minute to
minute; each figure is the median of the rounds, each maximum the maximum. Rates of gets come from
runs in which gets are not timed one by one; their percentiles come from separate runs, from one
reading of the clock to the next. *Gets during updates* are timed one by one and alternate with gets
by one thread alone (*gets after the updates*), which start one second after the updates have been
written back to disk. LMDB reads in one transaction while nothing changes, and in one transaction
per get while another thread updates. Slow engines fill and update for a limited time only; the
remaining records are then loaded in bulk.

**Space.** *Disk* counts allocated blocks, reserved space included. FirnDB compacts a segment when
half of it is stale, its default. It may thus use 1 / (1 - 0.5) = 2 times the bytes of its live
records, plus two segments of a 192nd of them each; random updates keep it near that. *Memory* is
anonymous memory, minus that of the process before the store was opened. *Dirtied by updates* counts
the file pages of 4 KiB that the kernel marks dirty, per byte of keys and values updated; a page
that is written again after writeback counts again. *Written in steady state* is what the engine
reports to have written (its log, compaction and indexes), per byte of keys and values, during
updates that follow as many other updates: FirnDB through its statistics, RocksDB through its
property `rocksdb.stats`.

**Growing values.** The workload `growing` is that of the engine YDB: random values of 134 bytes are
read and put again with four bytes appended, by one thread, up to nine times each on average. Gets
and puts are timed separately, and the row of the put has the CPU of both; each get is compared. YDB
itself does not take part, only the stores that it was compared with. Durability is that of the
other workloads. For Berkeley DB this means transactions whose log is written but not synced, with a
checkpoint every 256 MiB of log. Tokyo Cabinet, like Kyoto Cabinet, maps its file and promises
nothing about its consistency after a crash.

**Gets from disk.** The store is closed, written back, evicted from the page cache and reopened;
then random keys are read for as long as in other rounds. A key may occur twice. Right before, `fio`
reads 4 KiB at random offsets of the same segments with O_DIRECT and as many threads. Each figure is
the median of seven such rounds. *Read per get* is what the kernel read from disk for the process;
it is smaller than a page where a key or its page occurred before. *Pages* are these reads in units
of 4 KiB, which are compared with `fio`.
";

/// The page. `chart` is the drawing to show, in the directory of the page.
pub fn page(sections: &[Section], chart: Option<&Path>) -> String {
    let mut targets = String::new();
    let tally = targets::table(sections, &mut targets);
    let losses = losses(sections);
    let mut out = String::from("# Benchmarks: log stores\n\n");
    let _ = write!(
        out,
        "{}\n\nMeasured on {} on {}. To run it: `cargo xtask bench log`.\n\n",
        page::summary(tally, &losses),
        machine::today(),
        machine::describe()
    );
    if let Some(name) = chart.and_then(Path::file_name) {
        let _ = writeln!(out, "![CPU time by engine]({})\n", name.to_string_lossy());
    }
    out.push_str(&targets);
    medians(sections, &mut out);
    page::losses(&losses, "", &mut out);
    let _ = write!(out, "## Method\n\n{METHOD}\n");
    for section in sections {
        let (records, name) = (section.records, section.records.workload.name());
        let length = records.workload.value_bytes();
        let _ = writeln!(out, "## {name}: {} records of {length} bytes\n", records.count);
        operations(section, &mut out);
        costs(section, &mut out);
        cold_gets(section, &mut out);
    }
    let _ = write!(out, "## Versions\n\n");
    for engine in distinct(sections) {
        let _ = writeln!(out, "- {}: {}", engine.name, engine.version);
    }
    out
}

/// The engines of all sections, each name once.
fn distinct(sections: &[Section]) -> Vec<&Figures> {
    let mut engines: Vec<&Figures> = Vec::new();
    for engine in sections.iter().flat_map(|section| &section.engines) {
        if !engines.iter().any(|known| known.name == engine.name) {
            engines.push(engine);
        }
    }
    engines
}

/// CPU times as bars.
pub fn chart(sections: &[Section]) -> Vec<Group> {
    let mut groups = Vec::new();
    for section in sections {
        for (figure, words) in
            [("fill", "fill"), ("update", "update"), ("present", "get"), ("absent", "absent")]
        {
            let bar = |engine: &Figures| {
                Some((engine.name.clone(), engine.get(&format!("{figure} cpu"))?))
            };
            let title = format!("{} {words}", section.records.workload.name());
            groups.push(Group { title, bars: section.engines.iter().filter_map(bar).collect() });
        }
    }
    groups
}

const OPERATIONS: [(&str, &str); 11] = [
    ("fill", "put, random order"),
    ("update", "update"),
    ("grow get", "get before a value grows"),
    ("grow put", "put of a value that grew"),
    ("present", "get"),
    ("present 2", "get, 2 threads"),
    ("absent", "get of an absent key"),
    ("absent 2", "get of an absent key, 2 threads"),
    ("quiet", "get after the updates"),
    ("both get", "get during updates"),
    ("both put", "update during gets"),
];

/// The median times of operations that are timed one by one.
fn medians(sections: &[Section], out: &mut String) {
    let _ = writeln!(out, "## Medians\n\nMedian times of calls timed one by one.\n");
    let names: Vec<&str> = distinct(sections).iter().map(|engine| &*engine.name).collect();
    head(out, 1, &[&["operation"], &names[..]].concat());
    for section in sections {
        for (figure, words) in OPERATIONS {
            let median = |name: &&str| {
                let engine = section.engines.iter().find(|engine| engine.name == **name)?;
                engine.get(&format!("{figure} p50"))
            };
            if names.iter().all(|name| median(name).is_none()) {
                continue;
            }
            let title = format!("{}: {words}", section.records.workload.name());
            let cells = names.iter().map(|name| or_dash(median(name), time)).collect();
            row(out, &[vec![title], cells].concat());
        }
    }
    out.push('\n');
}

fn operations(section: &Section, out: &mut String) {
    head(out, 2, &["operation", "engine", "per second", "CPU", "median", "p99", "p99.9", "max"]);
    for (figure, words) in OPERATIONS {
        let has_it = |engine: &&Figures| engine.get(&format!("{figure} rate")).is_some();
        for engine in section.engines.iter().filter(has_it) {
            let get = |what: &str| engine.get(&format!("{figure} {what}"));
            let nanos = |what: &str| or_dash(get(what), time);
            let rate = or_dash(get("rate"), |rate| format!("{:.0} k", rate / 1e3));
            let mut cells = vec![words.to_string(), engine.name.clone(), rate];
            cells.extend(["cpu", "p50", "p99", "p999", "max"].map(nanos));
            row(out, &cells);
        }
    }
    out.push('\n');
}

fn costs(section: &Section, out: &mut String) {
    let records = section.records;
    let total = records.bytes() as f64;
    let record = total / records.count as f64;
    let _ = writeln!(
        out,
        "Keys and values take {}. After filling, and after the updates:\n",
        bytes(records.bytes())
    );
    head(
        out,
        1,
        &[
            "engine",
            "updates",
            "disk / records",
            "after updates",
            "memory per key",
            "after updates",
            "dirtied by updates",
            "written in steady state",
            "close",
            "reopen",
        ],
    );
    for engine in &section.engines {
        let ratio = |what: &str| or_dash(engine.get(what), |disk| format!("{:.3}", disk / total));
        let key = |what: &str| {
            or_dash(engine.get(what), |own| format!("{:.1} B", own / records.count as f64))
        };
        let cells = [
            engine.name.clone(),
            or_dash(engine.get("update count"), |count| format!("{count:.0}")),
            ratio("fill disk"),
            ratio("update disk"),
            key("fill memory"),
            key("update memory"),
            or_dash(engine.get("update dirty"), |dirty| format!("{:.2}", dirty / record)),
            or_dash(steady_writes(engine, record), |ratio| format!("{ratio:.2}")),
            or_dash(engine.get("close"), time),
            or_dash(engine.get("open"), time),
        ];
        row(out, &cells);
    }
    out.push('\n');
}

/// Bytes written per byte of keys and values once compaction is in its steady state, as counted by
/// the engine.
pub(super) fn steady_writes(engine: &Figures, record: f64) -> Option<f64> {
    let bytes = engine.get("steady written")? - engine.get("update written")?;
    Some(bytes / engine.get("steady count")? / record)
}

/// Reads per second of the disk, and the share of them that gets achieve.
fn cold_gets(section: &Section, out: &mut String) {
    for engine in section.engines.iter().filter(|engine| engine.get("cold 1 rate").is_some()) {
        let _ = writeln!(out, "Gets of {} from disk, with an empty page cache:\n", engine.name);
        let columns = ["threads", "gets/s", "pages/s", "fio, pages/s", "ratio", "read per get"];
        head(out, 1, &columns);
        for threads in cold::THREADS {
            let get = |what: &str| engine.get(&format!("{what} {threads} rate"));
            let each = engine.get(&format!("cold {threads} read"));
            let cells = [
                threads.to_string(),
                or_dash(get("cold"), |rate| format!("{rate:.0}")),
                or_dash(cold::pages(engine, threads), |pages| format!("{pages:.0}")),
                or_dash(get("fio"), |disk| format!("{disk:.0}")),
                or_dash(cold::share(engine, threads), |ratio| format!("{ratio:.2}")),
                or_dash(each, |read| bytes(read as u64)),
            ];
            row(out, &cells);
        }
        out.push('\n');
    }
}

/// Words for a figure.
type Show = fn(f64) -> String;

/// Figures other than times of operations; smaller values are better.
const MORE: [(&str, &str, Show); 5] = [
    ("fill disk", "disk usage after filling", size),
    ("update disk", "disk usage after updates", size),
    ("fill memory", "memory after filling", size),
    ("close", "close", time),
    ("open", "reopen", time),
];

fn size(value: f64) -> String {
    bytes(value as u64)
}

/// The comparisons in which peers are better than FirnDB.
fn losses(sections: &[Section]) -> Vec<Loss> {
    let mut losses = Vec::new();
    for section in sections {
        for (figure, words) in OPERATIONS {
            for (what, unit) in [
                ("rate", ""),
                ("cpu", ", CPU"),
                ("p50", ", median"),
                ("p99", ", p99"),
                ("p999", ", p99.9"),
            ] {
                let show = if what == "rate" { rate } else { time };
                let words = format!("{words}{unit}");
                losses.extend(lost(section, &format!("{figure} {what}"), &words, show));
            }
        }
        for (figure, words, show) in MORE {
            losses.extend(lost(section, figure, words, show));
        }
    }
    losses
}

fn rate(value: f64) -> String {
    format!("{:.0} k/s", value / 1e3)
}

/// The comparison of a figure, if a peer is better than FirnDB; larger rates are better.
fn lost(section: &Section, figure: &str, words: &str, show: Show) -> Option<Loss> {
    let is_rate = figure.ends_with("rate");
    let ours = section.engines.iter().find(|engine| is_ours(&engine.name))?.get(figure)?;
    let better: Vec<(&Figures, f64)> = section
        .engines
        .iter()
        .filter(|engine| is_peer(&engine.name))
        .filter_map(|peer| Some((peer, peer.get(figure)?)))
        .filter(|(_, value)| if is_rate { *value > ours } else { *value < ours })
        .collect();
    if better.is_empty() {
        return None;
    }
    let figures: Vec<String> =
        better.iter().map(|(peer, value)| format!("{} {}", peer.name, show(*value))).collect();
    let (name, ours) = (section.records.workload.name(), show(ours));
    Some(Loss {
        peers: better.iter().map(|(peer, _)| peer.name.clone()).collect(),
        line: format!("{name}, {words}: {}; firndb {ours}.", figures.join(", ")),
    })
}
