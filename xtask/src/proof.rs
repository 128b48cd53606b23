//! The long proofs: tests that `cargo xtask test` runs at a small size, here at full size in
//! release.
//!
//! Each part is a set of tests that read their size from the environment, the wheel of the Python
//! package, or a fuzz target. A variable that is already set takes precedence, so that a part can
//! be made larger or smaller.

use crate::tools::{is_on_path, is_root};
use crate::{Outcome, cargo, finish, fuzz, wheel};
use std::time::{Duration, Instant};

/// A set of tests with their sizes.
struct Proof {
    name: &'static str,
    what: &'static str,
    /// Arguments of `cargo test --release`.
    args: &'static [&'static str],
    /// Environment variables and their values.
    sizes: &'static [(&'static str, &'static str)],
    needs: fn() -> Outcome,
}

const PROOFS: [Proof; 8] = [
    Proof {
        name: "log",
        what: "power cuts, faults, random work, damage, kills and histories of the log",
        args: &["-p", "firndb", "--lib", "log::tests::proof"],
        sizes: &[
            ("FIRNDB_CRASH_IMAGES", "1000000"),
            ("FIRNDB_MODEL_STEPS", "1000000"),
            ("FIRNDB_KILLS", "200"),
            ("FIRNDB_HISTORIES", "50000"),
            ("FIRNDB_FAULT_SHARE", "1"),
            ("FIRNDB_FAULT_ROUNDS", "2"),
        ],
        needs: || Ok(()),
    },
    Proof {
        name: "power",
        what: "a real file system that loses its power under a log",
        args: &[
            "-p",
            "firndb",
            "--lib",
            "a_file_system_that_loses_power_keeps_synced_writes",
            "--ignored",
        ],
        sizes: &[("FIRNDB_POWER_CUTS", "500")],
        needs: loop_devices,
    },
    Proof {
        name: "collection",
        what: "random queries on random collections, compared with a model",
        args: &["-p", "firndb", "--lib", "answers_match_the_model"],
        sizes: &[("FIRNDB_MODEL_QUERIES", "200000")],
        needs: || Ok(()),
    },
    Proof {
        name: "table",
        what: "probes of absent keys, random tables compared with a model, forged tables",
        args: &["-p", "firndb", "--lib", "table::tests"],
        sizes: &[
            ("FIRNDB_TABLE_PROBES", "20000000"),
            ("FIRNDB_MODEL_TABLES", "200"),
            ("FIRNDB_DAMAGES", "20000"),
        ],
        needs: || Ok(()),
    },
    Proof {
        name: "indexer",
        what: "an indexer killed over and over, and random feeds compared with a model",
        args: &["-p", "firndb", "--lib", "indexer::tests"],
        sizes: &[("FIRNDB_KILLS", "100"), ("FIRNDB_STEPS", "3000")],
        needs: || Ok(()),
    },
    Proof {
        name: "catalog",
        what: "queries while versions are swapped",
        args: &["-p", "firndb", "--test", "it", "catalog"],
        sizes: &[("FIRNDB_SWAPS", "10000")],
        needs: || Ok(()),
    },
    Proof {
        name: "catalog-kills",
        what: "publishers, clean-ups, pins and a reader in processes that are killed",
        args: &["-p", "firndb-cli", "--test", "cli", "catalog_proof"],
        sizes: &[("FIRNDB_CATALOG_ROUNDS", "3000")],
        needs: || Ok(()),
    },
    Proof {
        name: "redis",
        what: "random commands of the Redis protocol, compared with Redis",
        args: &["-p", "firndb-server", "--test", "server", "random_commands"],
        sizes: &[("FIRNDB_REDIS_COMMANDS", "100000")],
        needs: || match is_on_path("redis-server") {
            true => Ok(()),
            false => Err("`redis-server` is not on PATH".to_string()),
        },
    },
];

/// The part that builds and tests the wheel.
const WHEEL: &str = "wheel";

/// Duration of each fuzz target in seconds.
const FUZZ_SECONDS: u64 = 60;

fn loop_devices() -> Outcome {
    if !is_root() {
        return Err("only root can mount a file system".to_string());
    }
    match ["mkfs.ext4", "mount"].iter().find(|program| !is_on_path(program)) {
        Some(program) => Err(format!("`{program}` is not on PATH")),
        None => Ok(()),
    }
}

/// The result of a part.
enum End {
    Ok,
    Failed(String),
    Skipped(String),
}

/// Runs all parts, or those named by `--only`, even if one fails; lists them with their durations.
pub fn run(args: &[&str]) -> Outcome {
    let wanted = match args {
        [] => names(),
        ["--list"] => {
            names().iter().for_each(|name| println!("{name:12} {}", describe(name)));
            return Ok(());
        }
        ["--only", wanted] => wanted.split(',').map(str::to_string).collect(),
        _ => return Err("give nothing, `--list`, or `--only NAME,NAME`".to_string()),
    };
    if let Some(unknown) = wanted.iter().find(|name| !names().contains(name)) {
        return Err(format!("there is no part `{unknown}`; parts are {}", names().join(", ")));
    }
    let mut lines = Vec::new();
    let mut failed = 0;
    for name in &wanted {
        println!("== {name}: {}", describe(name));
        let start = Instant::now();
        let end = prove(name);
        failed += usize::from(matches!(end, End::Failed(_)));
        lines.push(line(name, &end, start.elapsed()));
    }
    lines.iter().for_each(|line| println!("{line}"));
    if failed > 0 { Err(format!("{failed} of {} parts failed", wanted.len())) } else { Ok(()) }
}

fn line(name: &str, end: &End, time: Duration) -> String {
    let end = match end {
        End::Ok => "ok".to_string(),
        End::Failed(why) => format!("FAILED: {why}"),
        End::Skipped(why) => format!("skipped: {why}"),
    };
    format!("proof {name:15} {:8.1} s  {end}", time.as_secs_f64())
}

fn names() -> Vec<String> {
    let fuzz = fuzz::targets().map(|target| format!("fuzz-{target}"));
    let proofs = PROOFS.iter().map(|proof| proof.name.to_string());
    proofs.chain([WHEEL.to_string()]).chain(fuzz).collect()
}

fn describe(name: &str) -> String {
    if name == WHEEL {
        return "the wheel of the Python package, installed and tested".to_string();
    }
    let proof = PROOFS.iter().find(|proof| proof.name == name).map(|proof| proof.what.to_string());
    proof.unwrap_or_else(|| format!("{FUZZ_SECONDS} s of a fuzz target"))
}

fn prove(name: &str) -> End {
    let (needs, outcome): (Outcome, Box<dyn Fn() -> Outcome>) =
        match PROOFS.iter().find(|proof| proof.name == name) {
            Some(proof) => ((proof.needs)(), Box::new(|| test(proof))),
            None if name == WHEEL => (wheel::missing(), Box::new(wheel::run)),
            None => {
                let target = name.trim_start_matches("fuzz-");
                (fuzz::missing(), Box::new(move || fuzz::fuzz(target, FUZZ_SECONDS)))
            }
        };
    match needs.map(|()| outcome()) {
        Err(why) => End::Skipped(why),
        Ok(Ok(())) => End::Ok,
        Ok(Err(why)) => End::Failed(why),
    }
}

fn test(proof: &Proof) -> Outcome {
    let (own, more) = match proof.args {
        [own @ .., last] if last.starts_with("--") => (own, Some(*last)),
        own => (own, None),
    };
    let mut command = cargo(&["test", "--release"]);
    command.args(own).args(["--", "--nocapture", "--test-threads", "1"]).args(more);
    for (name, value) in proof.sizes {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    finish(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_unique_name() {
        let mut names = names();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().any(|name| name == "log"));
        assert!(names.iter().any(|name| name == "fuzz-segment"));
    }

    #[test]
    fn a_part_that_does_not_exist_is_an_error() {
        assert!(run(&["--only", "log,nothing"]).unwrap_err().contains("no part `nothing`"));
    }

    #[test]
    fn lines_report_the_result_of_a_part() {
        let time = Duration::from_millis(61_250);
        let text = line("fuzz-hint", &End::Skipped("no c++".into()), time);
        assert_eq!(text, "proof fuzz-hint           61.2 s  skipped: no c++");
        assert!(line("log", &End::Failed("bad".into()), time).ends_with("FAILED: bad"));
    }
}
