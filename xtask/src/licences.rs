//! Every dependency must have a permissive licence.
//!
//! Covers all crates that are compiled for the supported targets, including build and test
//! dependencies. `fuzz/` and `peers/` are separate workspaces that are not distributed.

use crate::{Outcome, cargo, cross, shown};

/// The accepted licences, as SPDX identifiers.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Checks the licences of all dependencies.
pub fn run() -> Outcome {
    let mut command = cargo(&["tree", "--locked", "--workspace", "--prefix", "none"]);
    command.args(["--edges", "normal,build,dev", "--format", "{p}|{l}"]);
    for target in cross::targets() {
        command.args(["--target", target]);
    }
    let out = command.output().map_err(|e| format!("cannot start {}: {e}", shown(&command)))?;
    if !out.status.success() {
        let error = String::from_utf8_lossy(&out.stderr);
        return Err(format!("{} ended with {}: {error}", shown(&command), out.status));
    }
    let found = check(&String::from_utf8_lossy(&out.stdout));
    found.iter().for_each(|finding| println!("{finding}"));
    match found.len() {
        0 => Ok(()),
        n => Err(format!("{n} dependencies with a licence that is not in xtask/src/licences.rs")),
    }
}

/// Checks lines of the form `NAME VERSION ...|LICENCE`, which end in ` (*)` when repeated.
fn check(tree: &str) -> Vec<String> {
    let lines = tree.lines().filter(|line| !line.trim().is_empty());
    let refused = lines.filter_map(|line| {
        let line = line.trim_end_matches(" (*)");
        let (package, licence) = line.rsplit_once('|').unwrap_or((line, ""));
        (!is_allowed(licence)).then(|| format!("{package}: `{licence}` is not accepted"))
    });
    let mut refused: Vec<String> = refused.collect();
    refused.sort_unstable();
    refused.dedup();
    refused
}

/// Whether an SPDX expression can be satisfied with the accepted licences. `/` is an old form of
/// OR.
fn is_allowed(expression: &str) -> bool {
    let text = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut rest = &words[..];
    any_of(&mut rest) == Some(true) && rest.is_empty()
}

/// `ALL [OR ALL]...`; `None` if it is malformed.
fn any_of(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = all_of(words)?;
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        allowed |= all_of(words)?;
    }
    Some(allowed)
}

/// `LICENCE [AND LICENCE]...`
fn all_of(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = one(words)?;
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        allowed &= one(words)?;
    }
    Some(allowed)
}

/// `ID`, `ID WITH EXCEPTION` or an expression in parentheses.
fn one(words: &mut &[&str]) -> Option<bool> {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let allowed = any_of(words)?;
            let [")", rest @ ..] = *words else { return None };
            *words = rest;
            Some(allowed)
        }
        [id, "WITH", exception, rest @ ..] => {
            *words = rest;
            Some(ALLOWED.contains(&format!("{id} WITH {exception}").as_str()))
        }
        [id, rest @ ..] if !["AND", "OR", "WITH", ")"].contains(id) => {
            *words = rest;
            Some(ALLOWED.contains(id))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_needs_an_accepted_alternative() {
        for allowed in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
            "GPL-2.0-only AND MIT OR ISC",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for refused in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR GPL-3.0-only) AND AGPL-3.0-only",
            "MIT WITH Some-exception",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT ISC",
        ] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }

    #[test]
    fn a_refused_dependency_is_named_once() {
        let tree = "a v1.0.0|MIT\n\nb v2.0.0 (proc-macro)|GPL-3.0-only\n\
                    b v2.0.0 (proc-macro)|GPL-3.0-only (*)\nc v1|\n";
        let expected =
            ["b v2.0.0 (proc-macro): `GPL-3.0-only` is not accepted", "c v1: `` is not accepted"];
        assert_eq!(check(tree), expected);
    }
}
