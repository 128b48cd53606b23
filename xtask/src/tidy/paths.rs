//! Checks that the names in the documented read and write paths of modules exist.
//!
//! A section of a `mod.rs` head starts with a line that begins with one of [`TITLES`] and ends at
//! the first empty line after a name. Every word in backticks in it that looks like a path of
//! identifiers (`Index::find`, `encode()`) must occur in the code of the module's folder, part by
//! part.

use super::Finding;
use super::source::{Source, find_word, is_word};
use std::collections::BTreeMap;

/// Folders with the code that the walk-throughs of ARCHITECTURE.md name.
const WALKED: [&str; 2] = ["crates/firndb/src/", "crates/firndb-server/src/"];

const TITLES: [&str; 4] = ["Read path", "Write path", "Query path", "Build path"];

/// Checks the head of the `mod.rs` called `name` against the code in its folder.
pub fn check(name: &str, text: &str, sources: &BTreeMap<&str, Source>) -> Vec<Finding> {
    let folder = name.strip_suffix("mod.rs").unwrap_or(name);
    let exists = |part: &str| {
        let mut inside = sources.iter().filter(|(file, _)| file.starts_with(folder));
        inside.any(|(_, source)| find_word(&source.code, part).next().is_some())
    };
    let mut findings = Vec::new();
    for (line, path) in names(text) {
        if let Some(part) = parts(&path).find(|part| !exists(part)) {
            let message = format!("`{path}`: there is no `{part}` in {folder}");
            findings.push(Finding::new(name, line, message));
        }
    }
    findings
}

/// Checks the numbered steps of a page against the code of the library.
pub fn check_steps(name: &str, text: &str, sources: &BTreeMap<&str, Source>) -> Vec<Finding> {
    let exists = |part: &str| {
        let is_walked = |file: &str| WALKED.iter().any(|folder| file.starts_with(folder));
        let mut walked = sources.iter().filter(|(file, _)| is_walked(file));
        walked.any(|(file, source)| {
            let is_module =
                file.ends_with(&format!("/{part}.rs")) || file.contains(&format!("/{part}/"));
            is_module || find_word(&source.code, part).next().is_some()
        })
    };
    let (mut findings, mut in_step) = (Vec::new(), false);
    for (line, content) in (1..).zip(text.lines()) {
        let is_step = content.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        in_step = is_step || in_step && content.starts_with("   ");
        let names = content.split('`').skip(1).step_by(2).filter(|_| in_step);
        for path in names.filter(|name| is_path(name)) {
            if let Some(part) = parts(path).find(|part| !exists(part)) {
                let folders = WALKED.join(" or ");
                let message = format!("`{path}`: there is no `{part}` in {folders}");
                findings.push(Finding::new(name, line, message));
            }
        }
    }
    findings
}

/// The words in backticks in the sections, with their lines.
fn names(text: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    let (mut in_section, mut has_name) = (false, false);
    for (line, content) in (1..).zip(text.lines()) {
        let Some(content) = content.strip_prefix("//!") else { break };
        let plain = content.trim_start_matches([' ', '#', '*']);
        if TITLES.iter().any(|title| plain.starts_with(title)) {
            (in_section, has_name) = (true, false);
        } else if plain.is_empty() && has_name {
            in_section = false;
        }
        if in_section {
            for name in content.split('`').skip(1).step_by(2).filter(|name| is_path(name)) {
                names.push((line, name.to_string()));
                has_name = true;
            }
        }
    }
    names
}

fn is_path(name: &str) -> bool {
    let bare = name.strip_suffix("()").unwrap_or(name);
    let starts_well = |part: &str| part.starts_with(|c: char| is_word(c) && !c.is_ascii_digit());
    bare.split("::").all(|part| starts_well(part) && part.chars().all(is_word))
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    let bare = path.strip_suffix("()").unwrap_or(path);
    bare.split("::").filter(|part| !["crate", "self", "super"].contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(head: &str) -> Vec<String> {
        let sources = [
            ("crates/a/src/b/mod.rs", Source::new("mod format; // lost\n")),
            ("crates/a/src/b/index.rs", Source::new("impl Index { fn find() {} }\n")),
            ("crates/a/src/lib.rs", Source::new("fn lost() {}\n")),
        ];
        let findings = check("crates/a/src/b/mod.rs", head, &sources.into());
        findings.iter().map(|f| format!("{} {}", f.line, f.message)).collect()
    }

    #[test]
    fn names_that_exist_pass() {
        let head = "//! B.\n//!\n//! Read path   1. [`Index::find`]  2. `self::format`\n";
        assert_eq!(found(head), [""; 0]);
    }

    #[test]
    fn names_that_do_not_exist_in_the_folder_are_found() {
        let here = "there is no `lost` in crates/a/src/b/";
        let head =
            "//! # Write path\n//!\n//! 1. `find`\n//! 2. [`Index::lost`]\n//!\n//! `lost`\n";
        assert_eq!(found(head), [format!("4 `Index::lost`: {here}")]);
        assert_eq!(found("//! **Query path**: `lost()`\n"), [format!("1 `lost()`: {here}")]);
    }

    #[test]
    fn steps_of_a_page_name_what_exists() {
        let sources = [("crates/firndb/src/log/get.rs", Source::new("fn find() {}\n"))].into();
        let page = "`lost` in prose\n\n1. `get::find`\n2. then\n   `get::lost`\n";
        let findings = check_steps("A.md", page, &sources);
        assert_eq!(findings.iter().map(|f| f.line).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn text_that_is_not_a_path_is_ignored() {
        assert_eq!(found("//! Build path `firn build FILE`, `a < b`, `1x`\n//! `find`\n"), [""; 0]);
    }
}
