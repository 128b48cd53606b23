//! Tests of the program that runs pytest.

#[path = "python.rs"]
#[expect(dead_code, reason = "the tests prepare no environment")]
mod python;
#[path = "report.rs"]
mod report;

use python::{Base, Unable};
use report::{Counts, Selection, selection};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[test]
fn the_last_line_of_pytest_is_counted() {
    let counts = |passed, failed, skipped| Some(Counts { passed, failed, skipped });
    for (line, expected) in [
        ("===== 3 passed, 1 skipped in 0.12s =====", counts(3, 0, 1)),
        ("3 passed in 65.20s (0:01:05)", counts(3, 0, 0)),
        ("= 1 failed, 2 passed, 3 errors, 4 deselected, 1 warning in 2.00s =", counts(2, 4, 0)),
        ("= 1 error in 0.10s =", counts(0, 1, 0)),
        ("= 1 xfailed, 2 xpassed in 0.10s =", counts(1, 2, 0)),
        ("= 7 deselected in 0.10s =", counts(0, 0, 0)),
        ("===== no tests ran in 0.01s =====", counts(0, 0, 0)),
        ("=== 3 passed in a jiffy ===", None),
        ("a test in 3 steps", None),
        ("=== short test summary info ===", None),
        ("=== 3 passed, and more in 1.0s ===", None),
        ("", None),
    ] {
        assert_eq!(Counts::parse(line), expected, "{line}");
    }
}

#[test]
fn arguments_of_cargo_select_tests() {
    let select = |args: &str| selection(args.split_whitespace().map(OsString::from));
    let run = |expression: &str| Selection::Run(Some(expression.to_string()));
    assert_eq!(select(""), Selection::Run(None));
    assert_eq!(select("--nocapture --test-threads 1 -q"), Selection::Run(None));
    assert_eq!(select("--test-threads=1 log fork"), run("(log or fork)"));
    assert_eq!(select("log --skip fork --exact"), run("(log) and not fork"));
    assert_eq!(select("--skip log::open"), Selection::Run(None));
    assert_eq!(select("test_keys[1-a]"), run("(test_keys[1-a])"));
    for nothing in ["log::open", "a(b", "or", "--ignored", "--list --format terse"] {
        assert_eq!(select(nothing), Selection::Nothing, "{nothing}");
    }
    assert_eq!(select("log::open log"), run("(log)"));
}

/// A program that answers like a Python: what it prints, and whether it has `venv`.
fn fake(name: &str, version: &str, has_venv: bool) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-python");
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join(name);
    let status = if has_venv { 0 } else { 1 };
    let script = format!(
        "#!/bin/sh\n\
         case \"$2\" in\n\
         *venv*) exit {status} ;;\n\
         *) printf '%s\\n' '{version}' ;;\n\
         esac\n"
    );
    // Renamed when it is complete: a program that is open for writing cannot be started.
    let temporary = dir.join(format!("{name}.{}", std::process::id()));
    fs::write(&temporary, script).unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&temporary, &path).unwrap();
    path
}

#[test]
fn a_machine_without_a_suitable_python_skips_the_tests() {
    for (path, why) in [
        (fake("old", "3.10", true), "3.10 is older than 3.11"),
        (fake("two", "2.7", true), "2.7 is older"),
        (fake("bare", "3.13", false), "3.13 has no venv (on Debian: python3-venv)"),
        (fake("odd", "pypy", true), "gave `pypy` for its version"),
        ("no-such-python".into(), "`no-such-python` does not run"),
        ("false".into(), "`false` does not run: exit status: 1"),
    ] {
        let Err(Unable::Skip(found)) = Base::find(None, path.as_ref()) else {
            panic!("{} was accepted", path.display());
        };
        assert!(found.contains(why), "{found}");
        // One that was asked for has to work.
        let Err(Unable::Fail(found)) = Base::find(Some(path.into()), "python3".as_ref()) else {
            panic!("a named Python was skipped");
        };
        assert!(found.contains(why) && found.contains("FIRNDB_PYTHON"), "{found}");
    }
}

#[test]
fn a_suitable_python_is_found() {
    for version in ["3.11", "3.20", "4.0"] {
        let path = fake(&format!("new-{version}"), version, true);
        assert_eq!(Base::find(None, path.as_ref()).unwrap().version, version);
    }
}
