//! The page `docs/benchmarks.md`: every figure on it comes from one run.

use super::aims;
use super::report::{EngineReport, Report};
use crate::machine;
use crate::units::{bytes, is_ours, is_peer, time};
use firndb_bench_protocol::search::{Kind, Workload};
use std::fmt::Write;
use std::path::Path;

const METHOD: &str = "\
Every engine, FirnDB included, is a child process that reads the same rows and the same queries and
speaks the same few lines (`peers/README.md`). Before any time is told, the answers of all engines
to every query are compared: counts, ids of the hits in order, sort keys, and sums of the payload
bytes; a sample is compared with brute force too.

Queries are prepared before the clock starts and then timed one by one on one thread, from the
parameters to the ids of the hits (and for Q2 their payloads); Q1, Q5 and A, which some engines
answer faster than the clock can be read, are timed over 16 runs of the same query. Engines take
turns, kind by kind, over several rounds; everything is in the page cache. Engines that are too
slow to answer all queries in their time answer the first ones; the column *queries* tells. *Floor*
is no engine: bare arrays written by hand for each kind of query, held in memory.

Peers are set up as `peers/README.md` tells. None of them compresses payloads but DuckDB, and the
bytes beyond payloads are all others that an engine has on disk. Lucene runs on a Java machine that
has no `jdk.incubator.vector`, so without SIMD for postings; its query cache is off, and it warms up
for three seconds with each kind first, for its code is compiled as it runs.

Figures are of a reader that has been asked for a while: FirnDB then has merged runs of small
partitions in memory (`Reader::with_bundle_limit`).
";

/// The page. `chart` is the drawing to show, in the directory of the page.
pub fn page(report: &Report, chart: Option<&Path>) -> String {
    let mut out = String::from("# Benchmarks\n\n");
    let (size, rounds) = (report.size, report.rounds);
    let _ = write!(
        out,
        "{}, on {}. {size} documents, {} queries of each kind, {rounds} rounds.\n\
         Run it yourself: `cargo xtask bench search`.\n\n",
        machine::today(),
        machine::describe(),
        report.per_kind
    );
    if let Some(name) = chart.and_then(Path::file_name) {
        let _ = writeln!(out, "![Median times by engine]({})\n", name.to_string_lossy());
    }
    aims::table(report, &mut out);
    summary(report, &mut out);
    losses(report, &mut out);
    let _ = write!(out, "## Method\n\n{METHOD}\n## Times\n\n");
    Kind::ALL.iter().for_each(|&kind| times(report, kind, &mut out));
    for workload in Workload::ALL {
        engines(report, workload, &mut out);
    }
    extras(report, &mut out);
    versions(report, &mut out);
    out
}

fn summary(report: &Report, out: &mut String) {
    let names = report.names();
    let _ = writeln!(out, "## Medians\n\n| query | {} |", names.join(" | "));
    let _ = writeln!(out, "|---|{}", "---:|".repeat(names.len()));
    for kind in Kind::ALL {
        let cell = |name: &&str| report.get(kind, name).map_or("-".into(), |f| time(f.median()));
        let cells: Vec<String> = names.iter().map(cell).collect();
        let _ = writeln!(out, "| {kind} | {} |", cells.join(" | "));
    }
    out.push('\n');
    for kind in Kind::ALL {
        let _ = writeln!(out, "- {kind}: {}", kind.text());
    }
    out.push('\n');
    for name in names.into_iter().filter(|name| is_ours(name)) {
        if let Some(ratio) = report.mean_ratio(name) {
            let _ = writeln!(
                out,
                "The best peer takes {ratio:.2} times as long as `{name}` (geometric mean of the \
                 medians over all kinds).\n"
            );
        }
    }
}

/// Where a peer is faster than FirnDB.
fn losses(report: &Report, out: &mut String) {
    let _ = writeln!(out, "## Where a peer wins\n");
    let mut none = true;
    for kind in Kind::ALL {
        for name in report.names().into_iter().filter(|name| is_ours(name)) {
            let (Some(ratio), Some((peer, _))) = (report.ratio(kind, name), report.best_peer(kind))
            else {
                continue;
            };
            if ratio < 1.0 {
                none = false;
                let _ = writeln!(
                    out,
                    "- {kind}: {peer} is {:.1} times faster than {name}.",
                    1.0 / ratio
                );
            }
        }
    }
    for workload in Workload::ALL {
        cheaper(report, workload, "disk", |engine| (engine.built.disk, bytes), out, &mut none);
        let beyond = |engine: &EngineReport| -> Cost {
            (report.beyond_payload(engine).unwrap_or(u64::MAX), bytes)
        };
        cheaper(report, workload, "beyond payload", beyond, out, &mut none);
        let build =
            |engine: &EngineReport| -> Cost { (engine.built.wall.as_nanos() as u64, show_time) };
        cheaper(report, workload, "build time", build, out, &mut none);
        let open =
            |engine: &EngineReport| -> Cost { (engine.open_time.as_nanos() as u64, show_time) };
        cheaper(report, workload, "time to open", open, out, &mut none);
    }
    let _ = writeln!(out, "{}", if none { "Nowhere in this run.\n" } else { "" });
}

/// A cost and how to show it.
type Cost = (u64, fn(u64) -> String);

/// Peers that cost less than every form of FirnDB.
fn cheaper(
    report: &Report,
    workload: Workload,
    what: &str,
    cost: impl Fn(&EngineReport) -> Cost,
    out: &mut String,
    none: &mut bool,
) {
    let here = || report.engines.iter().filter(|engine| engine.workload == workload);
    let ours = here().filter(|engine| is_ours(&engine.name)).min_by_key(|e| cost(e).0);
    let Some(ours) = ours else { return };
    let (least, show) = cost(ours);
    for peer in here().filter(|e| is_peer(&e.name) && cost(e).0 < least) {
        *none = false;
        let (theirs, mine) = (show(cost(peer).0), show(least));
        let (peer, name, set) = (&peer.name, &ours.name, workload.name());
        let _ = writeln!(out, "- {set}, {what}: {peer} takes {theirs}, {name} {mine}.");
    }
}

fn show_time(nanos: u64) -> String {
    time(nanos as f64)
}

fn times(report: &Report, kind: Kind, out: &mut String) {
    let _ = writeln!(out, "### {kind}: {}\n", kind.text());
    let _ = writeln!(
        out,
        "| engine | median | p99 | max | queries | allocations | times the best peer |"
    );
    let _ = writeln!(out, "|---|---:|---:|---:|---:|---:|---:|");
    for name in report.names() {
        let Some(f) = report.get(kind, name) else { continue };
        let ratio = report.ratio(kind, name).filter(|_| is_ours(name));
        let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let counted = if is_ours(name) { format!("{:.1}", f.allocations) } else { String::new() };
        let (median, p99) = (time(f.median()), time(f.quantile(0.99)));
        let (max, n) = (time(f.quantile(1.0)), f.queries);
        let _ = writeln!(out, "| {name} | {median} | {p99} | {max} | {n} | {counted} | {ratio} |");
    }
    out.push('\n');
}

fn engines(report: &Report, workload: Workload, out: &mut String) {
    let _ = writeln!(out, "## Building and opening: {}\n", workload.name());
    let _ = writeln!(
        out,
        "| engine | build | CPU | peak memory | on disk | beyond payload | open again | \
         memory after open | a partition |"
    );
    let _ = writeln!(out, "|---|{}", "---:|".repeat(8));
    for engine in report.engines.iter().filter(|e| e.workload == workload && e.name != "floor") {
        let built = engine.built;
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            engine.name,
            time(built.wall.as_nanos() as f64),
            time(built.cpu.as_nanos() as f64),
            bytes(built.peak_memory),
            bytes(built.disk),
            report.beyond_payload(engine).map_or("-".into(), bytes),
            time(engine.open_time.as_nanos() as f64),
            bytes(engine.open_memory),
            engine.memory_per_partition().map_or("".into(), bytes)
        );
    }
    out.push('\n');
}

fn extras(report: &Report, out: &mut String) {
    for (engine, (name, nanos)) in report.extras() {
        let (workload, time) = (engine.workload.name(), time(*nanos));
        let _ = writeln!(out, "- {workload}, {}: {name}: {time}", engine.name);
    }
    out.push('\n');
}

fn versions(report: &Report, out: &mut String) {
    let _ = writeln!(out, "## Versions\n");
    let mut listed = Vec::new();
    for engine in report.engines.iter().filter(|engine| engine.name != "floor") {
        if !listed.contains(&&engine.name) {
            listed.push(&engine.name);
            let _ = writeln!(out, "- {}: {}", engine.name, engine.version);
        }
    }
}
