//! Figures by workload and engine, stored as JSON.

use crate::chart::Group;
use crate::units::is_peer;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Records, Workload};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The figures of an engine with a workload. Times are nanoseconds, sizes bytes.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Name in tables.
    pub name: String,
    /// Name and version in full.
    pub version: String,
    /// For each pass the measurements of each figure; names are listed in [`super::runner`].
    pub passes: Vec<BTreeMap<String, Vec<f64>>>,
}

impl Figures {
    /// Adds a measurement of this pass.
    pub fn add(&mut self, what: impl Into<String>, value: f64) {
        if self.passes.is_empty() {
            self.passes.push(BTreeMap::new());
        }
        if let Some(pass) = self.passes.last_mut() {
            pass.entry(what.into()).or_default().push(value);
        }
    }

    /// Adds the measurements of further passes.
    pub fn join(&mut self, other: Figures) {
        self.passes.extend(other.passes);
    }

    /// The median of each pass, if every pass has the figure.
    pub fn by_pass(&self, what: &str) -> Option<Vec<f64>> {
        self.passes.iter().map(|pass| median(pass.get(what)?)).collect()
    }

    /// The median of the passes, if the figure was measured.
    pub fn get(&self, what: &str) -> Option<f64> {
        median(&self.by_pass(what)?)
    }

    /// The smallest and the largest measurement.
    pub fn range(&self, what: &str) -> Option<(f64, f64)> {
        let all: Vec<f64> =
            self.passes.iter().filter_map(|p| p.get(what)).flatten().copied().collect();
        range(&all)
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({ "engine": self.name, "version": self.version, "passes": self.passes })
    }

    /// Parses JSON; `None` if it has another form.
    pub fn from_json(json: &Value) -> Option<Figures> {
        Some(Figures {
            name: json["engine"].as_str()?.into(),
            version: json["version"].as_str()?.into(),
            passes: serde_json::from_value(json["passes"].clone()).ok()?,
        })
    }

    /// Reads the figures that an earlier run of the same version kept.
    pub fn read(path: &Path, version: &str) -> Option<Figures> {
        let figures = Figures::from_json(&serde_json::from_slice(&fs::read(path).ok()?).ok()?)?;
        Some(figures).filter(|figures| figures.version == version)
    }

    /// Writes all figures.
    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, format!("{:#}\n", self.json()))?)
    }
}

/// The median, averaged over the two middle values of an even number; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle)?;
    Some(if values.len().is_multiple_of(2) { (values[middle - 1] + upper) / 2.0 } else { *upper })
}

/// The smallest and the largest value; `None` for no values.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let values = || values.iter().copied();
    values().reduce(f64::min).zip(values().reduce(f64::max))
}

/// The ratio of two figures, pass by pass.
pub fn ratios(of: &[f64], than: &[f64]) -> Vec<f64> {
    of.iter().zip(than).map(|(of, than)| of / than).collect()
}

/// A workload with the figures of all engines.
pub struct Section {
    /// The records.
    pub records: Records,
    /// Bytes of all keys and values.
    pub bytes: u64,
    /// Time to generate the records and to read every byte of them.
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

/// The results of a run.
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

/// Records of each workload in a run in which `small` has this many.
pub fn records(workload: Workload, small: u64) -> Records {
    let share = Workload::Small.records() / workload.records();
    Records { workload, count: (small / share).max(1000) }
}

/// For tests: an engine with given figures of each pass.
#[cfg(test)]
pub(super) fn engine(name: &str, figures: &[(&str, [f64; 3])]) -> Figures {
    let mut engine = Figures { name: name.into(), ..Figures::default() };
    for pass in 0..3 {
        let mut found = Figures::default();
        figures.iter().for_each(|(what, values)| found.add(*what, values[pass]));
        engine.join(found);
    }
    engine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pass_has_its_own_median() {
        let mut figures = Figures::default();
        assert_eq!((figures.get("disk"), figures.range("disk")), (None, None));
        for pass in [&[5.0, 9.0, 1.0][..], &[7.0, 6.0], &[2.0]] {
            let mut found = Figures::default();
            pass.iter().for_each(|&value| found.add("present 1 cpu", value));
            figures.join(found);
        }
        assert_eq!(figures.by_pass("present 1 cpu"), Some(vec![5.0, 6.5, 2.0]));
        assert_eq!(figures.get("present 1 cpu"), Some(5.0));
        assert_eq!(figures.range("present 1 cpu"), Some((1.0, 9.0)));
        // A figure that one pass lacks cannot be compared pass by pass.
        figures.add("disk", 1.0);
        assert_eq!(figures.get("disk"), None);

        let json = figures.json();
        assert_eq!(Figures::from_json(&json).map(|same| same.passes), Some(figures.passes));
        let older = json!({ "engine": "", "version": "", "values": { "disk": 1.0 } });
        assert!(Figures::from_json(&older).is_none());
    }
}
