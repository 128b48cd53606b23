//! The page `docs/benchmarks-log.md`: every figure on it comes from one machine.

use super::runner::Section;
use super::{aims, cold};
use crate::chart::Group;
use crate::machine;
use crate::table::report::Figures;
use crate::units::{bytes, is_ours, is_peer, time};
use std::fmt::Write;
use std::path::Path;

const METHOD: &str = "\
Every engine, FirnDB included, is a child process that speaks the same few lines (`peers/README.md`)
and makes the same records from their numbers. Keys are 8 bytes, values 100, 1000 or 10,000 bytes
that cannot be compressed. A store is filled in random order, one put after the other, without a
sync; then every value and as many absent keys are compared with the generator, and only then
anything else is measured. After the updates, and again after the store was closed and opened, every
value is compared again. Gets read every byte of the value, and it must belong to the key.

A put is one call that is visible when it returns, and that the operating system has: the death of
the process does not lose it. LMDB and redb take a transaction for each. redb cannot give the
process's death without a sync, so it does not. Nor does Kyoto Cabinet promise anything about what
is whole after it, or a mapped LMDB after a power cut; FirnDB, RocksDB, fjall and redb find their
last whole state.

Puts and updates a second are of the time within the calls, each timed with two readings of the
clock (about 40 ns, which count). *CPU* is of the whole process with its background threads, less
what making the values costs. All engines of a run get in turns, over some rounds, since the
machine's memory is not as fast in one minute as in the next; the median round of each figure
counts, of the longest times the longest. Gets a second are of runs whose gets are not timed one by
one; their percentiles are of a run of its own, from one reading of the clock to the next. *Gets
while one thread updates* are timed one by one, in turns with gets by one thread alone, which come
when what was updated has reached the disk, and a second later. LMDB gets in one read transaction
while nothing changes, and in one for each get while another thread updates. Engines that are slow
fill and update for a limited time only; the rest is then loaded as they like best.

*Disk* is what files really take, with space that is reserved. FirnDB compacts a segment when half
of it is stale, its default: so it may take 1 / (1 - 0.5) = 2 times its live records, and two
segments, each a 192nd of them; updates at random keep it there. *Memory* is what no file backs,
less what the process had before the store was opened. *Dirty* is what the kernel counts as made
dirty in files, for each byte of keys and values updated: it counts pages of 4 KiB, and a page once
for each time it has gone to the disk. *Written, steady* is what the engine says it wrote (its log,
what compaction moved or merged, and its indexes) for each byte of keys and values, in updates that
came after as many others: FirnDB by its statistics, RocksDB by its property `rocksdb.stats`.

The workload `growing` is that of the engine YDB: values of 134 bytes, of which random ones are read
and put again with four bytes more, by one thread, up to nine times each on average. Gets and puts
are timed apart; their CPU stands at the put; each get is compared. YDB itself is not in the run,
only the stores that it was compared with. All engines are at the durability of the other workloads:
the operating system has what was put. For Berkeley DB that means transactions whose log is written
and not synced, and a checkpoint every 256 MiB of it; Tokyo Cabinet, as Kyoto Cabinet, has its file
mapped and promises nothing of its wholeness.

*Gets with nothing in the page cache*: the store is closed, written out and dropped from the page
cache, opened, and got from for as long as in other rounds; keys may come twice. `fio` reads 4 KiB
at random places of the same segments with O_DIRECT and as many threads right before. Of seven such
turns the median of each counts.
*Read a get* is what the kernel read from the disk for the process, less where a key or its page
came before; *pages* are those reads, of 4 KiB each, and what is compared with `fio`.
";

/// The page. `chart` is the drawing to show, in the directory of the page.
pub fn page(sections: &[Section], chart: Option<&Path>) -> String {
    let mut out = String::from("# Benchmarks of the LogStore\n\n");
    let (today, machine) = (machine::today(), machine::describe());
    let _ = write!(out, "{today}, on {machine}.\nRun it yourself: `cargo xtask bench log`.\n\n");
    if let Some(name) = chart.and_then(Path::file_name) {
        let _ = writeln!(out, "![CPU time by engine]({})\n", name.to_string_lossy());
    }
    aims::table(sections, &mut out);
    for section in sections {
        let (records, name) = (section.records, section.records.workload.name());
        let length = records.workload.value_bytes();
        let _ = writeln!(out, "## {name}: {} records of {length} bytes\n", records.count);
        operations(section, &mut out);
        costs(section, &mut out);
        cold_gets(section, &mut out);
    }
    losses(sections, &mut out);
    let _ = write!(out, "## Method\n\n{METHOD}\n## Versions\n\n");
    let mut named: Vec<&str> = Vec::new();
    for engine in sections.iter().flat_map(|section| &section.engines) {
        if !named.contains(&engine.name.as_str()) {
            named.push(&engine.name);
            let _ = writeln!(out, "- {}: {}", engine.name, engine.version);
        }
    }
    out
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

fn row(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

/// The header of a table: the first two columns are text, the others are numbers.
fn head(out: &mut String, cells: &[&str]) {
    let _ =
        writeln!(out, "| {} |\n|---|---|{}", cells.join(" | "), "---:|".repeat(cells.len() - 2));
}

fn or_dash(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or("-".into(), show)
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
    ("quiet", "get, after the updates"),
    ("both get", "get while one thread updates"),
    ("both put", "that thread's updates"),
];

fn operations(section: &Section, out: &mut String) {
    head(out, &["operation", "engine", "a second", "CPU", "median", "p99", "p99.9", "max"]);
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
        "The keys and values have {}. After filling, and after the updates:\n",
        bytes(records.bytes())
    );
    head(
        out,
        &[
            "engine",
            "updates",
            "disk / records",
            "after updates",
            "memory a key",
            "after updates",
            "dirty, updates",
            "written, steady",
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
    let bytes = engine.get("steady told")? - engine.get("update told")?;
    Some(bytes / engine.get("steady count")? / record)
}

/// Reads per second of the disk, and the share of them that gets achieve.
fn cold_gets(section: &Section, out: &mut String) {
    for engine in section.engines.iter().filter(|engine| engine.get("cold 1 rate").is_some()) {
        let _ = writeln!(out, "Gets of {} with nothing in the page cache:\n", engine.name);
        head(out, &["threads", "", "gets/s", "pages/s", "fio, pages/s", "ratio", "read a get"]);
        for threads in cold::THREADS {
            let get = |what: &str| engine.get(&format!("{what} {threads} rate"));
            let each = engine.get(&format!("cold {threads} read"));
            let cells = [
                threads.to_string(),
                String::new(),
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

/// Figures besides the operations' times, of which less is better.
const MORE: [(&str, &str, Show); 5] = [
    ("fill disk", "disk after filling", size),
    ("update disk", "disk after updates", size),
    ("fill memory", "memory after filling", size),
    ("close", "close", time),
    ("open", "reopen", time),
];

fn size(value: f64) -> String {
    bytes(value as u64)
}

fn losses(sections: &[Section], out: &mut String) {
    let _ = writeln!(out, "## Where a peer wins\n");
    for section in sections {
        for (figure, words) in OPERATIONS {
            for (what, unit) in
                [("rate", ""), ("cpu", ", CPU"), ("p99", ", p99"), ("p999", ", p99.9")]
            {
                let show = if what == "rate" { rate } else { time };
                let words = format!("{words}{unit}");
                lost(section, &format!("{figure} {what}"), &words, show, out);
            }
        }
        for (figure, words, show) in MORE {
            lost(section, figure, words, show, out);
        }
    }
    out.push('\n');
}

fn rate(value: f64) -> String {
    format!("{:.0} k/s", value / 1e3)
}

/// Adds a line if a peer is better than FirnDB; larger rates are better.
fn lost(section: &Section, figure: &str, words: &str, show: fn(f64) -> String, out: &mut String) {
    let is_rate = figure.ends_with("rate");
    let ours = section.engines.iter().find(|engine| is_ours(&engine.name));
    let Some(ours) = ours.and_then(|engine| engine.get(figure)) else { return };
    let peers = section.engines.iter().filter(|engine| is_peer(&engine.name));
    let better: Vec<String> = peers
        .filter_map(|peer| Some((peer, peer.get(figure)?)))
        .filter(|(_, value)| if is_rate { *value > ours } else { *value < ours })
        .map(|(peer, value)| format!("{} {}", peer.name, show(value)))
        .collect();
    if !better.is_empty() {
        let name = section.records.workload.name();
        let (better, ours) = (better.join(", "), show(ours));
        let _ = writeln!(out, "- {name}, {words}: {better}; firndb {ours}.");
    }
}
