//! The benchmarks of the packages for other languages: [`python`] and [`java`].
//!
//! Programs in those languages measure, each a [`Part`]: they hold or start all engines, alternate
//! between them, compare their answers first, and print nanoseconds as a line of JSON. `cargo xtask
//! bench` builds the packages in release mode, and gets the libraries of the other engines.

pub mod java;
pub mod markdown;
pub mod page;
pub mod python;

use crate::bound::Bound;
use crate::units::quantile;
use firndb_bench_protocol::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The benchmark of a package.
pub struct Suite {
    /// The heading of the page.
    pub title: &'static str,
    /// The verb of `cargo xtask bench`.
    pub verb: &'static str,
    /// How it measures, in sentences.
    pub text: &'static str,
    /// What it measures.
    pub parts: &'static [Part],
}

/// What to measure, and how often.
pub struct Options {
    /// Directory for stores; its contents are replaced.
    pub dir: PathBuf,
    /// Names of parts; none means all.
    pub parts: Vec<String>,
    /// Rounds, in each of which every engine is measured.
    pub rounds: usize,
    /// Records of the stores, and rows of the tables, in per cent of the default.
    pub percent: u64,
}

/// Something that is measured by one run of a program, its size, and its targets.
pub struct Part {
    /// The name that the program has for it.
    pub name: &'static str,
    /// The heading on the page.
    pub title: &'static str,
    /// What is measured, in sentences.
    pub text: &'static str,
    /// What one figure is for.
    pub unit: &'static str,
    /// The option for the size, and its default.
    size: (&'static str, u64),
    /// Bounds of its figures.
    targets: &'static [Target],
}

/// A bound of a figure.
pub struct Target {
    /// What the figure is, in words.
    pub what: &'static str,
    /// How it is computed.
    measure: Measure,
    /// The bound.
    pub bound: Bound,
}

enum Measure {
    /// The time of `over`, less some nanoseconds, divided by the time of `under`.
    Ratio { over: &'static str, less: f64, under: &'static str },
    /// The bytes that an engine allocates.
    Bytes(&'static str),
}

impl Target {
    /// A bound of the time of one engine divided by that of another.
    const fn ratio(what: &'static str, over: &'static str, under: &'static str, b: Bound) -> Self {
        Target { what, measure: Measure::Ratio { over, less: 0.0, under }, bound: b }
    }

    /// The same with this number of nanoseconds subtracted from the time that is divided.
    const fn less(mut self, nanos: f64) -> Self {
        if let Measure::Ratio { less, .. } = &mut self.measure {
            *less = nanos;
        }
        self
    }

    /// A bound of the bytes that an engine allocates.
    const fn bytes(what: &'static str, engine: &'static str, bound: Bound) -> Self {
        Target { what, measure: Measure::Bytes(engine), bound }
    }

    /// The figure: the median of those of the rounds.
    fn figure(&self, figures: &Figures) -> Option<f64> {
        match self.measure {
            Measure::Ratio { over, less, under } => {
                let (over, under) = (figures.nanos.get(over)?, figures.nanos.get(under)?);
                let ratios = over.iter().zip(under).map(|(over, under)| (over - less) / under);
                Some(median(ratios.collect()))
            }
            // In tenths: a call that allocates anything allocates more than that, and what a
            // framework allocates per second is less.
            Measure::Bytes(engine) => {
                Some((median(figures.bytes.get(engine)?.clone()) * 10.0).round() / 10.0)
            }
        }
    }
}

/// The figures of each engine, one for each round.
type Rounds = BTreeMap<String, Vec<f64>>;

/// The figures of a part.
pub struct Figures {
    /// What was measured.
    pub part: &'static Part,
    /// The size it had.
    pub size: u64,
    /// Nanoseconds of each engine.
    pub nanos: Rounds,
    /// Bytes that each engine allocates, if the program measures that.
    pub bytes: Rounds,
}

impl Figures {
    /// Each target with its figure.
    pub fn targets(&self) -> impl Iterator<Item = (&'static Target, f64)> {
        self.part.targets.iter().filter_map(|target| Some((target, target.figure(self)?)))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// The figures of a run.
pub struct Report {
    /// The benchmark.
    pub suite: &'static Suite,
    /// The versions of the language and of the packages, as text.
    pub versions: String,
    /// The parts that were measured.
    pub figures: Vec<Figures>,
}

/// Runs parts. `program` is the command that measures a part, `versions` one that prints versions.
fn run(
    suite: &'static Suite,
    options: &Options,
    versions: &mut Command,
    program: impl Fn(&Part) -> Command,
) -> Result<Report> {
    let versions = output(versions)?.trim().to_string();
    for name in &options.parts {
        if !suite.parts.iter().any(|part| part.name == name) {
            return Err(format!("there is no part `{name}`").into());
        }
    }
    let is_chosen = |part: &&Part| {
        options.parts.is_empty() || options.parts.iter().any(|name| name == part.name)
    };
    let mut figures = Vec::new();
    for part in suite.parts.iter().filter(is_chosen) {
        eprintln!("{}", part.title);
        figures.push(measure(options, part, program(part))?);
    }
    Ok(Report { suite, versions, figures })
}

fn measure(options: &Options, part: &'static Part, mut program: Command) -> Result<Figures> {
    let dir = options.dir.join(part.name);
    let _ = std::fs::remove_dir_all(&dir); // Fails if there is none.
    let (option, size) = part.size;
    let size = (size * options.percent / 100).max(1000);
    program.arg(&dir).arg(format!("--{option}={size}"));
    program.arg(format!("--rounds={}", options.rounds));
    program.env("FIRN_BENCH", std::env::current_exe()?);
    let text = output(&mut program)?;
    let _ = std::fs::remove_dir_all(&dir); // The next part has the disk to itself.
    let (nanos, bytes) = parse(text.lines().last().unwrap_or_default())?;
    let figures = Figures { part, size, nanos, bytes };
    if figures.targets().count() != part.targets.len() {
        return Err(format!("{} did not measure what the targets compare", part.name).into());
    }
    Ok(figures)
}

/// The nanoseconds and the bytes of a line of figures.
fn parse(line: &str) -> Result<(Rounds, Rounds)> {
    let wrong = || format!("not a line of figures: {line}");
    let value: Value = serde_json::from_str(line).map_err(|_| wrong())?;
    let nanos = rounds(&value["nanos"]).ok_or_else(wrong)?;
    let bytes = value.get("bytes").map_or(Some(Rounds::new()), rounds);
    Ok((nanos, bytes.ok_or_else(wrong)?))
}

fn rounds(engines: &Value) -> Option<Rounds> {
    let rounds = |rounds: &Value| -> Option<Vec<f64>> {
        rounds.as_array()?.iter().map(Value::as_f64).collect()
    };
    let engines = engines.as_object()?.iter();
    engines.map(|(name, figures)| Some((name.clone(), rounds(figures)?))).collect()
}

/// What a command prints, whose messages go to standard error.
fn output(command: &mut Command) -> Result<String> {
    let out = command.stderr(Stdio::inherit()).output();
    let out = out.map_err(|e| format!("cannot start {command:?}: {e}"))?;
    if !out.status.success() {
        return Err(format!("{command:?} ended with {}", out.status).into());
    }
    Ok(String::from_utf8(out.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    static TARGETS: [Target; 3] = [
        Target::ratio("times b", "b", "a", Bound::AtLeast(2.0)),
        Target::ratio("less 2 ns", "b", "a", Bound::AtMost(2.5)).less(2.0),
        Target::bytes("bytes", "a", Bound::AtMost(0.0)),
    ];
    static PART: Part = Part {
        name: "part",
        title: "A part",
        text: "Something.",
        unit: "get",
        size: ("records", 1000),
        targets: &TARGETS,
    };

    #[test]
    fn the_figure_of_a_target_is_the_median_of_the_rounds() {
        let line = r#"{"nanos": {"a": [10, 20, 10.5], "b": [30, 30, 31], "c": [1, 1, 1]},
                       "bytes": {"a": [0, 0.04, 8]}}"#;
        let (nanos, bytes) = parse(line).unwrap();
        let figures = Figures { part: &PART, size: 1, nanos, bytes };
        let found: Vec<f64> = figures.targets().map(|(_, figure)| figure).collect();
        let expected = [31.0 / 10.5, 29.0 / 10.5, 0.0];
        assert_eq!(found.len(), 3);
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        let verdicts: Vec<bool> =
            figures.targets().map(|(t, figure)| t.bound.holds(figure)).collect();
        assert_eq!(verdicts, [true, false, true]);
    }

    #[test]
    fn a_target_whose_engine_was_not_measured_has_no_figure() {
        let (nanos, bytes) = parse(r#"{"nanos": {"b": [30]}}"#).unwrap();
        assert_eq!(Figures { part: &PART, size: 1, nanos, bytes }.targets().count(), 0);
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "{}",
            "[]",
            r#"{"nanos": {"a": 1}}"#,
            r#"{"nanos": {"a": ["b"]}}"#,
            r#"{"nanos": {"a": [1]}, "bytes": [1]}"#,
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    /// Checks that the program of each part has its engines.
    pub fn check_engines(suite: &Suite, source: impl Fn(&Part) -> String) {
        for part in suite.parts {
            let text = source(part);
            for target in part.targets {
                let engines = match target.measure {
                    Measure::Ratio { over, under, .. } => vec![over, under],
                    Measure::Bytes(engine) => vec![engine],
                };
                for engine in engines {
                    assert!(text.contains(&format!("\"{engine}\"")), "{}: {engine}", part.name);
                }
            }
        }
    }
}
