//! The report of a run: bounds, formulas, and what was measured.

use super::engine::{PARTS, SLOW};
use super::formulas::{INDEX_BYTES, Shape};
use super::runner::{Figures, THREADS};
use crate::bound::Bound::{self, AtLeast, AtMost};
use crate::machine;
use crate::units::{bytes, count, time};
use serde_json::{Value, json};
use std::fmt::Write;

/// The measured size is within this share of that of the formula.
const TOLERANCE: f64 = 0.1;
/// From this number of keys on, memory that does not grow with them is a small part of all.
const KEYS_LARGE: u64 = 50_000_000;

/// What became of a run.
pub enum Outcome {
    /// The machine is too small; the reason.
    Skipped(String),
    /// The figures.
    Measured(Report),
}

/// The figures of a run.
pub struct Report {
    /// The records.
    pub shape: Shape,
    /// Figures by name.
    pub figures: Figures,
}

/// A measured value; with a bound, a limit.
struct Row {
    what: String,
    bound: Option<(Bound, String)>,
    value: f64,
    shown: String,
}

impl Row {
    fn new(what: impl Into<String>, value: f64, shown: String) -> Row {
        Row { what: what.into(), bound: None, value, shown }
    }

    fn duration(what: &str, nanos: f64) -> Row {
        Row::new(what, nanos, time(nanos))
    }

    fn bytes(what: &str, value: f64) -> Row {
        Row::new(what, value, bytes(value as u64))
    }

    fn limit(mut self, bound: Bound, shown: impl Into<String>) -> Row {
        self.bound = Some((bound, shown.into()));
        self
    }

    /// A limit in nanoseconds.
    fn within(self, nanos: f64) -> Row {
        let shown = format!("<= {}", time(nanos).replace(".00", "").replace(".0 ", " "));
        self.limit(AtMost(nanos), shown)
    }

    fn is_met(&self) -> Option<bool> {
        self.bound.as_ref().map(|(bound, _)| bound.holds(self.value))
    }
}

impl Report {
    fn get(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or(f64::NAN)
    }

    /// Whether every bound holds.
    pub fn is_met(&self) -> bool {
        self.rows().iter().all(|row| row.is_met() != Some(false))
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = self.memory();
        rows.extend(self.writes());
        rows.extend(self.reads());
        rows.extend(self.openings());
        rows
    }

    fn memory(&self) -> Vec<Row> {
        let keys = self.shape.keys as f64;
        let per_key = |value: f64| Row::new("", value, format!("{value:.2} B"));
        let index = self.get("index of formula");
        let anonymous = (self.get("anonymous") - self.get("anonymous empty")) / keys;
        let what = "index relative to the formula, largest during the fill";
        let mut rows = vec![
            Row::new(what, index, format!("{index:.2}")).limit(AtMost(1.0), "<= 1"),
            Row {
                what: "anonymous RSS beyond that with an empty store, per key".into(),
                ..per_key(anonymous)
            },
        ];
        if self.shape.keys >= KEYS_LARGE {
            rows[1].bound = Some((AtMost(INDEX_BYTES), format!("<= {INDEX_BYTES} B")));
        }
        let reopened = (self.get("index after close") - self.get("index empty")) / keys;
        let what = "index beyond that of an empty store, per key, after reopening";
        rows.push(Row { what: what.into(), ..per_key(reopened) });
        rows.push(Row::bytes(
            "mapped pages of files in memory, after the fill",
            self.get("mapped"),
        ));
        let (disk, formula) = (self.get("disk"), self.shape.disk());
        let away = (disk / formula - 1.0).abs();
        let shown = format!("{}, {:.2} of the formula", bytes(disk as u64), disk / formula);
        let near = format!("{} to {}", 1.0 - TOLERANCE, 1.0 + TOLERANCE);
        rows.push(Row::new("disk", away, shown).limit(AtMost(TOLERANCE), near));
        rows
    }

    fn writes(&self) -> Vec<Row> {
        let rates: Vec<f64> = (0..PARTS).map(|part| self.get(&format!("tenth {part}"))).collect();
        let (first, last) = (rates[0], rates[rates.len() - 1]);
        let k = |rate: f64| format!("{:.0} k/s", rate / 1e3);
        let ratio = Row::new(
            "puts, last tenth relative to the first",
            last / first,
            format!("{:.2} ({} and {})", last / first, k(last), k(first)),
        );
        vec![
            ratio.limit(AtLeast(0.5), ">= 0.5"),
            Row::duration("put, median", self.get("put p50")),
            Row::duration("put, p99.9", self.get("put p999")),
            Row::duration("put, longest", self.get("put max")).within(SLOW as f64),
        ]
    }

    fn reads(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for threads in THREADS {
            let of = |name: &str| self.get(&format!("{name} {threads}"));
            let what = format!("get from disk, {threads} thread(s), reads of 4 KiB per get");
            let shown = format!("{:.3}, page faults {:.3}", of("read") / 4096.0, of("faults"));
            // Records cross page boundaries: a longer record needs as many pages.
            let pages = 1.0 + (self.shape.record() - 1.0) / 4096.0;
            let most = pages * 1.02;
            let limit = format!("<= {most:.2}");
            rows.push(Row::new(what, of("read") / 4096.0, shown).limit(AtMost(most), limit));
            let share = of("rate") / of("disk rate");
            let what = format!("get from disk, {threads} thread(s), relative to the disk");
            let (gets, disk) = (of("rate"), of("disk rate"));
            rows.push(Row::new(what, share, format!("{share:.2} ({gets:.0}/s of {disk:.0}/s)")));
        }
        for (suffix, when) in [("", "after the fill"), (" after close", "after reopening")] {
            let share = self.get(&format!("false reads{suffix}"));
            let row = Row::new(
                format!("false reads per absent key, {when}"),
                share,
                format!("{share:.6}"),
            );
            rows.push(row.limit(AtMost(1e-3), "<= 0.001"));
        }
        rows
    }

    fn openings(&self) -> Vec<Row> {
        let (keys, compared) = (self.get("acknowledged"), self.get("compared"));
        let shown = format!("0 of {}, {} compared", count(keys as u64), count(compared as u64));
        vec![
            Row::duration("close", self.get("close")),
            Row::duration("open after a close", self.get("open after close")).within(20e9),
            Row::duration("the same, nothing in the page cache", self.get("open cold")),
            Row::duration(
                "open after a close, per key",
                self.get("open after close") / self.shape.keys as f64,
            ),
            Row::duration("open after kill -9 while writing", self.get("open after kill"))
                .within(30e9),
            // A missing record is an error that ends the run.
            Row::new("acknowledged writes that the kill lost", 0.0, shown).limit(AtMost(0.0), "0"),
        ]
    }

    /// The report as Markdown.
    pub fn text(&self) -> String {
        let Shape { keys, value } = self.shape;
        let mut out = format!(
            "{} records of 8 + {value} bytes, filled in {} on {}. A thread that sleeps for a \
             millisecond at a time woke up at most {} late, and the hypervisor took {} of \
             processor time. {} puts took more than 20 ms.\n\n",
            count(keys),
            time(self.get("fill seconds") * 1e9),
            machine::describe(),
            time(self.get("late")),
            time(self.get("stolen")),
            self.get("put slow"),
        );
        out.push_str("| what | bound | measured | |\n|---|---:|---:|---|\n");
        for row in self.rows() {
            let bound = row.bound.as_ref().map_or("", |(_, shown)| shown);
            let verdict = row.bound.as_ref().map_or("", |(bound, _)| bound.verdict(row.value));
            let _ = writeln!(out, "| {} | {bound} | {} | {verdict} |", row.what, row.shown);
        }
        let rates = (0..PARTS).map(|part| self.get(&format!("tenth {part}")) / 1e3);
        let rates: Vec<String> = rates.map(|rate| format!("{rate:.0}")).collect();
        let _ = write!(
            out,
            "\nPuts per second in each tenth of the fill, in thousands: {}.\n\n\
             | keys | value | memory: formula | measured | disk: formula | measured | open after \
             close |\n|---:|---:|---:|---:|---:|---:|---:|\n{}\n",
            rates.join(", "),
            self.line()
        );
        out
    }

    /// The row of the table "Scale" in `docs/log.md`.
    fn line(&self) -> String {
        let Shape { keys, value } = self.shape;
        let shown = |value: f64| bytes(value as u64);
        format!(
            "| {} | {value} | {} | {} | {} | {} | {} |",
            count(keys),
            shown(self.shape.memory()),
            shown(self.get("index after close").max(self.get("index"))),
            shown(self.shape.disk()),
            shown(self.get("disk")),
            time(self.get("open after close"))
        )
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let row = |row: Row| {
            let bound = row.bound.as_ref().map(|(_, shown)| shown.clone());
            let is_met = row.is_met();
            json!({ "what": row.what, "value": row.value, "bound": bound, "met": is_met })
        };
        json!({
            "keys": self.shape.keys,
            "value": self.shape.value,
            "machine": machine::describe(),
            "date": machine::today(),
            "formulas": { "memory": self.shape.memory(), "disk": self.shape.disk() },
            "rows": self.rows().into_iter().map(row).collect::<Vec<_>>(),
            "figures": self.figures,
        })
    }
}
