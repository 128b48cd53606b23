//! Lengths of files and functions, with a list of those that are too long and may only get shorter.
//!
//! A line of the list is `LINES FILE` or `LINES FILE fn NAME`. When a listed item gets shorter, its
//! number must be updated, and once it is within the limit its line must be removed, so the list
//! only shrinks.

use super::Finding;
use super::source::Source;
use std::collections::BTreeMap;

/// Path of the list.
pub const FILE: &str = "xtask/ratchet.txt";

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Checks all Rust files against the list, which is the text of the file `list_name`.
pub fn check(sources: &BTreeMap<&str, Source>, list_name: &str, list: &str) -> Vec<Finding> {
    let mut too_long = BTreeMap::new();
    for (name, source) in sources {
        collect(name, source, &mut too_long);
    }
    let mut findings = Vec::new();
    for (line, entry) in (1..).zip(list.lines()).filter(|(_, entry)| is_entry(entry)) {
        let mut report = |message| findings.push(Finding::new(list_name, line, message));
        let Some((listed, what)) = parse(entry) else {
            report(format!("`{entry}` is not `LINES FILE` or `LINES FILE fn NAME`"));
            continue;
        };
        match too_long.remove(what) {
            None => report(format!("{what} fits by now, or is gone: remove this line")),
            Some(lines) if lines < listed => {
                report(format!("{what} has {lines} lines by now: write that number"));
            }
            Some(lines) if lines > listed => {
                report(format!("{what} has grown from {listed} lines to {lines}: split it"));
            }
            Some(_) => {}
        }
    }
    for (what, lines) in too_long {
        let max = if what.contains(" fn ") { FUNCTION_LINES_MAX } else { FILE_LINES_MAX };
        findings.push(Finding::new(&what, 0, format!("{lines} lines; at most {max}: split it")));
    }
    findings
}

fn collect(name: &str, source: &Source, too_long: &mut BTreeMap<String, usize>) {
    let lines = source.code.lines().count();
    if lines > FILE_LINES_MAX {
        too_long.insert(name.to_string(), lines);
    }
    for function in source.functions().into_iter().filter(|f| f.lines > FUNCTION_LINES_MAX) {
        let longest = too_long.entry(format!("{name} fn {}", function.name)).or_default();
        *longest = function.lines.max(*longest);
    }
}

fn is_entry(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

fn parse(entry: &str) -> Option<(usize, &str)> {
    let (lines, what) = entry.trim().split_once(' ')?;
    Some((lines.parse().ok()?, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Findings for a file of 801 lines with a function `long` of 71, under a list.
    fn found(list: &str) -> String {
        let body = "\n".repeat(70);
        let text = format!("fn short() {{}}\nfn long() {{{body}}}\n{}", "\n".repeat(729));
        let sources = [("a.rs", Source::new(&text))].into();
        let findings = check(&sources, "list", list);
        findings.iter().map(|finding| format!("{finding}\n")).collect()
    }

    #[test]
    fn long_files_and_functions_are_found() {
        let expected = "a.rs: 801 lines; at most 800: split it\n\
                        a.rs fn long: 71 lines; at most 70: split it\n";
        assert_eq!(found(""), expected);
    }

    #[test]
    fn the_list_allows_its_numbers_and_no_more() {
        assert_eq!(found("# known\n\n801 a.rs\n71 a.rs fn long\n"), "");
        let grown = found("800 a.rs\n71 a.rs fn long\n");
        assert_eq!(grown, "list:1: a.rs has grown from 800 lines to 801: split it\n");
    }

    #[test]
    fn the_list_only_shrinks() {
        let shorter = found("802 a.rs\n71 a.rs fn long\n");
        assert_eq!(shorter, "list:1: a.rs has 801 lines by now: write that number\n");
        let gone = found("801 a.rs\n71 a.rs fn long\n80 a.rs fn short\n");
        assert_eq!(gone, "list:3: a.rs fn short fits by now, or is gone: remove this line\n");
        assert!(found("long a.rs\n").starts_with("list:1: `long a.rs` is not"));
    }
}
