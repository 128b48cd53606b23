//! The aims of the Collection, and whether this run reached them.

use super::ours::{CHANGE, SWITCH};
use super::report::Report;
use crate::bound::Bound::{self, AtLeast, AtMost};
use crate::units::bytes;
use firndb_bench_protocol::search::{Kind, Workload};
use std::fmt::Write;

/// An aim: its words, the bound, and what was measured.
struct Aim {
    words: String,
    bound: Bound,
    found: Option<f64>,
}

const HEAD: &str = "\
## What is aimed at, and what this run found

Of one partition, by medians, where nothing else is said.

| aim | bound | found | |
|---|---:|---:|---|
";

/// The engines with one partition, and with a thousand.
const ONE: &str = "firndb-1";
const MANY: &str = "firndb-1024";

/// Maximum microseconds per kind.
const TIMES: [(Kind, f64); 8] = [
    (Kind::Q1, 0.4),
    (Kind::Q2, 80.0),
    (Kind::Q3, 150.0),
    (Kind::Q4, 40.0),
    (Kind::Q5, 1.0),
    (Kind::Q6, 250.0),
    (Kind::A, 1.0),
    (Kind::B, 30.0),
];
/// Kinds whose time should depend little on the parameters.
const EVEN: [Kind; 3] = [Kind::Q1, Kind::Q4, Kind::Q5];

/// One row per aim that the figures of the run cover.
pub fn table(report: &Report, out: &mut String) {
    out.push_str(HEAD);
    let all = times(report).into_iter().chain(tails(report)).chain(costs(report));
    for Aim { words, bound, found } in all {
        let Some(found) = found else { continue };
        let (verdict, bound) = (bound.verdict(found), bound.text());
        let _ = writeln!(out, "| {words} | {bound} | {found:.2} | {verdict} |");
    }
    out.push('\n');
    let lucene = report.engine(Workload::Cars, "lucene").and_then(|e| report.beyond_payload(e));
    if let Some(lucene) = lucene {
        let (least, share) = (report.least_bytes, report.least_bytes as f64 / lucene as f64);
        let _ = writeln!(
            out,
            "The columns take {} at least, each coded for itself and without a way to read one \
             value (`crates/bench/src/search/least.rs`): {share:.2} of lucene's bytes beyond \
             payloads. What finds documents by their values comes on top.\n",
            bytes(least)
        );
    }
}

fn times(report: &Report) -> Vec<Aim> {
    let median = |kind, name| Some(report.get(kind, name)?.median());
    let mut aims = Vec::new();
    for (kind, most) in TIMES {
        aims.push(Aim {
            words: format!("{kind}, us"),
            bound: AtMost(most),
            found: median(kind, ONE).map(|nanos| nanos / 1e3),
        });
        aims.push(Aim {
            words: format!("{kind}, times as fast as the fastest peer"),
            bound: AtLeast(1.0),
            found: report.ratio(kind, ONE),
        });
        aims.push(Aim {
            words: format!("{kind}, 1024 partitions, times the time of one"),
            bound: AtMost(4.0),
            found: median(kind, MANY).zip(median(kind, ONE)).map(|(many, one)| many / one),
        });
    }
    aims.push(Aim {
        words: "all kinds, times as fast as the fastest peer of each (geometric mean)".into(),
        bound: AtLeast(5.0),
        found: report.mean_ratio(ONE),
    });
    aims
}

fn tails(report: &Report) -> Vec<Aim> {
    let figures = |kind| report.get(kind, ONE);
    let even = EVEN.into_iter().map(|kind| Aim {
        words: format!("{kind}, p99, times the median"),
        bound: AtMost(4.0),
        found: figures(kind).map(|figures| figures.quantile(0.99) / figures.median()),
    });
    let peers = Kind::ALL.into_iter().map(|kind| Aim {
        words: format!("{kind}, p99, times as fast as the best p99 of a peer"),
        bound: AtLeast(1.0),
        found: report.best_tail(kind).zip(figures(kind)).map(|(p, f)| p / f.quantile(0.99)),
    });
    even.chain(peers).collect()
}

fn costs(report: &Report) -> Vec<Aim> {
    let cars = |name| report.engine(Workload::Cars, name);
    let build = |name| Some(cars(name)?.built.wall.as_secs_f64());
    let beyond = |name| cars(name).and_then(|engine| report.beyond_payload(engine));
    let aim = |words: &str, bound, found| Aim { words: words.into(), bound, found };
    let of = |what: &str| {
        let (_, nanos) = cars(MANY)?.extras.iter().find(|(name, _)| name == what)?;
        Some(nanos / 1e6)
    };
    vec![
        aim(
            "1024 partitions, opening, ms",
            AtMost(30.0),
            cars(MANY).map(|engine| engine.open_time.as_secs_f64() * 1e3),
        ),
        aim(
            "1024 partitions, memory after opening, kB a partition",
            AtMost(4.0),
            cars(MANY).and_then(|e| Some(e.memory_per_partition()? as f64 / 1e3)),
        ),
        aim(
            "1024 partitions, the durable change to another file of one, ms",
            AtMost(2.0),
            of(CHANGE),
        ),
        aim("1024 partitions, a reader's switch to it, ms", AtMost(2.0), of(SWITCH)),
        aim(
            "build, times as fast as lucene",
            AtLeast(1.0),
            build("lucene").zip(build(ONE)).map(|(theirs, ours)| theirs / ours),
        ),
        aim(
            "bytes beyond payloads, as a share of lucene's",
            AtMost(0.6),
            beyond(ONE).zip(beyond("lucene")).map(|(ours, theirs)| ours as f64 / theirs as f64),
        ),
    ]
}
