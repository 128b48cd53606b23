//! Figures by workload and engine, kept as JSON so that a run can go on where another ended, with
//! the next workload.

use crate::chart::Group;
use crate::units::is_peer;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Records, Workload};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How engines are measured. Figures that were found in another way do not stand beside new ones.
const METHOD: &str = "in turns";

/// What is known of an engine with a workload. Times are nanoseconds, sizes bytes.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Name in tables.
    pub name: String,
    /// Name and version in full.
    pub version: String,
    /// Figures by name; see [`super::runner`].
    pub values: BTreeMap<String, f64>,
}

impl Figures {
    /// A figure, if it was measured.
    pub fn get(&self, what: &str) -> Option<f64> {
        self.values.get(what).copied()
    }

    /// Keeps a figure.
    pub fn set(&mut self, what: impl Into<String>, value: f64) {
        self.values.insert(what.into(), value);
    }

    /// Takes over what another pass found, if it is better: disturbances only ever make it worse.
    /// Gets from the disk belong to what the disk did in that minute, so the last pass has them.
    pub fn join(&mut self, other: Figures) {
        for (what, value) in other.values {
            let better = match self.get(&what) {
                Some(_) if what.starts_with("cold ") || what.starts_with("fio ") => value,
                Some(before) if what.ends_with(" rate") => before.max(value),
                Some(before) => before.min(value),
                None => value,
            };
            self.set(what, better);
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let values: Map<String, Value> =
            self.values.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "engine": self.name, "version": self.version, "method": METHOD, "values": values,
        })
    }

    /// Reads what an earlier run of the same version kept, if it measured as this one does.
    pub fn read(path: &Path, version: &str) -> Option<Figures> {
        let kept: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        if kept["method"] != METHOD {
            return None;
        }
        let values = kept["values"].as_object()?.iter();
        let figures = Figures {
            name: kept["engine"].as_str()?.into(),
            version: kept["version"].as_str()?.into(),
            values: values.filter_map(|(k, v)| Some((k.clone(), v.as_f64()?))).collect(),
        };
        Some(figures).filter(|figures| figures.version == version)
    }

    /// Keeps all of them.
    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, format!("{:#}\n", self.json()))?)
    }
}

/// A workload with all engines.
pub struct Section {
    /// The records.
    pub records: Records,
    /// Bytes of all keys and values.
    pub bytes: u64,
    /// Time that it takes to make the records and to read every byte of them.
    pub making: Duration,
    /// The engines, in the order they were given.
    pub engines: Vec<Figures>,
}

impl Section {
    /// The engines that are peers.
    pub fn peers(&self) -> impl Iterator<Item = &Figures> {
        self.engines.iter().filter(|engine| is_peer(&engine.name))
    }
}

/// All that a run found.
#[derive(Default)]
pub struct Report {
    /// By workload.
    pub sections: Vec<Section>,
}

impl Report {
    /// As JSON; times are nanoseconds.
    pub fn json(&self) -> Value {
        let section = |section: &Section| {
            let engines: Vec<Value> = section.engines.iter().map(Figures::json).collect();
            json!({
                "workload": section.records.workload.name(), "records": section.records.count,
                "bytes": section.bytes, "engines": engines,
            })
        };
        self.sections.iter().map(section).collect()
    }

    /// CPU times of gets as bars.
    pub fn chart(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for section in &self.sections {
            for what in ["present", "absent"] {
                let title = format!("{} {what}", section.records.workload.name());
                let bar = |engine: &Figures| {
                    Some((engine.name.clone(), engine.get(&format!("{what} 1 cpu"))?))
                };
                groups
                    .push(Group { title, bars: section.engines.iter().filter_map(bar).collect() });
            }
        }
        groups
    }
}

/// Records of each workload in a run that has `small` of the first one.
pub fn records(workload: Workload, small: u64) -> Records {
    let share = Workload::Small.records() / workload.records();
    Records { workload, count: (small / share).max(1000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_of_two_passes_counts_but_on_the_disk() {
        let of = |values: [(&str, f64); 4]| {
            let values = values.map(|(what, value)| (what.to_string(), value)).into();
            Figures { values, ..Figures::default() }
        };
        let mut figures = Figures::default();
        for cpu in [5.0, 7.0] {
            figures.join(of([
                ("present 1 cpu", cpu),
                ("present 1 rate", cpu),
                ("cold 1 rate", cpu),
                ("fio 1 rate", cpu),
            ]));
        }
        let found = ["present 1 cpu", "present 1 rate", "cold 1 rate", "fio 1 rate"];
        assert_eq!(found.map(|what| figures.get(what)), [5.0, 7.0, 7.0, 7.0].map(Some));
    }
}
