//! What the tests of all crates share: how a test says that it cannot run on this machine.
//!
//! Tests need rustup, a C compiler and python3, and install nothing. A test that needs more detects
//! it, and where it is missing calls [`skipped`] and returns.

use std::fmt::Display;
use std::io::Write;

/// Reports that `test` cannot run here, and why. `cargo xtask test` counts it as skipped.
///
/// The line goes past the test harness, which hides what successful tests print.
pub fn skipped(test: &str, why: impl Display) {
    // One write, so that the lines of tests that run at the same time do not mix. The name that
    // the harness prints before a test runs may stand in front.
    let line = format!("\nskipped: {test}: {}\n", why.to_string().replace('\n', " "));
    let _ = std::io::stdout().write_all(line.as_bytes());
}

/// The name of the test that runs in this thread, as far as the harness gives it: for helpers that
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
    fn a_test_knows_its_name() {
        let name = this_test();
        assert!(name == "a_test_knows_its_name" || name == "a test", "{name}");
    }

    #[test]
    fn finds_what_is_on_the_path() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("a-program-of-this-name-is-not-installed"));
    }
}
