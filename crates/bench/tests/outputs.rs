//! Files for figures, before there are figures.

use firndb_bench::outputs::prepare;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn what_cannot_be_written_is_told_before_the_run() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outputs");
    let path = dir.join("new/folder/figures.json");
    prepare(&path).unwrap();
    fs::write(&path, "{}").unwrap();
    prepare(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}", "it is not emptied");
    prepare(dir.join("new")).unwrap_err();
    prepare(path.join("page.md")).unwrap_err();
    // Lists with commas and with blanks, before another option.
    for ours in [&["firndb,floor"][..], &["firndb", "floor"], &["firndb,", "floor"]] {
        let mut bench = Command::new(env!("CARGO_BIN_EXE_firn-bench"));
        bench.args(["table", "--records", "1", "--workloads", "small", "--peers", "none"]);
        bench.arg("--ours").args(ours).arg("--json").arg(&dir);
        let ran = bench.output().unwrap();
        let (told, error) = (String::from_utf8_lossy(&ran.stdout), &ran.stderr);
        let error = String::from_utf8_lossy(error);
        assert_eq!((ran.status.code(), &*told), (Some(1), ""), "{error}");
        assert!(error.contains(&*dir.to_string_lossy()), "{error}");
    }
    fs::remove_dir_all(dir).unwrap();
}
