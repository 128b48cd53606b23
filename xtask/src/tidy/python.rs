//! Rules for the Python files of the package: file heads, columns, ASCII, forbidden words, length.
//!
//! Types, stubs and docstrings are checked by the tests of the package.

use super::Finding;

/// The package. `peers/` has programs for other libraries.
const FOLDER: &str = "bindings/";

const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 800;

/// Markers of unfinished work (split, so that they do not match here).
const MARKS: [&str; 4] =
    [concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK"), concat!("TO", "DO")];

/// Calls that must not be committed.
const CALLS: [&str; 2] = ["breakpoint()", "import pdb"];

/// Whether the rules apply to a file.
pub fn is_ours(name: &str) -> bool {
    name.starts_with(FOLDER) && [".py", ".pyi"].iter().any(|end| name.ends_with(end))
}

/// Checks one file.
pub fn check(name: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("\"\"\"") {
        let message = "begins with a docstring: what the file is, and why";
        findings.push(Finding::new(name, 1, message));
    }
    // Stubs are lists.
    let lines = text.lines().count();
    if lines > LINES_MAX && !name.ends_with(".pyi") {
        let message = format!("{lines} lines; at most {LINES_MAX}: split it");
        findings.push(Finding::new(name, 0, message));
    }
    let is_test = name.contains("/tests/");
    for (line, content) in (1..).zip(text.lines()) {
        let mut report = |message| findings.push(Finding::new(name, line, message));
        let columns = content.chars().count();
        if columns > COLUMNS_MAX {
            report(format!("{columns} columns; at most {COLUMNS_MAX}"));
        }
        if let Some(c) = content.chars().find(|c| !c.is_ascii()).filter(|_| !is_test) {
            report(format!("{c:?} is not ASCII"));
        }
        for mark in MARKS.iter().filter(|mark| content.contains(**mark)) {
            report(format!("`{mark}`: finish it, or write down what is missing in words"));
        }
        for call in CALLS.iter().filter(|call| content.contains(**call)) {
            report(format!("`{call}`: does not land"));
        }
        if content.ends_with([' ', '\t']) {
            report("ends with a space".to_string());
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: &str = "bindings/python/python/firndb/_any.py";

    /// The lines and messages found in a file that begins with a head.
    fn found(name: &str, text: &str) -> Vec<(usize, String)> {
        let findings = check(name, &format!("\"\"\"Head.\"\"\"\n{text}"));
        findings.into_iter().map(|f| (f.line, f.message)).collect()
    }

    #[track_caller]
    fn breaks(name: &str, text: &str, line: usize, word: &str) {
        let found = found(name, text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, line, "{found:?}");
        assert!(found[0].1.contains(word), "{found:?}");
    }

    #[test]
    fn the_package_has_rules_and_other_files_do_not() {
        assert!(is_ours(ANY) && is_ours("bindings/python/python/firndb/_native.pyi"));
        assert!(!is_ours("peers/lmdb/run.py") && !is_ours("bindings/python/README.md"));
    }

    #[test]
    fn a_file_needs_a_head() {
        let findings = check(ANY, "import os\n");
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("docstring"));
    }

    #[test]
    fn lines_have_100_columns_of_ascii_without_spaces_at_the_end() {
        assert_eq!(found(ANY, &"#".repeat(100)), []);
        breaks(ANY, &"#".repeat(101), 2, "101 columns");
        breaks(ANY, "# \u{e9}", 2, "not ASCII");
        breaks(ANY, "x = 1 ", 2, "space");
        assert_eq!(found("bindings/python/tests/test_any.py", "E = '\u{e9}'"), []);
    }

    #[test]
    fn unfinished_work_is_refused() {
        for mark in MARKS {
            breaks(ANY, &format!("# {mark}: later"), 2, mark);
        }
        breaks(ANY, "breakpoint()", 2, "breakpoint");
    }

    #[test]
    fn files_have_800_lines_but_stubs_may_be_longer() {
        breaks(ANY, &"#\n".repeat(800), 0, "801 lines");
        assert_eq!(found("bindings/python/python/firndb/_native.pyi", &"#\n".repeat(800)), []);
    }
}
