//! The library's dependency tree is listed in a file, so that it only grows deliberately.

use super::Finding;
use std::collections::BTreeSet;

/// The list: on each line the name of a crate, then its purpose.
pub const FILE: &str = "crates/firndb/dependencies.txt";

/// Compares the list with the output of `cargo tree --prefix none` (`NAME VERSION ...` on each
/// line).
pub fn check(list: &str, tree: &str) -> Vec<Finding> {
    let first_words = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| line.split_whitespace().next()).map(str::to_string).collect()
    };
    let (listed, mut used) = (first_words(list), first_words(tree));
    used.remove("firndb");
    let new = used.difference(&listed);
    let new = new.map(|name| format!("the library depends on {name}, which is not listed"));
    let gone = listed.difference(&used);
    let gone = gone.map(|name| format!("the library no longer depends on {name}: remove it"));
    new.chain(gone).map(|message| Finding::new(FILE, 0, message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_and_tree_are_equal() {
        let tree = "firndb v0.1.0 (somewhere)\nzstd v0.13.3\nmemmap2 v0.9.12\nzstd v0.13.3 (*)\n";
        let found = |list: &str| {
            check(list, tree).into_iter().map(|finding| finding.message).collect::<Vec<_>>()
        };
        assert_eq!(found("# names\nmemmap2 maps files\nzstd\n"), [""; 0]);
        assert_eq!(found("zstd\n"), ["the library depends on memmap2, which is not listed"]);
        let gone = ["the library no longer depends on serde: remove it"];
        assert_eq!(found("memmap2\nserde\nzstd\n"), gone);
    }
}
