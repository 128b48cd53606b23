//! The page `docs/benchmarks-search.md`: every figure that this module prints comes from one run.

use super::report::{EngineReport, Report};
use super::targets;
use crate::machine;
use crate::page::{self, Loss};
use crate::units::{bytes, is_ours, is_peer, time};
use firndb_bench_protocol::search::{Kind, Workload};
use std::fmt::Write;
use std::path::Path;

const METHOD: &str = "\
Every engine, FirnDB included, is a child process that reads the same rows and the same queries and
implements the same protocol ([peers/README.md](../peers/README.md)). The answers of all engines to
every query are compared before any time is reported: counts, ids of the hits in order, sort keys,
and sums of the payload bytes. A sample is also compared with brute force.

Queries are prepared before the clock starts. They are then timed one by one on one thread, from the
parameters to the ids of the hits; for Q2, to the bytes of their payloads. Q1, Q5 and A, which some
engines answer faster than the clock can be read, are timed over 16 runs of the same query. Engines
are interleaved, kind by kind, over several rounds. All data is in the page cache. An engine that is
too slow to answer all queries within its time budget answers the first ones; the column *queries*
shows how many. *Floor* is not an engine: it answers each kind of query from hand-written arrays in
memory, and indicates what the machine allows.

`peers/README.md` describes the configuration of the peers. Only DuckDB compresses payloads. *Index
bytes* are all bytes on disk except the payloads. Lucene runs on a JVM without
`jdk.incubator.vector`, hence without SIMD for postings. Its query cache is off, and it warms up for
three seconds with each kind of query, because its code is compiled while it runs.

The figures are those of a reader that has been in use: after enough queries, FirnDB has merged runs
of small partitions in memory (`Reader::with_bundle_limit`).
";

/// The page. `chart` is the drawing to show, in the directory of the page.
pub fn page(report: &Report, chart: Option<&Path>) -> String {
    let mut out = String::from("# Benchmarks: collections\n\n");
    let mut targets = String::new();
    let tally = targets::table(report, &mut targets);
    let losses = losses(report);
    if let Some(ratio) = report.mean_ratio(targets::ONE) {
        let _ = write!(
            out,
            "Queries over one partition are {ratio:.2} times as fast as those of the fastest peer \
             of each kind (geometric mean of the ratios of medians). "
        );
    }
    let (size, rounds) = (report.size, report.rounds);
    let _ = write!(
        out,
        "{}\n\nMeasured on {} on {}: {size} documents, {} queries of each kind, {rounds} rounds. \
         To run it: `cargo xtask bench search`.\n\n",
        page::summary(tally, &losses),
        machine::today(),
        machine::describe(),
        report.per_kind
    );
    if let Some(name) = chart.and_then(Path::file_name) {
        let _ = writeln!(out, "![Median times by engine]({})\n", name.to_string_lossy());
    }
    out.push_str(&targets);
    medians(report, &mut out);
    page::losses(&losses, "", &mut out);
    let _ = write!(out, "## Method\n\n{METHOD}\n## Times\n\n");
    Kind::ALL.iter().for_each(|&kind| times(report, kind, &mut out));
    for workload in Workload::ALL {
        engines(report, workload, &mut out);
    }
    extras(report, &mut out);
    versions(report, &mut out);
    out
}

fn medians(report: &Report, out: &mut String) {
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
                "- `{name}`: {ratio:.2} times as fast as the fastest peer of each kind (geometric \
                 mean)."
            );
        }
    }
    out.push('\n');
}

/// The comparisons in which a peer is better than FirnDB.
fn losses(report: &Report) -> Vec<Loss> {
    let mut losses = Vec::new();
    for kind in Kind::ALL {
        for name in report.names().into_iter().filter(|name| is_ours(name)) {
            let (Some(ratio), Some((peer, _))) = (report.ratio(kind, name), report.best_peer(kind))
            else {
                continue;
            };
            if ratio < 1.0 {
                let times = 1.0 / ratio;
                losses.push(Loss {
                    peers: vec![peer.into()],
                    line: format!("{kind}: {peer} is {times:.1} times as fast as {name}."),
                });
            }
        }
    }
    for workload in Workload::ALL {
        losses.extend(cheaper(report, workload, "bytes on disk", |e| (e.built.disk, bytes)));
        losses.extend(cheaper(report, workload, "index bytes", |engine| {
            (report.index_bytes(engine).unwrap_or(u64::MAX), bytes)
        }));
        losses.extend(cheaper(report, workload, "time to build", |engine| {
            (engine.built.wall.as_nanos() as u64, show_time)
        }));
        losses.extend(cheaper(report, workload, "time to open", |engine| {
            (engine.open_time.as_nanos() as u64, show_time)
        }));
    }
    losses
}

/// A cost and how to show it.
type Cost = (u64, fn(u64) -> String);

/// Peers that cost less than every form of FirnDB.
fn cheaper(
    report: &Report,
    workload: Workload,
    what: &str,
    cost: impl Fn(&EngineReport) -> Cost,
) -> Vec<Loss> {
    let here = || report.engines.iter().filter(|engine| engine.workload == workload);
    let ours = here().filter(|engine| is_ours(&engine.name)).min_by_key(|e| cost(e).0);
    let Some(ours) = ours else { return Vec::new() };
    let (least, show) = cost(ours);
    let loss = |peer: &EngineReport| {
        let (theirs, mine) = (show(cost(peer).0), show(least));
        let (peer, name, set) = (&peer.name, &ours.name, workload.name());
        let line = format!("{set}, {what}: {peer} {theirs}, {name} {mine}.");
        Loss { peers: vec![peer.clone()], line }
    };
    here().filter(|e| is_peer(&e.name) && cost(e).0 < least).map(loss).collect()
}

fn show_time(nanos: u64) -> String {
    time(nanos as f64)
}

fn times(report: &Report, kind: Kind, out: &mut String) {
    let _ = writeln!(out, "### {kind}: {}\n", kind.text());
    let _ = writeln!(
        out,
        "| engine | median | p99 | max | queries | allocations | times as fast as the fastest \
         peer |"
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
        "| engine | build | CPU | peak memory | on disk | index bytes | open | \
         memory after opening | per partition |"
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
            report.index_bytes(engine).map_or("-".into(), bytes),
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
