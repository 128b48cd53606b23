//! The programs that tests and other verbs need in addition to cargo. Nothing is installed: errors
//! name missing programs and their Debian packages.

use crate::Outcome;
use std::process::Command;

/// A program, its Debian packages, and what needs it.
pub struct Tool {
    pub program: &'static str,
    pub packages: &'static [&'static str],
    pub used_by: &'static str,
}

/// What the tests need.
const TESTS: [Tool; 2] = [
    Tool { program: "cc", packages: &["gcc", "libc6-dev"], used_by: "the zstd library" },
    Tool {
        program: "python3",
        packages: &["python3"],
        used_by: "tests that read files from Python",
    },
];

/// An error that names the packages to install if a program for the tests is missing.
pub fn for_tests() -> Outcome {
    check(&TESTS)
}

/// An error that names the packages to install if one of the programs is missing.
pub fn check(tools: &[Tool]) -> Outcome {
    let missing: Vec<&Tool> = tools.iter().filter(|tool| !is_on_path(tool.program)).collect();
    if missing.is_empty() { Ok(()) } else { Err(advice(&missing)) }
}

fn advice(missing: &[&Tool]) -> String {
    let mut packages: Vec<&str> = missing.iter().flat_map(|t| t.packages).copied().collect();
    packages.dedup();
    let mut text = String::new();
    for tool in missing {
        text += &format!("`{}` is not on PATH (for {}). ", tool.program, tool.used_by);
    }
    text + &format!("On Debian or Ubuntu: apt-get install {}", packages.join(" "))
}

pub fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_program_reason_and_packages() {
        let text = advice(&[&TESTS[0], &TESTS[1]]);
        assert!(text.contains("`cc` is not on PATH (for the zstd library)."), "{text}");
        assert!(text.ends_with("apt-get install gcc libc6-dev python3"), "{text}");
    }

    #[test]
    fn a_missing_program_is_an_error_and_nothing_is_installed() {
        let name = "a-program-of-this-name-is-not-installed";
        let tool = |program| Tool { program, packages: &["a-package"], used_by: "this test" };
        assert!(is_on_path("sh") && !is_on_path(name));
        assert_eq!(check(&[tool("sh")]), Ok(()));
        let error = check(&[tool("sh"), tool(name)]).unwrap_err();
        assert!(error.contains(name) && error.ends_with("apt-get install a-package"), "{error}");
    }

    #[test]
    fn no_test_and_no_verb_installs_anything_on_the_machine() {
        // The words are split so that this file does not match. `.ci/run`, which does install, is
        // not a Rust file; `crates/bench/src/peers.rs` installs when `--install` is given.
        let words = [concat!("\"apt", "-get\""), concat!("\"dp", "kg\""), concat!("\"su", "do\"")];
        let mut folders = vec![crate::root().join("crates"), crate::root().join("xtask")];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                } else if entry.extension().is_some_and(|e| e == "rs") {
                    files += 1;
                    let text = std::fs::read_to_string(&entry).unwrap();
                    let found = words.iter().find(|word| text.contains(**word));
                    let asked = entry.ends_with("bench/src/peers.rs");
                    assert!(found.is_none() || asked, "{}: {found:?}", entry.display());
                }
            }
        }
        assert!(files > 100, "{files} files");
    }
}
