//! The targets of the Collection, and whether this run meets them.

use super::ours::{CHANGE, SWITCH};
use super::report::Report;
use crate::bound::Bound::{self, AtLeast, AtMost};
use crate::page::Tally;
use crate::units::bytes;
use firndb_bench_protocol::search::{Kind, Workload};
use std::fmt::Write;

/// A target: its name, the bound, and the measured value.
struct Target {
    name: String,
    bound: Bound,
    measured: Option<f64>,
}

const HEAD: &str = "\
## Targets

The rows compare medians with one partition, unless they say otherwise.

| target | bound | measured | |
|---|---:|---:|---|
";

/// The engines with one partition, and with a thousand.
pub(super) const ONE: &str = "firndb-1";
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

/// One row per target that the figures of the run cover.
pub fn table(report: &Report, out: &mut String) -> Tally {
    let mut tally = Tally::default();
    out.push_str(HEAD);
    let all = times(report).into_iter().chain(tails(report)).chain(costs(report));
    for Target { name, bound, measured } in all {
        let Some(measured) = measured else { continue };
        tally.add(bound.holds(measured));
        let (verdict, bound) = (bound.verdict(measured), bound.text());
        let _ = writeln!(out, "| {name} | {bound} | {measured:.2} | {verdict} |");
    }
    out.push('\n');
    let lucene = report.engine(Workload::Cars, "lucene").and_then(|e| report.index_bytes(e));
    if let Some(lucene) = lucene {
        let (least, share) = (report.least_bytes, report.least_bytes as f64 / lucene as f64);
        let _ = writeln!(
            out,
            "A lower bound on the bytes of the columns, each encoded separately and without random \
             access (`crates/bench/src/search/least.rs`), is {}: {share:.2} of Lucene's index \
             bytes. The structures that find documents by value come on top.\n",
            bytes(least)
        );
    }
    tally
}

fn times(report: &Report) -> Vec<Target> {
    let median = |kind, name| Some(report.get(kind, name)?.median());
    let mut targets = Vec::new();
    for (kind, most) in TIMES {
        targets.push(Target {
            name: format!("{kind}: median, us"),
            bound: AtMost(most),
            measured: median(kind, ONE).map(|nanos| nanos / 1e3),
        });
        targets.push(Target {
            name: format!("{kind}: times as fast as the fastest peer"),
            bound: AtLeast(1.0),
            measured: report.ratio(kind, ONE),
        });
        let (many, one) = (median(kind, MANY), median(kind, ONE));
        targets.push(match kind {
            // One lookup per partition is most of its time, so a share of one partition's time
            // would say little.
            Kind::Q5 => Target {
                name: format!("{kind}: 1,024 partitions, us"),
                bound: AtMost(10.0),
                measured: many.map(|nanos| nanos / 1e3),
            },
            kind => Target {
                name: format!("{kind}: 1,024 partitions, relative to one"),
                bound: AtMost(6.0),
                measured: many.zip(one).map(|(many, one)| many / one),
            },
        });
    }
    targets.push(Target {
        name: "all kinds: times as fast as the fastest peer of each (geometric mean)".into(),
        bound: AtLeast(5.0),
        measured: report.mean_ratio(ONE),
    });
    targets
}

fn tails(report: &Report) -> Vec<Target> {
    let figures = |kind| report.get(kind, ONE);
    let even = EVEN.into_iter().map(|kind| Target {
        name: format!("{kind}: p99, relative to the median"),
        bound: AtMost(4.0),
        measured: figures(kind).map(|figures| figures.quantile(0.99) / figures.median()),
    });
    let peers = Kind::ALL.into_iter().map(|kind| Target {
        name: format!("{kind}: p99, times as fast as the lowest p99 of a peer"),
        bound: AtLeast(1.0),
        measured: report.best_tail(kind).zip(figures(kind)).map(|(p, f)| p / f.quantile(0.99)),
    });
    even.chain(peers).collect()
}

fn costs(report: &Report) -> Vec<Target> {
    let cars = |name| report.engine(Workload::Cars, name);
    let build = |name| Some(cars(name)?.built.wall.as_secs_f64());
    let index = |name| cars(name).and_then(|engine| report.index_bytes(engine));
    let target = |name: &str, bound, measured| Target { name: name.into(), bound, measured };
    let of = |what: &str| {
        let (_, nanos) = cars(MANY)?.extras.iter().find(|(name, _)| name == what)?;
        Some(nanos / 1e6)
    };
    vec![
        target(
            "1,024 partitions: opening, ms",
            AtMost(30.0),
            cars(MANY).map(|engine| engine.open_time.as_secs_f64() * 1e3),
        ),
        target(
            "1,024 partitions: memory after opening, kB per partition",
            AtMost(4.0),
            cars(MANY).and_then(|e| Some(e.memory_per_partition()? as f64 / 1e3)),
        ),
        target(
            "1,024 partitions: durable commit of one replaced partition, ms",
            AtMost(2.0),
            of(CHANGE),
        ),
        target("1,024 partitions: refresh of a warm reader, ms", AtMost(2.0), of(SWITCH)),
        target(
            "build: times as fast as Lucene",
            AtLeast(1.0),
            build("lucene").zip(build(ONE)).map(|(theirs, ours)| theirs / ours),
        ),
        target(
            "index bytes, relative to Lucene",
            AtMost(0.65),
            index(ONE).zip(index("lucene")).map(|(ours, theirs)| ours as f64 / theirs as f64),
        ),
    ]
}
