//! The rules of this repository, checked over the files that git tracks (and new ones not ignored).
//!
//! Each rule is a pure function from text to findings, with a test in which it finds a violation.
//! This file only reads the files and passes them to the rules:
//!
//! - [`rust`]: file heads, columns, forbidden words, unsafe code, access to files and bytes;
//! - [`python`]: the same for the Python package, as far as it makes sense there;
//! - [`ratchet`]: lengths of files and functions;
//! - [`layers`]: which parts of the library import which;
//! - [`paths`]: names in the read and write paths that module documentation describes;
//! - [`pages`]: links, programs, lengths of pages, sizes of files, machine-specific paths;
//! - [`dependencies`]: the dependency tree of the library.

mod dependencies;
mod layers;
mod pages;
mod paths;
mod python;
mod ratchet;
mod rust;
mod source;

use crate::{Outcome, cargo, root, shown};
use source::Source;
use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;

/// A violation of a rule.
#[derive(Debug, PartialEq)]
struct Finding {
    file: String,
    /// Line number from 1; 0 for the file as a whole.
    line: usize,
    message: String,
}

impl Finding {
    fn new(file: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { file: file.to_string(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

/// The files, by their path from the root with `/` as separator.
type Tree = BTreeMap<String, Vec<u8>>;

/// Checks everything and prints the findings.
pub fn run() -> Outcome {
    let tree = read_tree()?;
    let packages = dependency_tree()?;
    let findings = check(&tree, &packages);
    findings.iter().for_each(|finding| println!("{finding}"));
    match findings.len() {
        0 => Ok(()),
        n => Err(format!("{n} findings; CONTRIBUTING.md says where the rules are")),
    }
}

fn check(tree: &Tree, packages: &str) -> Vec<Finding> {
    let text = |name: &str| tree.get(name).map(|b| String::from_utf8_lossy(b)).unwrap_or_default();
    let mut findings = Vec::new();
    let mut sources = BTreeMap::new();
    let is_ours = |name: &str| {
        let folders = ["bindings/", "crates/", "examples/", "fuzz/", "xtask/"];
        folders.iter().any(|folder| name.starts_with(folder))
    };
    for name in tree.keys().filter(|name| is_ours(name) && name.ends_with(".rs")) {
        let source = Source::new(&text(name));
        findings.extend(rust::check(name, &text(name), &source));
        sources.insert(name.as_str(), source);
    }
    findings.extend(ratchet::check(&sources, ratchet::FILE, &text(ratchet::FILE)));
    findings.extend(layers::check(&sources));
    let page = "ARCHITECTURE.md";
    findings.extend(paths::check_steps(page, &text(page), &sources));
    for name in tree.keys().filter(|name| name.ends_with("/mod.rs")) {
        findings.extend(paths::check(name, &text(name), &sources));
    }
    for (name, bytes) in tree {
        findings.extend(pages::check_any(name, bytes));
        if python::is_ours(name) {
            findings.extend(python::check(name, &text(name)));
        }
        if name.ends_with(".md") {
            let exists = |path: &str| pages::names_something(path, tree.keys());
            findings.extend(pages::check_links(name, &text(name), exists));
            findings.extend(pages::check_programs(name, &text(name)));
        }
    }
    findings
        .extend(pages::check_lengths(|name| tree.contains_key(name).then(|| text(name).into())));
    findings.extend(dependencies::check(&text(dependencies::FILE), packages));
    findings
}

fn read_tree() -> Result<Tree, String> {
    // In containers the folder often belongs to another user; for listing files this is harmless.
    let mut git = Command::new("git");
    git.current_dir(root()).args(["-c", "safe.directory=*", "ls-files", "-z", "--cached"]);
    let list = output(git.args(["--others", "--exclude-standard"]))?;
    let mut tree = Tree::new();
    for name in list.split('\0').filter(|name| !name.is_empty()) {
        // A tracked file that is missing is being removed.
        if let Ok(bytes) = std::fs::read(root().join(name)) {
            tree.insert(name.to_string(), bytes);
        }
    }
    Ok(tree)
}

/// For one target, so that the result is the same on every machine.
fn dependency_tree() -> Result<String, String> {
    let args = ["tree", "-p", "firndb", "-e", "normal", "--prefix", "none"];
    output(cargo(&args).args(["--target", "x86_64-unknown-linux-gnu"]))
}

fn output(command: &mut Command) -> Result<String, String> {
    let out = command.output().map_err(|e| format!("cannot start {}: {e}", shown(command)))?;
    let error = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        return Err(format!("{} ended with {}: {error}", shown(command), out.status));
    }
    String::from_utf8(out.stdout).map_err(|e| format!("{} printed no UTF-8: {e}", shown(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_applied_to_the_tree() {
        let bad = [
            ("crates/firndb/src/a/mod.rs", "//! A.\n//!\n//! Read path 1. `lost`\nunsafe {}\n"),
            ("crates/firndb/dependencies.txt", "zstd\n"),
            ("docs/README.md", "[x](no.md)\n```rust,ignore\n```\n"),
            ("xtask/ratchet.txt", "900 crates/gone.rs\n"),
            ("bindings/python/python/firndb/_a.py", "import os\n"),
        ];
        let tree = bad.map(|(name, text)| (name.to_string(), text.as_bytes().to_vec())).into();
        let findings = check(&tree, "firndb v1\nserde v1\n");
        let all: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
        let expected = [
            "`unsafe`",
            "`lost`",
            "no.md",
            "serde",
            "crates/gone.rs",
            "CHANGELOG.md",
            "Rust block",
            "docstring",
        ];
        for word in expected {
            assert!(all.contains(word), "nothing about {word} in:\n{all}");
        }
    }
}
