//! The page `docs/benchmarks-ordered.md`: every figure that this module prints comes from one
//! machine.

use super::Part;
use super::runner::{ORDERS, Report, Section};
use crate::bound::Bound::{self, AtLeast, AtMost};
use crate::machine;
use crate::page::{self, Loss, Tally, head, or_dash, row};
use crate::table::report::Figures;
use crate::units::{bytes, count, is_peer, time};
use firndb_bench_protocol::ordered::GROUP;
use std::fmt::Write;

const METHOD: &str = "\
Every engine, FirnDB included, is a child process that implements the same protocol
([peers/README.md](../peers/README.md)) and generates the same records from their numbers. Keys
have 16 bytes: eight that a hundred records share, and a number. Values have 100 bytes that do not
compress.

**Answers.** Before a time is printed, every engine scans all records forward and in reverse, and
the records of a thousand prefixes; count, order and every byte of keys and values are those of
the generator. Prefixes without records have none. The timed scans of all records are compared
again.

**Stores** are filled in random order, one put after another, without syncs; a put survives a
crash of the process. `firndb-unordered` is FirnDB without the order of keys: only its puts are
measured. Scans begin when the background work of the puts is done. Each sees all puts that
returned before it: RocksDB creates an iterator per scan, LMDB a read transaction.

**Tables** are built from sorted records and never change. LMDB is filled in the order of keys.
RocksDB's sorted files are ingested and opened read-only, mapped. Both keep an iterator or a
transaction from scan to scan.

**Scans.** A prefix scan reads 100 records of a random prefix, every byte of keys and values. It
is timed alone; the figures are those of single scans. All data are in memory. Rates of scans of
all records are records per second. Engines are interleaved; each figure is the median of all
measurements of all rounds, and in each round the stores and tables are new. *Disk* counts
allocated blocks, reserved space included. *Memory* is anonymous memory, minus that of the process
before the store was opened.
";

/// A kind of figure that engines are compared by.
struct Kind {
    figure: String,
    words: String,
    is_rate: bool,
    show: fn(f64) -> String,
}

fn kind(figure: &str, words: &str, is_rate: bool, show: fn(f64) -> String) -> Kind {
    Kind { figure: figure.into(), words: words.into(), is_rate, show }
}

fn rate(per_second: f64) -> String {
    format!("{:.0} k/s", per_second / 1e3)
}

fn size(value: f64) -> String {
    bytes(value as u64)
}

fn kinds(part: Part) -> Vec<Kind> {
    let mut kinds = match part {
        Part::Log => vec![
            kind("put rate", "puts in random order", true, rate),
            kind("put p50", "put, median", false, time),
            kind("put p999", "put, p99.9", false, time),
            kind("put cpu", "put, CPU", false, time),
            kind("close", "close", false, time),
        ],
        Part::Table => vec![
            kind("build wall", "build", false, time),
            kind("build cpu", "build, CPU", false, time),
        ],
    };
    for order in ORDERS {
        let name = |what: &str| format!("{what}, {order}");
        let prefix = |quantile: &str| format!("prefix {order} {quantile}");
        let words = name("100 records of a prefix");
        kinds.push(kind(&prefix("p50"), &format!("{words}, median"), false, time));
        kinds.push(kind(&prefix("p99"), &format!("{words}, p99"), false, time));
        kinds.push(kind(&format!("scan {order} rate"), &name("all records"), true, rate));
    }
    kinds.push(kind("disk", "disk", false, size));
    kinds.push(kind("memory", "memory", false, size));
    kinds
}

/// The page.
pub fn page(report: &Report) -> String {
    let (mut targets, mut tally) = (String::new(), Tally::default());
    head(&mut targets, 1, &["target", "bound", "measured", ""]);
    for section in &report.sections {
        self::targets(section, report.records.bytes() as f64, &mut targets, &mut tally);
    }
    let losses: Vec<Loss> = report.sections.iter().flat_map(losses).collect();
    let mut out = format!(
        "# Benchmarks: ranges of keys\n\n{}\n\n{} records of 16 + 100 bytes, {} of keys and \
         values. Measured on {} on {}. To run it: `cargo xtask bench ordered`.\n\n## Targets\n\n\
         {targets}\n",
        page::summary(tally, &losses),
        count(report.records.count()),
        bytes(report.records.bytes()),
        machine::today(),
        machine::describe()
    );
    for section in &report.sections {
        let title = match section.part {
            Part::Log => "Stores",
            Part::Table => "Tables",
        };
        let _ = write!(out, "## {title}\n\n");
        figures(section, &mut out);
    }
    page::losses(&losses, "", &mut out);
    let _ = write!(out, "## Method\n\n{METHOD}\n## Versions\n\n");
    for section in &report.sections {
        for engine in &section.engines {
            let _ = writeln!(out, "- {}: {}: {}", section.part.name(), engine.name, engine.version);
        }
    }
    out
}

fn find<'a>(section: &'a Section, name: &str) -> Option<&'a Figures> {
    section.engines.iter().find(|engine| engine.name == name)
}

/// A row per bound that the figures cover.
fn targets(section: &Section, records: f64, out: &mut String, tally: &mut Tally) {
    let ours = find(section, "firndb");
    let ratio =
        |figure: &str, other: &str| Some(ours?.get(figure)? / find(section, other)?.get(figure)?);
    let prefix = format!("time of a scan of {GROUP} records by prefix, relative to rocksdb");
    let mut rows: Vec<(&str, Bound, Option<f64>)> = vec![
        (&prefix, AtMost(3.0), ratio("prefix forward p50", "rocksdb")),
        (
            "rate of a scan of all records, relative to rocksdb",
            AtLeast(0.5),
            ratio("scan forward rate", "rocksdb"),
        ),
        (
            "disk, relative to keys and values",
            AtMost(1.3),
            ours.and_then(|engine| Some(engine.get("disk")? / records)),
        ),
    ];
    if section.part == Part::Log {
        let puts = ratio("put rate", "firndb-unordered");
        rows.push(("rate of puts, relative to an unordered store", AtLeast(0.7), puts));
    }
    for (what, bound, measured) in rows {
        let Some(measured) = measured else { continue };
        tally.add(bound.holds(measured));
        let (part, verdict) = (section.part.name(), bound.verdict(measured));
        let bound = bound.text();
        let _ = writeln!(out, "| {part}: {what} | {bound} | {measured:.2} | {verdict} |");
    }
}

fn figures(section: &Section, out: &mut String) {
    let names = section.engines.iter().map(|engine| engine.name.as_str());
    let cells: Vec<&str> = std::iter::once("").chain(names).collect();
    head(out, 1, &cells);
    for kind in kinds(section.part) {
        let values = section.engines.iter().map(|engine| engine.get(&kind.figure));
        let values = values.map(|value| or_dash(value, kind.show));
        let cells: Vec<String> = std::iter::once(kind.words.clone()).chain(values).collect();
        row(out, &cells);
    }
    out.push('\n');
}

/// The comparisons that peers win.
fn losses(section: &Section) -> Vec<Loss> {
    let Some(ours) = find(section, "firndb") else { return Vec::new() };
    let loss = |kind: Kind| {
        let mine = ours.get(&kind.figure)?;
        let (mut peers, mut shown) = (Vec::new(), Vec::new());
        for peer in section.engines.iter().filter(|engine| is_peer(&engine.name)) {
            let Some(theirs) = peer.get(&kind.figure) else { continue };
            if if kind.is_rate { theirs > mine } else { theirs < mine } {
                peers.push(peer.name.clone());
                shown.push(format!("{} {}", peer.name, (kind.show)(theirs)));
            }
        }
        let (part, ours) = (section.part.name(), (kind.show)(mine));
        let line = format!("{part}, {}: {}; firndb {ours}.", kind.words, shown.join(", "));
        (!peers.is_empty()).then_some(Loss { peers, line })
    };
    kinds(section.part).into_iter().filter_map(loss).collect()
}
