//! The benchmark of the Python package, beside lmdb and rocksdict, the library in Rust, and `firn`.
//!
//! The programs in `bindings/python/bench` measure: each holds all engines in one process, where
//! rounds of the engines alternate, and compares their answers first. For [`page`] the same page is
//! measured in Rust, by this program as a child, in turn with Python. `cargo xtask bench python`
//! prepares the environment: the package as a wheel built in release mode, and the other packages.

pub mod markdown;
pub mod page;

use crate::bound::Bound;
use crate::units::quantile;
use firndb_bench_protocol::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What to measure, and how often.
pub struct Options {
    /// The Python of an environment that has the package and the peers.
    pub python: PathBuf,
    /// The programs.
    pub scripts: PathBuf,
    /// Directory for stores; its contents are replaced.
    pub dir: PathBuf,
    /// Names of [`PARTS`].
    pub parts: Vec<String>,
    /// Rounds, in each of which every engine is measured.
    pub rounds: usize,
    /// Records of the stores, and rows of the table, in per cent of the default.
    pub percent: u64,
}

/// Something that is measured: a program, its sizes, and its targets.
pub struct Part {
    /// The name of the program, without `.py`.
    pub name: &'static str,
    /// The heading on the page.
    pub title: &'static str,
    /// What is measured, in sentences.
    pub text: &'static str,
    /// What one figure is for.
    pub unit: &'static str,
    /// The option for the size, and its default.
    size: (&'static str, u64),
    /// Engine, engine it is compared with, and the bound of a ratio.
    targets: &'static [Target],
}

/// A bound of the ratio of two engines.
pub struct Target {
    /// What the ratio is, in words.
    pub what: &'static str,
    /// The time of this engine is divided
    over: &'static str,
    /// by the time of this one.
    under: &'static str,
    /// The bound of the ratio.
    pub bound: Bound,
}

/// The parts of the benchmark.
pub const PARTS: [Part; 5] = [
    Part {
        name: "gets",
        title: "Single gets of 100 bytes",
        text: "Random keys of 16 bytes, one `get` per call. lmdb reads all in one transaction, \
               which is its fastest form, and rocksdict is in raw mode with a block cache that \
               holds everything and a Bloom filter. The loop is part of the times: `empty` calls \
               `bool(key)`.",
        unit: "get",
        size: ("records", 1_000_000),
        targets: &[
            Target {
                what: "gets: times rocksdict",
                over: "rocksdict",
                under: "firndb",
                bound: Bound::AtLeast(1.5),
            },
            Target {
                what: "gets: times lmdb",
                over: "lmdb",
                under: "firndb",
                bound: Bound::AtLeast(1.0),
            },
        ],
    },
    Part {
        name: "get_many",
        title: "1,000 keys to Arrow",
        text: "`get_many(keys, arrow=True)` beside a loop over lmdb's `get` that makes a list, and \
               beside the same loop whose list becomes a `pyarrow` array.",
        unit: "key",
        size: ("records", 1_000_000),
        targets: &[Target {
            what: "get_many: times a loop over lmdb",
            over: "lmdb loop",
            under: "firndb",
            bound: Bound::AtLeast(5.0),
        }],
    },
    Part {
        name: "puts",
        title: "Batched puts",
        text: "New records in batches of 1,000, into an empty store: `put_many` of a list of \
               pairs, a `batch()` that is written as a whole, a `WriteBatch` of rocksdict, \
               `putmulti` in one transaction of lmdb. No engine waits for the disk. The targets \
               are for the puts; other lines include opening and closing the store.",
        unit: "record",
        size: ("records", 500_000),
        targets: &[
            Target {
                what: "put_many: times rocksdict",
                over: "rocksdict",
                under: "firndb",
                bound: Bound::AtLeast(3.0),
            },
            Target {
                what: "batch(): times rocksdict",
                over: "rocksdict",
                under: "firndb, batch",
                bound: Bound::AtLeast(3.0),
            },
        ],
    },
    Part {
        name: "page",
        title: "A filtered page of 100 hits into polars",
        text: "A query with two conditions and an order, and five fields: \
               `search(...).to_polars()`. The Rust call is the same: it parses the query, finds \
               the hits and reads their fields into an Arrow batch.",
        unit: "page",
        size: ("rows", 1_000_000),
        targets: &[Target {
            what: "page: times the Rust call",
            over: "firndb, to_polars",
            under: "Rust",
            bound: Bound::AtMost(3.0),
        }],
    },
    Part {
        name: "build",
        title: "A table from Arrow",
        text: "`build_table` from a `pyarrow` table in memory, beside `firn table build` from an \
               Arrow IPC file of the same rows, which is in the page cache. The tables are equal \
               byte for byte.",
        unit: "row",
        size: ("rows", 5_000_000),
        targets: &[Target {
            what: "build: times the command line",
            over: "firndb",
            under: "firn",
            bound: Bound::AtMost(1.2),
        }],
    },
];

/// The figures of a part.
pub struct Figures {
    /// What was measured.
    pub part: &'static Part,
    /// The size it had.
    pub size: u64,
    /// Engines and their nanoseconds in each round.
    pub engines: BTreeMap<String, Vec<f64>>,
}

impl Figures {
    /// The median of an engine.
    pub fn median(&self, engine: &str) -> Option<f64> {
        self.engines.get(engine).map(|rounds| median(rounds.clone()))
    }

    /// Each target with its ratio: the median of the ratios of the rounds.
    pub fn targets(&self) -> impl Iterator<Item = (&'static Target, f64)> {
        self.part.targets.iter().filter_map(|target| {
            let (over, under) = (self.engines.get(target.over)?, self.engines.get(target.under)?);
            let ratios = over.iter().zip(under).map(|(over, under)| over / under);
            Some((target, median(ratios.collect())))
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// Versions of Python and of the packages, and the figures.
pub struct Report {
    /// The versions, as text.
    pub versions: String,
    /// The parts that were measured.
    pub figures: Vec<Figures>,
}

/// Runs the parts.
pub fn run(options: &Options) -> Result<Report> {
    let versions = output(Command::new(&options.python).args(["-c", VERSIONS]))?;
    let mut figures = Vec::new();
    for name in &options.parts {
        let part = PARTS.iter().find(|part| part.name == name);
        let part = part.ok_or_else(|| format!("there is no part `{name}`"))?;
        eprintln!("{}", part.title);
        figures.push(measure(options, part)?);
    }
    Ok(Report { versions: versions.trim().to_string(), figures })
}

const VERSIONS: &str = "\
import importlib.metadata as m, platform
names = ['lmdb', 'rocksdict', 'polars', 'pyarrow']
print(', '.join([f'Python {platform.python_version()}', *(f'{n} {m.version(n)}' for n in names)]))";

fn measure(options: &Options, part: &'static Part) -> Result<Figures> {
    let dir = options.dir.join(part.name);
    let _ = std::fs::remove_dir_all(&dir); // Fails if there is none.
    let (option, size) = part.size;
    let size = (size * options.percent / 100).max(1000);
    let mut command = Command::new(&options.python);
    command.arg(options.scripts.join(part.name).with_extension("py")).arg(&dir);
    command.arg(format!("--{option}={size}")).arg(format!("--rounds={}", options.rounds));
    command.env("FIRN_BENCH", std::env::current_exe()?);
    let text = output(&mut command)?;
    let _ = std::fs::remove_dir_all(&dir); // The next part has the disk to itself.
    let line = text.lines().last().unwrap_or_default();
    Ok(Figures { part, size, engines: parse(line)? })
}

/// The engines of a line of figures.
fn parse(line: &str) -> Result<BTreeMap<String, Vec<f64>>> {
    let wrong = || format!("not a line of figures: {line}");
    let value: Value = serde_json::from_str(line).map_err(|_| wrong())?;
    let engines = value["nanos"].as_object().ok_or_else(wrong)?;
    let rounds = |rounds: &Value| -> Option<Vec<f64>> {
        rounds.as_array()?.iter().map(Value::as_f64).collect()
    };
    let engines = engines.iter().map(|(name, nanos)| Some((name.clone(), rounds(nanos)?)));
    engines.collect::<Option<_>>().ok_or_else(|| wrong().into())
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

    #[test]
    fn a_ratio_is_the_median_of_the_rounds() {
        let engines = parse(
            r#"{"nanos": {"firndb": [10, 20, 10.5], "lmdb": [10, 22, 11],
                          "rocksdict": [30, 30, 31]}}"#,
        )
        .unwrap();
        let figures = Figures { part: &PARTS[0], size: 1, engines };
        assert_eq!(figures.median("firndb"), Some(10.5));
        assert_eq!(figures.median("none"), None);
        let targets: Vec<_> = figures.targets().collect();
        assert_eq!(targets.len(), 2);
        assert!((targets[0].1 - 31.0 / 10.5).abs() < 1e-9, "{}", targets[0].1);
        assert!(targets[0].0.bound.holds(targets[0].1));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in ["", "{}", "[]", r#"{"nanos": {"a": 1}}"#, r#"{"nanos": {"a": ["b"]}}"#] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_part_has_a_program() {
        let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/python/bench");
        for part in &PARTS {
            let path = std::path::Path::new(scripts).join(part.name).with_extension("py");
            let text = std::fs::read_to_string(&path).unwrap();
            for target in part.targets {
                for engine in [target.over, target.under] {
                    assert!(text.contains(&format!("\"{engine}\"")), "{}: {engine}", part.name);
                }
            }
        }
    }
}
