//! The aims of the LogStore relative to its peers, and whether this run reached them.

use super::cold;
use super::markdown::steady_writes;
use super::runner::Section;
use crate::bound::Bound::{self, AtLeast, AtMost};
use crate::table::report::Figures;
use firndb_bench_protocol::log::Workload;
use std::fmt::Write;

/// An aim: its words, the bound, and what was measured.
struct Aim {
    words: String,
    bound: Bound,
    found: Option<f64>,
    /// The same by operations per second, where `found` is by medians.
    by_rate: Option<f64>,
}

const HEAD: &str = "\
## What is aimed at, and what this run found

*Found* is by the medians of calls that are timed one by one; beside it stands the same by calls a
second, which for puts and updates are means: they hold what compaction and the disk take, too.

| aim | bound | found | | a second |
|---|---:|---:|---|---:|
";

/// One row per aim that the figures of the run cover.
pub fn table(sections: &[Section], out: &mut String) {
    out.push_str(HEAD);
    for section in sections {
        let Some(ours) = section.engines.iter().find(|engine| engine.name == "firndb") else {
            continue;
        };
        let aims = match section.records.workload {
            Workload::Small => {
                speeds(section, ours).into_iter().chain(costs(section, ours)).collect()
            }
            Workload::Large | Workload::Huge => Vec::new(),
            Workload::Growing => growing(section, ours),
        };
        for Aim { words, bound, found, by_rate } in aims {
            let Some(found) = found else { continue };
            let rate = by_rate.map_or(String::new(), |rate| format!("{rate:.2}"));
            let (name, verdict) = (section.records.workload.name(), bound.verdict(found));
            let bound = bound.text();
            let _ =
                writeln!(out, "| {name}: {words} | {bound} | {found:.2} | {verdict} | {rate} |");
        }
    }
    out.push('\n');
}

/// The peer's time divided by FirnDB's.
fn against_peer(
    section: &Section,
    ours: &Figures,
    operation: (&str, &str),
    peer: &str,
    least: f64,
) -> Aim {
    let (figure, name) = operation;
    let other = section.engines.iter().find(|engine| engine.name == peer);
    let get = |engine: &Figures, what: &str| engine.get(&format!("{figure} {what}"));
    let ratio = |what: &str| Some((get(other?, what)?, get(ours, what)?));
    Aim {
        words: format!("{name}, times as fast as {peer}"),
        bound: AtLeast(least),
        found: ratio("p50").map(|(other, ours)| other / ours),
        by_rate: ratio("rate").map(|(other, ours)| ours / other),
    }
}

fn speeds(section: &Section, ours: &Figures) -> Vec<Aim> {
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
    let aim = |(operation, peer, least)| against_peer(section, ours, operation, peer, least);
    bounds.into_iter().map(aim).collect()
}

fn growing(section: &Section, ours: &Figures) -> Vec<Aim> {
    let operations =
        [("grow get", "get before a value grows"), ("grow put", "put of one that grew")];
    let peers = ["tokyo", "berkeley"];
    let pairs = operations.into_iter().flat_map(|operation| peers.map(|peer| (operation, peer)));
    pairs.map(|(operation, peer)| against_peer(section, ours, operation, peer, 1.0)).collect()
}

fn costs(section: &Section, ours: &Figures) -> Vec<Aim> {
    let aim = |words: &str, bound, found| Aim { words: words.into(), bound, found, by_rate: None };
    let micros = |what: &str| ours.get(what).map(|nanos| nanos / 1e3);
    let over = |of: Option<f64>, than: Option<f64>| Some(of? / than?);
    let total = section.records.bytes() as f64;
    let record = total / section.records.count as f64;
    let rocksdb = section.engines.iter().find(|engine| engine.name == "rocksdb");
    let (steady, theirs) =
        (steady_writes(ours, record), rocksdb.and_then(|engine| steady_writes(engine, record)));
    let mut aims = vec![
        aim("get of an absent key, us", AtMost(0.3), micros("absent cpu")),
        aim("put, p99.9, us", AtMost(50.0), micros("fill p999")),
        aim(
            "get while one thread updates, p99, times that of gets alone",
            AtMost(1.5),
            over(ours.get("both get p99"), ours.get("quiet p99")),
        ),
        aim(
            "get while one thread updates, p99.9, times that of gets alone",
            AtMost(3.0),
            over(ours.get("both get p999"), ours.get("quiet p999")),
        ),
        aim(
            "disk after filling, of the records",
            AtMost(1.15),
            over(ours.get("fill disk"), Some(total)),
        ),
        aim("written at steady updates, of what rocksdb writes", AtMost(0.5), over(steady, theirs)),
    ];
    for threads in cold::THREADS {
        let words = format!("cold get, threads: {threads}, of the reads of fio");
        aims.push(aim(&words, AtLeast(0.9), cold::share(ours, threads)));
    }
    aims
}
