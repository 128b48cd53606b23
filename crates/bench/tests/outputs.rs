//! Files for figures, before there are figures.

use firndb_bench::outputs::writable;
use std::fs;
use std::path::Path;

#[test]
fn what_cannot_be_written_is_told_before_the_run() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outputs");
    let asked = |name: &str| writable(dir.join(name).to_str().unwrap());
    let path = asked("new/folder/figures.json").unwrap();
    fs::write(&path, "{}").unwrap();
    asked("new/folder/figures.json").unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "{}", "it is not emptied");
    asked("new").unwrap_err();
    asked("new/folder/figures.json/page.md").unwrap_err();
    fs::remove_dir_all(dir).unwrap();
}
