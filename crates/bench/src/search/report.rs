//! The results of a run, as text tables and as JSON.

use super::runner::Options;
use crate::chart::Group;
use crate::child::Built;
use crate::units::{bytes, is_ours, is_peer, quantile, time};
use comfy_table::{CellAlignment, Table, presets};
use firndb_bench_protocol::search::{Kind, Workload};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// An engine with one data set.
pub struct EngineReport {
    /// Name in tables.
    pub name: String,
    /// Name and version in full.
    pub version: String,
    /// The data set.
    pub workload: Workload,
    /// Cost of the build.
    pub built: Built,
    /// Median time to open.
    pub open_time: Duration,
    /// Anonymous memory after opening, in bytes.
    pub open_memory: u64,
    /// Additional figures of this engine, in nanoseconds.
    pub extras: Vec<(String, f64)>,
}

impl EngineReport {
    /// Memory after open by partition, for FirnDB with several: `firndb-N` has N.
    pub fn memory_per_partition(&self) -> Option<u64> {
        let partitions: u64 = self.name.strip_prefix("firndb-")?.split('-').next()?.parse().ok()?;
        (partitions > 1).then(|| self.open_memory / partitions)
    }
}

/// Times of one kind of query with one engine.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Nanoseconds, over all rounds.
    pub nanos: Vec<f64>,
    /// Number of distinct queries answered.
    pub queries: usize,
    /// Allocations per query; zero if the engine does not count them.
    pub allocations: f64,
}

impl Figures {
    /// The value that `share` of the times do not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.nanos.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        quantile(&sorted, share)
    }

    /// The median of all times.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}

/// The results of a run.
pub struct Report {
    /// Rows of the data sets.
    pub size: u64,
    /// Queries of each kind.
    pub per_kind: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// Bytes of all payloads of the car offers.
    pub payload_bytes: u64,
    /// Lower bound of the bytes of the columns of the car offers.
    pub least_bytes: u64,
    /// Every engine with every data set.
    pub engines: Vec<EngineReport>,
    /// Times by kind and engine.
    pub figures: BTreeMap<(Kind, String), Figures>,
}

impl Report {
    /// A report without figures yet.
    pub fn new(options: &Options) -> Report {
        Report {
            size: options.size,
            per_kind: options.per_kind,
            rounds: options.rounds,
            payload_bytes: 0,
            least_bytes: 0,
            engines: Vec::new(),
            figures: BTreeMap::new(),
        }
    }

    /// Names of the engines, in the order they were given.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for engine in &self.engines {
            if !names.contains(&engine.name.as_str()) {
                names.push(engine.name.as_str());
            }
        }
        names
    }

    /// The times of an engine for a kind, if it answered it.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Figures> {
        self.figures.get(&(kind, name.to_string()))
    }

    /// The peer with the smallest median for a kind.
    pub fn best_peer(&self, kind: Kind) -> Option<(&str, f64)> {
        let peers = self.names().into_iter().filter(|name| is_peer(name));
        let medians = peers.filter_map(|name| Some((name, self.get(kind, name)?.median())));
        medians.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The smallest p99 of the peers for a kind.
    pub fn best_tail(&self, kind: Kind) -> Option<f64> {
        let peers = self.names().into_iter().filter(|name| is_peer(name));
        let tails = peers.filter_map(|name| Some(self.get(kind, name)?.quantile(0.99)));
        tails.min_by(f64::total_cmp)
    }

    /// An engine with a data set.
    pub fn engine(&self, workload: Workload, name: &str) -> Option<&EngineReport> {
        self.engines.iter().find(|e| e.workload == workload && e.name == name)
    }

    /// The fastest peer's median divided by the engine's, for a kind.
    pub fn ratio(&self, kind: Kind, name: &str) -> Option<f64> {
        Some(self.best_peer(kind)?.1 / self.get(kind, name)?.median())
    }

    /// The geometric mean of [`Report::ratio`] over all kinds.
    pub fn mean_ratio(&self, name: &str) -> Option<f64> {
        let logs: Option<Vec<f64>> =
            Kind::ALL.iter().map(|&kind| self.ratio(kind, name).map(f64::ln)).collect();
        let logs = logs?;
        Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
    }

    /// Bytes on disk that are not payloads; `None` for engines that compress payloads, where this
    /// cannot be computed.
    pub fn index_bytes(&self, engine: &EngineReport) -> Option<u64> {
        let payload = if engine.workload == Workload::Cars { self.payload_bytes } else { 0 };
        engine.built.disk.checked_sub(payload).filter(|_| !engine.name.ends_with("-zstd"))
    }

    /// The tables for a terminal.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        for kind in Kind::ALL {
            text += &format!("\n{kind}: {}\n{}\n", kind.text(), self.kind_table(kind));
        }
        for workload in Workload::ALL {
            text += &format!("\n{}\n{}\n", workload.name(), self.engine_table(workload));
        }
        for (engine, (name, nanos)) in self.extras() {
            let (workload, time) = (engine.workload.name(), time(*nanos));
            text += &format!("{workload}, {}: {name}: {time}\n", engine.name);
        }
        for name in self.names().into_iter().filter(|name| is_ours(name)) {
            if let Some(ratio) = self.mean_ratio(name) {
                text += &format!(
                    "{name}: {ratio:.2} times as fast as the fastest peer (geometric mean)\n"
                );
            }
        }
        text
    }

    /// Figures that only some engines have.
    pub fn extras(&self) -> impl Iterator<Item = (&EngineReport, &(String, f64))> {
        self.engines.iter().flat_map(|e| e.extras.iter().map(move |extra| (e, extra)))
    }

    /// The medians as bars, kind by kind.
    pub fn chart(&self) -> Vec<Group> {
        let bars = |kind| {
            let median = |name: &str| Some((name.to_string(), self.get(kind, name)?.median()));
            self.names().into_iter().filter_map(median).collect()
        };
        Kind::ALL.map(|kind| Group { title: kind.to_string(), bars: bars(kind) }).into()
    }

    fn kind_table(&self, kind: Kind) -> Table {
        let head = ["engine", "median", "p99", "max", "queries", "allocations", "fastest peer"];
        let mut table = table(&head);
        for name in self.names() {
            let Some(figures) = self.get(kind, name) else { continue };
            let ratio = self.ratio(kind, name).filter(|_| !is_peer(name));
            let counted = !is_peer(name);
            table.add_row([
                name.to_string(),
                time(figures.median()),
                time(figures.quantile(0.99)),
                time(figures.quantile(1.0)),
                figures.queries.to_string(),
                if counted { format!("{:.1}", figures.allocations) } else { String::new() },
                ratio.map_or(String::new(), |ratio| format!("{ratio:.2} x")),
            ]);
        }
        table
    }

    fn engine_table(&self, workload: Workload) -> Table {
        let head = [
            "engine",
            "build",
            "CPU",
            "peak memory",
            "on disk",
            "index bytes",
            "open",
            "memory",
            "per partition",
        ];
        let mut table = table(&head);
        for engine in self.engines.iter().filter(|e| e.workload == workload && e.name != "floor") {
            let built = engine.built;
            table.add_row([
                engine.name.clone(),
                time(built.wall.as_nanos() as f64),
                time(built.cpu.as_nanos() as f64),
                bytes(built.peak_memory),
                bytes(built.disk),
                self.index_bytes(engine).map_or("-".into(), bytes),
                time(engine.open_time.as_nanos() as f64),
                bytes(engine.open_memory),
                engine.memory_per_partition().map_or(String::new(), bytes),
            ]);
        }
        table
    }

    /// The same as JSON; times are nanoseconds.
    pub fn json(&self) -> Value {
        let figures = self.figures.iter().map(|((kind, name), figures)| {
            json!({
                "kind": kind.to_string(), "engine": name, "queries": figures.queries,
                "median": figures.median(), "p99": figures.quantile(0.99),
                "max": figures.quantile(1.0), "allocations": figures.allocations,
            })
        });
        let engines = self.engines.iter().map(|engine| {
            json!({
                "engine": engine.name, "version": engine.version,
                "workload": engine.workload.name(),
                "build": engine.built.wall.as_nanos() as u64,
                "build_cpu": engine.built.cpu.as_nanos() as u64,
                "build_peak_memory": engine.built.peak_memory, "disk": engine.built.disk,
                "index_bytes": self.index_bytes(engine),
                "open": engine.open_time.as_nanos() as u64, "open_memory": engine.open_memory,
                "extras": engine.extras,
            })
        });
        json!({
            "size": self.size, "queries": self.per_kind, "rounds": self.rounds,
            "least_bytes": self.least_bytes,
            "figures": figures.collect::<Vec<_>>(), "engines": engines.collect::<Vec<_>>(),
        })
    }
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head);
    table.column_iter_mut().skip(1).for_each(|c| {
        c.set_cell_alignment(CellAlignment::Right);
    });
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let figures =
            Figures { nanos: (1..=200).rev().map(f64::from).collect(), ..Figures::default() };
        assert_eq!((figures.median(), figures.quantile(0.99)), (100.0, 198.0));
        assert_eq!(figures.quantile(1.0), 200.0);
    }
}
