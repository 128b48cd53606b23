//! The targets of the LogStore relative to its peers, and whether this run meets them.

use super::cold;
use super::markdown::steady_writes;
use super::runner::Section;
use crate::bound::Bound::{self, AtLeast, AtMost};
use crate::page::Tally;
use crate::table::report::Figures;
use firndb_bench_protocol::log::Workload;
use std::fmt::Write;

/// A target: its name, the bound, and the measured value.
struct Target {
    name: String,
    bound: Bound,
    measured: Option<f64>,
    /// The same by operations per second, where `measured` is by medians.
    by_rate: Option<f64>,
}

const HEAD: &str = "\
## Targets

*Measured* compares medians of calls timed one by one. *By rate* is the same comparison by calls per
second. For puts and updates the rate is a mean, which includes the cost of compaction and of the
disk.

| target | bound | measured | | by rate |
|---|---:|---:|---|---:|
";

/// One row per target that the figures of the run cover.
pub fn table(sections: &[Section], out: &mut String) -> Tally {
    let mut tally = Tally::default();
    out.push_str(HEAD);
    for section in sections {
        let Some(ours) = section.engines.iter().find(|engine| engine.name == "firndb") else {
            continue;
        };
        let targets = match section.records.workload {
            Workload::Small => {
                speeds(section, ours).into_iter().chain(costs(section, ours)).collect()
            }
            Workload::Large | Workload::Huge => Vec::new(),
            Workload::Growing => growing(section, ours),
        };
        for Target { name, bound, measured, by_rate } in targets {
            let Some(measured) = measured else { continue };
            tally.add(bound.holds(measured));
            let rate = by_rate.map_or(String::new(), |rate| format!("{rate:.2}"));
            let (workload, verdict) = (section.records.workload.name(), bound.verdict(measured));
            let bound = bound.text();
            let _ = writeln!(
                out,
                "| {workload}: {name} | {bound} | {measured:.2} | {verdict} | {rate} |"
            );
        }
    }
    out.push('\n');
    tally
}

/// The peer's time divided by FirnDB's.
fn against_peer(
    section: &Section,
    ours: &Figures,
    operation: (&str, &str),
    peer: &str,
    least: f64,
) -> Target {
    let (figure, name) = operation;
    let other = section.engines.iter().find(|engine| engine.name == peer);
    let get = |engine: &Figures, what: &str| engine.get(&format!("{figure} {what}"));
    let ratio = |what: &str| Some((get(other?, what)?, get(ours, what)?));
    Target {
        name: format!("{name}, times as fast as {peer}"),
        bound: AtLeast(least),
        measured: ratio("p50").map(|(other, ours)| other / ours),
        by_rate: ratio("rate").map(|(other, ours)| ours / other),
    }
}

fn speeds(section: &Section, ours: &Figures) -> Vec<Target> {
    let get = ("present", "get");
    let (put, update) = (("fill", "put"), ("update", "update"));
    let bounds = [
        (get, "kyoto", 1.0),
        (get, "lmdb", 2.0),
        (get, "rocksdb", 1.0),
        (get, "fjall", 1.0),
        (get, "redb", 1.0),
        (put, "kyoto", 1.0),
        (put, "lmdb", 3.0),
        (put, "rocksdb", 6.0),
        (update, "kyoto", 1.0),
        (update, "lmdb", 3.0),
        (update, "rocksdb", 6.0),
    ];
    let target = |(operation, peer, least)| against_peer(section, ours, operation, peer, least);
    bounds.into_iter().map(target).collect()
}

fn growing(section: &Section, ours: &Figures) -> Vec<Target> {
    let operations =
        [("grow get", "get before a value grows"), ("grow put", "put of a value that grew")];
    let peers = ["tokyo", "berkeley"];
    let pairs = operations.into_iter().flat_map(|operation| peers.map(|peer| (operation, peer)));
    pairs.map(|(operation, peer)| against_peer(section, ours, operation, peer, 1.0)).collect()
}

fn costs(section: &Section, ours: &Figures) -> Vec<Target> {
    let target =
        |name: &str, bound, measured| Target { name: name.into(), bound, measured, by_rate: None };
    let micros = |what: &str| ours.get(what).map(|nanos| nanos / 1e3);
    let over = |of: Option<f64>, than: Option<f64>| Some(of? / than?);
    let total = section.records.bytes() as f64;
    let record = total / section.records.count as f64;
    let rocksdb = section.engines.iter().find(|engine| engine.name == "rocksdb");
    let (steady, theirs) =
        (steady_writes(ours, record), rocksdb.and_then(|engine| steady_writes(engine, record)));
    let mut targets = vec![
        target("get of an absent key, CPU, us", AtMost(0.3), micros("absent cpu")),
        target("put, p99.9, us", AtMost(50.0), micros("fill p999")),
        target(
            "get during updates by another thread, p99 relative to gets alone",
            AtMost(1.5),
            over(ours.get("both get p99"), ours.get("quiet p99")),
        ),
        target(
            "get during updates by another thread, p99.9 relative to gets alone",
            AtMost(3.0),
            over(ours.get("both get p999"), ours.get("quiet p999")),
        ),
        target(
            "disk usage after filling, relative to the records",
            AtMost(1.15),
            over(ours.get("fill disk"), Some(total)),
        ),
        target(
            "bytes written by updates in steady state, relative to rocksdb",
            AtMost(0.5),
            over(steady, theirs),
        ),
    ];
    for threads in cold::THREADS {
        let name = format!("get from disk, threads: {threads}, pages relative to the reads of fio");
        targets.push(target(&name, AtLeast(0.9), cold::share(ours, threads)));
    }
    targets
}
