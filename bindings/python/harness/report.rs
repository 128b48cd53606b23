//! What pytest reports, and the arguments that it is given.

use std::ffi::OsString;

/// What pytest counted.
#[derive(Debug, Default, PartialEq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    /// Reads the last line of pytest: `==== 3 passed, 1 skipped in 0.12s ====`.
    pub fn parse(line: &str) -> Option<Counts> {
        let line = line.trim_matches(['=', ' ']);
        let (list, time) = line.split_once(" in ")?;
        let (seconds, _) = time.split_once('s')?;
        seconds.parse::<f64>().ok()?;
        let mut counts = Counts::default();
        if list == "no tests ran" {
            return Some(counts);
        }
        for part in list.split(", ") {
            let (number, what) = part.split_once(' ')?;
            let number: u64 = number.parse().ok()?;
            match what {
                "passed" | "xfailed" => counts.passed += number,
                "failed" | "error" | "errors" | "xpassed" => counts.failed += number,
                "skipped" => counts.skipped += number,
                "deselected" | "warning" | "warnings" => {}
                _ => return None,
            }
        }
        Some(counts)
    }
}

/// What the arguments of a test program of cargo select.
#[derive(Debug, PartialEq)]
pub enum Selection {
    /// Everything, or what this expression of pytest's `-k` selects.
    Run(Option<String>),
    /// Nothing: no name can be that of a test in Python, or only ignored tests are wanted.
    Nothing,
}

/// Options of cargo's test programs that are followed by a value.
const WITH_VALUE: [&str; 6] =
    ["--color", "--format", "--logfile", "--shuffle-seed", "--test-threads", "-Z"];

/// Understands the arguments of cargo's own test programs: names, `--skip NAME`, and options, which
/// have no meaning here. `cargo test --workspace -- NAME` gives the same to all programs, so names
/// of tests in Rust (`log::open`) are expected, and select nothing.
pub fn selection(args: impl Iterator<Item = OsString>) -> Selection {
    let (mut names, mut skipped, mut any) = (Vec::new(), Vec::new(), true);
    let mut args = args.filter_map(|arg| arg.into_string().ok());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--ignored" | "--list" => return Selection::Nothing,
            "--skip" => skipped.extend(args.next().filter(|name| is_name(name))),
            option if WITH_VALUE.contains(&option) => _ = args.next(),
            option if option.starts_with('-') => {}
            name => {
                any = false;
                names.extend(is_name(name).then(|| name.to_string()));
            }
        }
    }
    if !any && names.is_empty() {
        return Selection::Nothing;
    }
    let names = (!names.is_empty()).then(|| format!("({})", names.join(" or ")));
    let skipped = skipped.iter().map(|name| format!("not {name}"));
    let terms: Vec<String> = names.into_iter().chain(skipped).collect();
    Selection::Run((!terms.is_empty()).then(|| terms.join(" and ")))
}

/// Whether a word can be part of the name of a test in Python, and is no operator of `-k`.
fn is_name(word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || ['_', '.', '[', ']', '-'].contains(&c);
    word.chars().all(is_part) && !["and", "or", "not", ""].contains(&word)
}
