//! The programs that tests need besides cargo, and how to come by them.

use crate::{Outcome, finish};
use std::process::Command;

/// A program, the Debian packages that bring it, and what needs it.
struct Tool {
    program: &'static str,
    packages: &'static [&'static str],
    used_by: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool { program: "cc", packages: &["gcc", "libc6-dev"], used_by: "the zstd library" },
    Tool {
        program: "python3",
        packages: &["python3"],
        used_by: "tests that read files from Python",
    },
];

/// Installs what is missing where that needs no question (Debian, as root), else says what to do.
pub fn ensure() -> Outcome {
    let missing = || TOOLS.iter().filter(|tool| !is_on_path(tool.program)).collect::<Vec<_>>();
    if missing().is_empty() {
        return Ok(());
    }
    if is_on_path("apt-get") && is_root() {
        let packages: Vec<&str> = missing().iter().flat_map(|t| t.packages).copied().collect();
        println!("installing {}", packages.join(" "));
        // A failure shows in the second look below, with the sentence that says what to do.
        let _ = finish(Command::new("apt-get").args(["-q", "update"]));
        let mut install = Command::new("apt-get");
        install.env("DEBIAN_FRONTEND", "noninteractive");
        let _ =
            finish(install.args(["-q", "-y", "install", "--no-install-recommends"]).args(packages));
    }
    match missing().as_slice() {
        [] => Ok(()),
        still => Err(advice(still)),
    }
}

fn advice(missing: &[&Tool]) -> String {
    let packages: Vec<&str> = missing.iter().flat_map(|t| t.packages).copied().collect();
    let mut text = String::new();
    for tool in missing {
        text += &format!("`{}` is not on PATH (for {}). ", tool.program, tool.used_by);
    }
    text + &format!("On Debian or Ubuntu: apt-get install {}", packages.join(" "))
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_program_reason_and_packages() {
        let text = advice(&[&TOOLS[0], &TOOLS[1]]);
        assert!(text.contains("`cc` is not on PATH (for the zstd library)."), "{text}");
        assert!(text.ends_with("apt-get install gcc libc6-dev python3"), "{text}");
    }

    #[test]
    fn finds_what_is_on_the_path() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("a-program-of-this-name-is-not-installed"));
    }
}
