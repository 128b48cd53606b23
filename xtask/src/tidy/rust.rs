//! Rules for Rust files. The tables at the top are the rules; edit them, not the functions.

use super::Finding;
use super::source::{Source, find_word, line_of};

const COLUMNS_MAX: usize = 100;

/// Markers of unfinished work, in code and comments (split, so that they do not match here).
const MARKS: [&str; 3] = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// Macros that must not be committed.
const MACROS: [&str; 3] = ["dbg!", "todo!", "unimplemented!"];

/// The library's own code; its rules do not apply to unit tests.
const CORE: &str = "crates/firndb/src/";

/// Words that the core may use only in files whose path contains one of `places`.
struct Fence {
    words: &'static [&'static str],
    places: &'static [&'static str],
    reason: &'static str,
}

const FENCES: [Fence; 2] = [
    Fence {
        words: &["std::fs", "fs::", "File::", "OpenOptions", "memmap2", "rustix"],
        places: &["/src/disk/"],
        reason: "only disk/ touches files: go through the `Disk` trait",
    },
    Fence {
        words: &["to_le_bytes", "from_le_bytes"],
        places: &[
            "/src/bytes/",
            "/disk/envelope.rs",
            "/format/",
            "/format.rs",
            "/search/simd/kernels.rs",
        ],
        reason: "bytes of files are made in bytes/, in format/ and in the envelope",
    },
];

/// The only files with unsafe code.
const UNSAFE_FILES: &[&str] = &[
    "bindings/java/src/convert.rs",
    "bindings/java/src/native/mod.rs",
    "bindings/python/src/arrow/capsule.rs",
    "crates/bench-protocol/src/table/fold.rs",
    "crates/firndb/src/bytes/monotonic/partitioned.rs",
    "crates/firndb/src/bytes/prefetch.rs",
    "crates/firndb/src/disk/append_map.rs",
    "crates/firndb/src/disk/direct/ring.rs",
    "crates/firndb/src/disk/fork.rs",
    "crates/firndb/src/disk/map.rs",
    "crates/firndb/src/disk/os/append_map.rs",
    "crates/firndb/src/disk/os/writeback.rs",
    "crates/firndb/src/log/maintenance/thread_priority.rs",
    "crates/firndb/src/search/simd/kernels.rs",
    "crates/firndb/src/search/simd/unpack_avx2.rs",
    "crates/firndb/src/search/simd/lists/mod.rs",
    "crates/firndb/src/search/simd/lists/avx2.rs",
    "crates/firndb/src/search/simd/lists/avx512.rs",
    "crates/firndb/src/search/simd/scan/mod.rs",
    "crates/firndb/src/search/simd/scan/avx2.rs",
    "crates/firndb/src/search/simd/scan/avx512.rs",
    "crates/firndb/src/table/simd/block_avx2.rs",
    "crates/firndb/src/table/simd/kernels.rs",
];

/// Checks one file.
pub fn check(name: &str, text: &str, source: &Source) -> Vec<Finding> {
    let mut findings = lines(name, text, source);
    let mut find = |view: &str, word: &str, message: &str, lines_end: usize| {
        for at in find_word(view, word) {
            let line = line_of(view, at);
            if line < lines_end {
                findings.push(Finding::new(name, line, format!("`{word}`: {message}")));
            }
        }
    };
    for mark in MARKS {
        for view in [&source.code, &source.comments] {
            find(view, mark, "finish it, or write down what is missing in words", usize::MAX);
        }
    }
    for word in MACROS {
        find(&source.code, word, "does not land", usize::MAX);
    }
    if !UNSAFE_FILES.contains(&name) {
        find(&source.code, "unsafe", "only in the files that tidy lists", usize::MAX);
    }
    for fence in FENCES.iter().filter(|fence| is_outside(name, fence)) {
        for word in fence.words {
            find(&source.code, word, fence.reason, source.tests_from);
        }
    }
    findings
}

fn is_outside(name: &str, fence: &Fence) -> bool {
    let inside = fence.places.iter().any(|place| name.contains(place));
    name.starts_with(CORE) && !is_test_file(name) && !inside
}

fn is_test_file(name: &str) -> bool {
    ["/tests.rs", "/testing.rs"].iter().any(|end| name.ends_with(end)) || name.contains("/tests/")
}

/// Rules on lines: a head, the columns, ASCII (tests may need other characters).
fn lines(name: &str, text: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//! ") {
        findings.push(Finding::new(name, 1, "begins with `//!`: what the file is, and why"));
    }
    for (line, content) in (1..).zip(text.lines()) {
        let columns = content.chars().count();
        if columns > COLUMNS_MAX {
            let message = format!("{columns} columns; at most {COLUMNS_MAX}");
            findings.push(Finding::new(name, line, message));
        }
        let is_test = is_test_file(name) || line >= source.tests_from;
        if let Some(c) = content.chars().find(|c| !c.is_ascii()).filter(|_| !is_test) {
            findings.push(Finding::new(name, line, format!("{c:?} is not ASCII")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines and messages found in a file of this name whose first line is a head.
    fn found(name: &str, text: &str) -> Vec<(usize, String)> {
        let text = format!("//! Head.\n{text}");
        let findings = check(name, &text, &Source::new(&text));
        findings.into_iter().map(|f| (f.line, f.message)).collect()
    }

    /// Asserts that `text` breaks one rule, on line 2, in a message with `word`.
    #[track_caller]
    fn breaks(name: &str, text: &str, word: &str) {
        let found = found(name, text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, 2, "{found:?}");
        assert!(found[0].1.contains(word), "{found:?}");
    }

    #[track_caller]
    fn passes(name: &str, text: &str) {
        assert_eq!(found(name, text), []);
    }

    const ANY: &str = "crates/firndb/src/search/any.rs";

    #[test]
    fn a_file_needs_a_head() {
        let text = "use std::fmt;\n";
        let findings = check("xtask/src/a.rs", text, &Source::new(text));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("//!"));
    }

    #[test]
    fn lines_have_100_columns_of_ascii() {
        passes(ANY, &"/".repeat(100));
        breaks(ANY, &"/".repeat(101), "101 columns");
        breaks(ANY, "// \u{e9}", "not ASCII");
        passes(ANY, "#[cfg(test)]\nmod tests { const E: &str = \"\u{e9}\"; }");
        passes("crates/firndb/tests/it/main.rs", "const E: &str = \"\u{e9}\";");
    }

    #[test]
    fn unfinished_work_is_refused() {
        for mark in MARKS {
            breaks(ANY, &format!("// {mark}: later"), mark);
            breaks(ANY, &format!("struct {mark};"), mark);
            passes(ANY, &format!("const A: &str = \"{mark}\";"));
        }
        for name in MACROS {
            breaks(ANY, &format!("fn a() {{ {name}(1) }}"), name);
            passes(ANY, &format!("const A: &str = \"{name}\"; // not {name}"));
        }
    }

    #[test]
    fn unsafe_code_is_restricted_to_listed_files() {
        breaks(ANY, "unsafe fn a() {}", "unsafe");
        breaks("crates/firndb-cli/src/main.rs", "unsafe impl A for B {}", "unsafe");
        passes("crates/firndb/src/disk/map.rs", "unsafe fn a() {}");
        passes(ANY, "// unsafe in a comment, and\n#![deny(unsafe_code)]");
    }

    #[test]
    fn only_the_disk_module_touches_files() {
        breaks(ANY, "use std::fs;", "std::fs");
        breaks(ANY, "fn a() { File::open(x); }", "File::");
        breaks("crates/firndb/src/lib.rs", "use memmap2::Mmap;", "memmap2");
        passes("crates/firndb/src/disk/real.rs", "use std::fs;");
        passes("crates/firndb-cli/src/main.rs", "use std::fs;");
        passes(ANY, "#[cfg(test)]\nmod tests { use std::fs; }");
        passes("crates/firndb/src/search/tests.rs", "use std::fs;");
    }

    #[test]
    fn only_formats_convert_to_bytes() {
        breaks(ANY, "fn a(x: u32) { x.to_le_bytes(); }", "to_le_bytes");
        breaks(ANY, "fn a() { u32::from_le_bytes(b); }", "from_le_bytes");
        passes("crates/firndb/src/search/format.rs", "fn a(x: u32) { x.to_le_bytes(); }");
        passes("crates/firndb/src/bytes/ints.rs", "fn a(x: u32) { x.to_le_bytes(); }");
    }
}
