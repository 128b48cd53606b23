//! Rules for pages and for files of any kind: links, programs, lengths, sizes, machine-specific
//! paths.

use super::Finding;
use super::source::line_of;

const FILE_BYTES_MAX: usize = 256 * 1024;

/// Maximum number of lines of a decision without its appendix, which holds measurements.
const DECISION_LINES_MAX: usize = 60;

/// Pages that must exist, and their maximum lengths.
const PAGES: [(&str, usize); 4] = [
    ("README.md", 200),
    ("ARCHITECTURE.md", 400),
    ("CONTRIBUTING.md", 60),
    ("CHANGELOG.md", usize::MAX),
];

/// Prefixes of machine-specific paths (split, so that they do not match here).
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Checks the size of a file and, if it is text, the paths in it.
pub fn check_any(name: &str, bytes: &[u8]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("{} bytes; at most {FILE_BYTES_MAX}", bytes.len());
        findings.push(Finding::new(name, 0, message));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return findings };
    if name.starts_with("docs/decisions/") {
        let lines = text.lines().take_while(|line| !line.starts_with("## Appendix")).count();
        if lines > DECISION_LINES_MAX {
            let message =
                format!("{lines} lines before `## Appendix`; at most {DECISION_LINES_MAX}");
            findings.push(Finding::new(name, 0, message));
        }
    }
    for path in MACHINE_PATHS {
        let begins_here = |at: usize| {
            let before = text[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "._-/~".contains(c))
        };
        for (at, _) in text.match_indices(path).filter(|&(at, _)| begins_here(at)) {
            let message = format!("`{path}` is a path of one machine");
            findings.push(Finding::new(name, line_of(text, at), message));
        }
    }
    findings
}

/// Checks that the required pages exist and are short; `text` returns a page if it exists.
pub fn check_lengths(text: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, max) in PAGES {
        match text(name).map(|text| text.lines().count()) {
            None => findings.push(Finding::new(name, 0, "is missing")),
            Some(lines) if lines > max => {
                findings.push(Finding::new(name, 0, format!("{lines} lines; at most {max}")));
            }
            Some(_) => {}
        }
    }
    findings
}

/// Checks that the relative links of a page lead to a path from the root that `exists`.
pub fn check_links(name: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_code = false;
    for (line, content) in (1..).zip(text.lines()) {
        if content.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        for target in if in_code { Vec::new() } else { links(content) } {
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if elsewhere || path.is_empty() || resolve(name, path).is_some_and(|p| exists(&p)) {
                continue;
            }
            findings.push(Finding::new(name, line, format!("the link to {target} leads nowhere")));
        }
    }
    findings
}

/// Checks that no Rust block of a page is excluded from the documentation tests, which compile the
/// blocks, and that README.md has some.
pub fn check_programs(name: &str, text: &str) -> Vec<Finding> {
    let heads = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with("```rust"));
    let heads: Vec<(usize, &str)> = heads.collect();
    if heads.is_empty() && name == "README.md" {
        return vec![Finding::new(name, 0, "has no Rust block")];
    }
    let ignored = heads.iter().filter(|(_, head)| head.contains("ignore"));
    let message = "a Rust block with `ignore` is not compiled";
    ignored.map(|&(line, _)| Finding::new(name, line, message)).collect()
}

/// Whether `path` is a file of the list or a folder that contains one.
pub fn names_something<'a>(path: &str, mut files: impl Iterator<Item = &'a String>) -> bool {
    let folder = format!("{path}/");
    path.is_empty() || files.any(|file| file == path || file.starts_with(&folder))
}

/// Targets of `[text](target)` and `[label]: target` in a line, except in code in backticks.
fn links(line: &str) -> Vec<String> {
    let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let inline = plain.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let mut targets: Vec<String> = inline.map(|(target, _)| target.to_string()).collect();
    if let Some((_, target)) = plain.split_once("]: ").filter(|_| plain.starts_with('[')) {
        targets.push(target.trim().to_string());
    }
    targets
}

/// The path from the root of `target`, relative to the file `name`; `None` if it leaves the root.
fn resolve(name: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = name.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(findings: Vec<Finding>) -> Vec<String> {
        findings.iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn large_files_are_found() {
        assert_eq!(check_any("a.bin", &vec![0; FILE_BYTES_MAX]), []);
        let found = messages(check_any("a.bin", &vec![0; FILE_BYTES_MAX + 1]));
        assert_eq!(found, ["a.bin: 262145 bytes; at most 262144"]);
    }

    #[test]
    fn decisions_are_short_and_have_their_measurements_in_an_appendix() {
        let name = "docs/decisions/0001-a.md";
        let long = "x\n".repeat(61);
        let found = messages(check_any(name, long.as_bytes()));
        assert_eq!(found, [format!("{name}: 61 lines before `## Appendix`; at most 60")]);
        let divided = format!("{}## Appendix\n{long}", "x\n".repeat(60));
        assert_eq!(check_any(name, divided.as_bytes()), []);
    }

    #[test]
    fn machine_specific_paths_are_found() {
        for path in MACHINE_PATHS {
            let found = messages(check_any("a.md", format!("one\nsee {path}x").as_bytes()));
            assert_eq!(found, [format!("a.md:2: `{path}` is a path of one machine")]);
            assert_eq!(check_any("a.md", format!("https://host{path}x").as_bytes()), []);
        }
    }

    #[test]
    fn pages_exist_and_are_short() {
        let page = |lines: usize| Some("x\n".repeat(lines));
        let found = check_lengths(|name| if name == "CHANGELOG.md" { None } else { page(61) });
        let expected = ["CONTRIBUTING.md: 61 lines; at most 60", "CHANGELOG.md: is missing"];
        assert_eq!(messages(found), expected);
        assert_eq!(messages(check_lengths(|_| page(401))).len(), 3);
    }

    #[test]
    fn programs_of_a_page_are_compiled() {
        assert_eq!(check_programs("a.md", "# A\n```rust,no_run\nfn main() {}\n```\n"), []);
        let found = messages(check_programs("a.md", "# A\n\n```rust,ignore\nmain\n```\n"));
        assert_eq!(found, ["a.md:3: a Rust block with `ignore` is not compiled"]);
        assert_eq!(check_programs("a.md", "# A\n```sh\nmain\n```\n"), []);
        let found = messages(check_programs("README.md", "# A\n```sh\nmain\n```\n"));
        assert_eq!(found, ["README.md: has no Rust block"]);
    }

    #[test]
    fn links_lead_to_existing_files() {
        let files = ["README.md", "docs/a.md", "docs/deep/b.md"].map(str::to_string);
        let check = |text: &str| {
            let exists = |path: &str| names_something(path, files.iter());
            messages(check_links("docs/a.md", text, exists))
        };
        let good =
            "[r](../README.md#x) [d](deep/) [h](https://a.b/c) [t](#top) `[c](no)`\n[l]: a.md\n";
        assert_eq!(check(good), [""; 0]);
        assert_eq!(check("x\n[c](c.md)"), ["docs/a.md:2: the link to c.md leads nowhere"]);
        assert_eq!(check("[u](../../a)"), ["docs/a.md:1: the link to ../../a leads nowhere"]);
        assert_eq!(check("[l]: b.md"), ["docs/a.md:1: the link to b.md leads nowhere"]);
        assert_eq!(check("```\n[c](c.md)\n```\n"), [""; 0]);
    }
}
