//! The benchmark of one large store at a small size, through the same processes as a full run: the
//! formulas hold, and what is too large for the machine is skipped.

use firndb_bench::scale::formulas::Shape;
use firndb_bench::scale::report::Outcome;
use firndb_bench::scale::runner::{Options, run};
use std::path::{Path, PathBuf};
use std::process::Command;

fn options(name: &str, shape: Shape) -> Options {
    Options {
        program: env!("CARGO_BIN_EXE_firn-bench").into(),
        dir: PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name),
        shape,
        seconds: 1,
        millis: 200,
    }
}

#[test]
fn a_small_run_loses_nothing_and_has_the_size_of_the_formula() {
    for (name, shape) in [
        ("scale-small", Shape { keys: 300_000, value: 16 }),
        ("scale-long", Shape { keys: 50_000, value: 1024 }),
    ] {
        let options = options(name, shape);
        let Outcome::Measured(report) = run(&options).unwrap() else {
            panic!("a small store was skipped");
        };
        let get = |figure: &str| report.figures[figure];
        assert!(get("acknowledged") > 0.0 && get("compared") > 1000.0);
        assert_eq!(get("keys"), shape.keys as f64);
        let disk = get("disk") / shape.disk();
        assert!((0.7..1.1).contains(&disk), "{name}: disk is {disk} of the formula");
        assert!(get("false reads") < 1e-3 && get("false reads after close") < 1e-3);
        let text = report.text();
        assert!(text.contains("| acknowledged writes that the kill lost | 0 | 0 of "), "{text}");
        assert_eq!(report.json()["keys"], shape.keys);
        assert!(!options.dir.exists(), "the store is left");
        assert!(!options.dir.with_extension("journal").exists(), "the journal is left");
    }
}

#[test]
fn a_store_that_does_not_fit_is_skipped() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_firn-bench"));
    let ran = bench.args(["limits", "--keys", "1000000000000"]).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(text.starts_with("skipped: bench limits --keys 1000000000000: "), "{text}");
    assert!(text.contains(" of disk are needed, "), "{text}");
}

#[test]
fn values_hold_number_and_version() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_firn-bench"));
    let ran = bench.args(["limits", "--keys", "1000", "--value", "15"]).output().unwrap();
    assert!(!ran.status.success());
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    assert!(!target.join("bench/scale-1000-15").exists());
}
