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
const METHOD: &str = "in turns, medians";

/// What is known of an engine with a workload. Times are nanoseconds, sizes bytes.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Name in tables.
    pub name: String,
    /// Name and version in full.
    pub version: String,
    /// Every measurement of each figure; for their names see [`super::runner`].
    pub values: BTreeMap<String, Vec<f64>>,
}

impl Figures {
    /// The median of what was measured, if it was.
    pub fn get(&self, what: &str) -> Option<f64> {
        let mut values = self.values.get(what)?.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = values.get(middle)?;
        Some(if values.len() % 2 == 0 { (values[middle - 1] + upper) / 2.0 } else { *upper })
    }

    /// The least and the most that was measured.
    pub fn range(&self, what: &str) -> Option<(f64, f64)> {
        let values = || self.values.get(what).into_iter().flatten().copied();
        values().reduce(f64::min).zip(values().reduce(f64::max))
    }

    /// Keeps a measurement.
    pub fn add(&mut self, what: impl Into<String>, value: f64) {
        self.values.entry(what.into()).or_default().push(value);
    }

    /// Takes over what another pass measured.
    pub fn join(&mut self, other: Figures) {
        for (what, values) in other.values {
            self.values.entry(what).or_default().extend(values);
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let values: Map<String, Value> =
            self.values.iter().map(|(name, values)| (name.clone(), json!(values))).collect();
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
        let numbers = |values: &Value| -> Option<Vec<f64>> {
            values.as_array()?.iter().map(Value::as_f64).collect()
        };
        let figures = Figures {
            name: kept["engine"].as_str()?.into(),
            version: kept["version"].as_str()?.into(),
            values: values.map(|(k, v)| Some((k.clone(), numbers(v)?))).collect::<Option<_>>()?,
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
    fn the_median_of_all_passes_counts() {
        let mut figures = Figures::default();
        assert_eq!((figures.get("disk"), figures.range("disk")), (None, None));
        for pass in [[5.0, 9.0], [7.0, 6.0]] {
            let mut found = Figures::default();
            pass.into_iter().for_each(|value| found.add("present 1 cpu", value));
            figures.join(found);
        }
        assert_eq!(figures.get("present 1 cpu"), Some(6.5));
        figures.add("present 1 cpu", 1.0);
        assert_eq!(figures.get("present 1 cpu"), Some(6.0));
        assert_eq!(figures.range("present 1 cpu"), Some((1.0, 9.0)));
    }
}
