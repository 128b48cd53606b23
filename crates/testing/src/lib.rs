//! Shared by the tests of all crates: how a test reports that it cannot run on this machine.
//!
//! Tests need rustup, a C compiler and python3, and install nothing. A test that needs another
//! program checks for it and, if it is missing, calls [`skipped`] and returns.

use std::fmt::Display;
use std::io::Write;

/// Reports that `test` cannot run here, and why. `cargo xtask test` counts it as skipped.
///
/// The line bypasses the test harness, which hides the output of successful tests.
pub fn skipped(test: &str, why: impl Display) {
    // One write, so that lines of concurrent tests do not mix. The test name that the harness
    // prints first may precede it on the line.
    let line = format!("\nskipped: {test}: {}\n", why.to_string().replace('\n', " "));
    let _ = std::io::stdout().write_all(line.as_bytes());
}

/// The name of the test that runs in this thread, if the harness provides it: for helpers that
/// several tests share.
pub fn this_test() -> String {
    let thread = std::thread::current();
    let name = thread.name().filter(|name| *name != "main");
    let name = name.and_then(|path| path.rsplit("::").next());
    name.unwrap_or("a test").to_string()
}

/// Whether a program of this name is in a folder of `PATH`.
pub fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_returns_the_name_of_the_test() {
        let name = this_test();
        assert!(name == "this_test_returns_the_name_of_the_test" || name == "a test", "{name}");
    }

    #[test]
    fn programs_on_the_path_are_found() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("a-program-of-this-name-is-not-installed"));
    }
}
