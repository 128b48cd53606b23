//! Output files: checked before the run, and written by a small run.

use firndb_bench::outputs::prepare;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A number of records that no other run uses.
const RECORDS: &str = "1097";

fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn bench(ours: &[&str], json: &Path) -> Output {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_firn-bench"));
    bench.args(["table", "--records", RECORDS, "--workloads", "small", "--rounds", "1"]);
    bench.args(["--budget", "5", "--peers", "none", "--ours"]).args(ours).arg("--json").arg(json);
    bench.output().unwrap()
}

#[test]
fn unwritable_outputs_are_reported_before_the_run() {
    let dir = scratch("outputs");
    let path = dir.join("new/folder/figures.json");
    prepare(&path).unwrap();
    fs::write(&path, "{}").unwrap();
    prepare(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}", "it is not emptied");
    prepare(dir.join("new")).unwrap_err();
    prepare(path.join("page.md")).unwrap_err();
    let ran = bench(&["firndb"], &dir);
    let error = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), &ran.stdout[..]), (Some(1), &[][..]), "{error}");
    assert!(error.contains(&*dir.to_string_lossy()), "{error}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn lists_of_engines_take_commas_and_blanks() {
    let dir = scratch("lists");
    let json = dir.join("figures.json");
    for ours in [&["firndb,floor"][..], &["firndb", "floor"], &["firndb,", "floor"]] {
        let ran = bench(ours, &json);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let text = fs::read_to_string(&json).unwrap();
        let figures: serde_json::Value = serde_json::from_str(&text).unwrap();
        let engines = figures[0]["engines"].as_array().unwrap();
        let names: Vec<_> = engines.iter().map(|engine| &engine["engine"]).collect();
        assert_eq!(names, ["firndb", "floor"]);
    }
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    fs::remove_dir_all(target.join("bench").join(format!("table-small-{RECORDS}"))).unwrap();
    fs::remove_dir_all(dir).unwrap();
}
