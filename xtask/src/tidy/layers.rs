//! Which parts of the library may import which, and that files have no import cycles. The tables at
//! the top are the rules; edit them, not the functions.
//!
//! Imports are the `use` lines and the `crate::`, `super::` and `self::` paths of a file, except in
//! unit tests. A file and its private child modules (`mod x;` without `pub`) count as one file.

use super::Finding;
use super::source::{Source, find_word, is_word, line_of};
use std::collections::{BTreeMap, BTreeSet};

const CORE: &str = "crates/firndb/src/";

/// A folder of the library and, for each of its modules, the sibling modules that it may import.
struct Layers {
    folder: &'static str,
    allowed: &'static [(&'static str, &'static [&'static str])],
}

const LAYERS: &[Layers] = &[
    Layers {
        folder: "",
        allowed: &[
            ("redact", &[]),
            ("error", &["redact"]),
            ("sync", &[]),
            ("bytes", &["error"]),
            ("disk", &["bytes", "error", "sync"]),
            ("log", &["bytes", "disk", "error", "sync"]),
            ("table", &["bytes", "disk", "error", "sync"]),
            ("search", &["bytes", "disk", "error", "sync"]),
            ("catalog", &["bytes", "disk", "error", "redact", "search", "sync", "table"]),
            ("indexer", &["bytes", "catalog", "disk", "error", "log", "search", "sync"]),
            (
                "inspect",
                &["bytes", "catalog", "disk", "error", "indexer", "log", "search", "table"],
            ),
        ],
    },
    Layers {
        folder: "log",
        allowed: &[
            ("failpoints", &[]),
            ("expiry", &[]),
            ("options", &["expiry"]),
            ("stats", &[]),
            ("format", &["failpoints"]),
            // Not `format`: `crates/model` compiles the index by itself.
            ("index", &["failpoints"]),
            ("segments", &["failpoints", "format", "index", "options"]),
            ("state", &["expiry", "failpoints", "format", "index", "options", "segments", "stats"]),
            (
                "write",
                &[
                    "expiry",
                    "failpoints",
                    "format",
                    "index",
                    "options",
                    "segments",
                    "state",
                    "stats",
                ],
            ),
            // `write`: a snapshot settles deferred puts.
            (
                "read",
                &[
                    "expiry",
                    "failpoints",
                    "format",
                    "index",
                    "options",
                    "segments",
                    "state",
                    "write",
                ],
            ),
            (
                "maintenance",
                &[
                    "expiry",
                    "failpoints",
                    "format",
                    "index",
                    "options",
                    "segments",
                    "state",
                    "stats",
                    "write",
                ],
            ),
            (
                "open",
                &[
                    "expiry",
                    "failpoints",
                    "format",
                    "index",
                    "maintenance",
                    "options",
                    "read",
                    "segments",
                    "state",
                    "stats",
                    "write",
                ],
            ),
            (
                "admin",
                &[
                    "expiry",
                    "failpoints",
                    "format",
                    "index",
                    "maintenance",
                    "open",
                    "options",
                    "read",
                    "segments",
                    "state",
                    "stats",
                    "write",
                ],
            ),
        ],
    },
    Layers {
        folder: "table",
        allowed: &[
            ("options", &[]),
            ("simd", &[]),
            ("format", &["options", "simd"]),
            ("build", &["format", "options"]),
            ("read", &["format", "options", "simd"]),
            ("approx", &["build", "format", "options", "read"]),
            ("admin", &["approx", "format", "options", "read"]),
            ("sharded", &["options", "read"]),
        ],
    },
    Layers {
        folder: "search",
        allowed: &[
            ("model", &[]),
            ("text", &["model"]),
            ("format", &["model"]),
            ("simd", &["format"]),
            ("codec", &["format", "model", "simd"]),
            ("partition", &["codec", "format", "model", "simd"]),
            ("build", &["codec", "format", "model", "partition"]),
            ("plan", &["model"]),
            ("stats", &["codec", "model", "partition", "plan"]),
            ("exec", &["codec", "format", "model", "partition", "plan", "simd", "stats"]),
            (
                "collect",
                &["codec", "exec", "format", "model", "partition", "plan", "simd", "stats"],
            ),
            ("cache", &["build", "codec", "collect", "format", "model", "partition", "stats"]),
            (
                "reader",
                &["cache", "codec", "collect", "exec", "model", "partition", "plan", "stats"],
            ),
            ("collection", &["build", "cache", "format", "model", "partition", "reader"]),
            ("admin", &["codec", "collection", "format", "model", "partition"]),
        ],
    },
];

/// Maximum number of entries of a folder of the library, not counting `mod.rs`.
const ENTRIES_MAX: usize = 15;
/// Maximum number of files with methods of one type.
const METHOD_FILES_MAX: usize = 3;

/// Checks the files of the library.
pub fn check(sources: &BTreeMap<&str, Source>) -> Vec<Finding> {
    let core = Core::new(sources);
    let mut findings = core.layers();
    findings.extend(core.cycles());
    findings.extend(core.folders());
    findings.extend(core.methods());
    findings
}

/// The files of the library that are not tests, by module path.
struct Core<'s> {
    files: BTreeMap<String, (&'s str, &'s Source)>,
    /// Private child modules, by the module that they belong to.
    parents: BTreeMap<String, String>,
}

/// An import: its line, and the imported module.
type Import = (usize, String);

impl<'s> Core<'s> {
    fn new(sources: &'s BTreeMap<&str, Source>) -> Core<'s> {
        let mut files = BTreeMap::new();
        for (name, source) in sources {
            if let Some(path) = name.strip_prefix(CORE).filter(|path| !is_test(path)) {
                files.insert(module_of(path), (*name, source));
            }
        }
        let mut parents = BTreeMap::new();
        for (module, (_, source)) in &files {
            for child in private_children(&source.code) {
                let path = joined(module, child);
                // A file directly in the root or in a store's own module is a layer.
                if module.contains("::") && files.contains_key(&path) {
                    parents.insert(path, module.clone());
                }
            }
        }
        Core { files, parents }
    }

    /// The module that represents a file in the import graph.
    fn unit<'m>(&'m self, mut module: &'m str) -> &'m str {
        while let Some(parent) = self.parents.get(module) {
            module = parent;
        }
        module
    }

    fn imports(&self, module: &str, source: &Source) -> Vec<Import> {
        let mut found = Vec::new();
        for (line, path) in paths(source) {
            let Some(absolute) = self.resolve(module, &path) else { continue };
            let mut target = absolute.as_str();
            while !self.files.contains_key(target) {
                let Some((above, _)) = target.rsplit_once("::") else { break };
                target = above;
            }
            if self.files.contains_key(target) && target != module && !target.is_empty() {
                found.push((line, target.to_string()));
            }
        }
        found
    }

    /// Resolves a path from the root of the crate; `None` if it leads to another crate.
    fn resolve(&self, module: &str, path: &str) -> Option<String> {
        let mut from: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
        let mut parts = path.split("::").peekable();
        match *parts.peek()? {
            "crate" => {
                from.clear();
                parts.next();
            }
            "self" => drop(parts.next()),
            "super" => {
                while parts.next_if_eq(&"super").is_some() {
                    from.pop()?;
                }
            }
            child => {
                self.files.get(&joined(module, child))?;
            }
        }
        Some(from.into_iter().chain(parts).collect::<Vec<_>>().join("::"))
    }

    /// Finds imports that the tables do not allow.
    fn layers(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (module, (name, source)) in &self.files {
            for (line, target) in self.imports(module, source) {
                for layers in LAYERS {
                    let (Some(from), Some(to)) =
                        (part_below(layers.folder, module), part_below(layers.folder, &target))
                    else {
                        continue;
                    };
                    let allowed = layers.allowed.iter().find(|(layer, _)| *layer == from);
                    let known = layers.allowed.iter().any(|(layer, _)| *layer == to);
                    let message = match allowed {
                        _ if from == to || !known => continue,
                        None => format!("`{from}` is in no table of layers"),
                        Some((_, allowed)) if allowed.contains(&to) => continue,
                        Some(_) => format!("`{from}` may not import `{to}` ({target})"),
                    };
                    findings.push(Finding::new(name, line, message));
                }
            }
        }
        findings
    }

    /// Finds import cycles among files.
    fn cycles(&self) -> Vec<Finding> {
        let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (module, (_, source)) in &self.files {
            // The modules of the root and of the stores only compose and re-export.
            if !module.contains("::") {
                continue;
            }
            for (_, target) in self.imports(module, source) {
                let Some((target, _)) = self.files.get_key_value(&target) else { continue };
                let (from, to) = (self.unit(module), self.unit(target));
                if from != to && to.contains("::") {
                    graph.entry(from).or_default().insert(to);
                }
            }
        }
        // Repeatedly remove modules without remaining imports, and modules that no remaining module
        // imports: they are in no cycle.
        while let Some(end) = graph.iter().find_map(|(&from, to)| to.is_empty().then_some(from)) {
            graph.remove(end);
        }
        loop {
            let left: BTreeSet<&str> = graph.keys().copied().collect();
            graph.values_mut().for_each(|to| to.retain(|to| left.contains(to)));
            graph.retain(|_, to| !to.is_empty());
            let reached: BTreeSet<&str> = graph.values().flatten().copied().collect();
            graph.retain(|from, _| reached.contains(from));
            if graph.len() == left.len() {
                break;
            }
        }
        let file = |module: &str| self.files.get(module).map_or("", |(name, _)| name);
        let list = |to: &BTreeSet<&str>| to.iter().copied().collect::<Vec<_>>().join(", ");
        let circle = |(from, to): (&&str, &BTreeSet<&str>)| {
            let message = format!("is in a circle of imports, with {}", list(to));
            Finding::new(file(from), 0, message)
        };
        graph.iter().map(circle).collect()
    }

    /// Finds folders with too many entries.
    fn folders(&self) -> Vec<Finding> {
        let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, _) in self.files.values() {
            let mut path = *name;
            while let Some((folder, entry)) = path.rsplit_once('/') {
                if folder.len() < CORE.len() {
                    break;
                }
                if entry != "mod.rs" {
                    entries.entry(folder).or_default().insert(entry);
                }
                path = folder;
            }
        }
        let too_many = entries.into_iter().filter(|(_, entries)| entries.len() > ENTRIES_MAX);
        let report = |(folder, entries): (&str, BTreeSet<&str>)| {
            let message = format!("{} entries; at most {ENTRIES_MAX}", entries.len());
            Finding::new(folder, 0, message)
        };
        too_many.map(report).collect()
    }

    /// Finds types whose methods are in too many files.
    fn methods(&self) -> Vec<Finding> {
        let mut places: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
        for (module, (name, source)) in &self.files {
            let store = module.split("::").next().unwrap_or_default();
            for ty in types_with_methods(source) {
                places.entry((store, ty)).or_default().insert(name);
            }
        }
        let too_many = places.into_iter().filter(|(_, files)| files.len() > METHOD_FILES_MAX);
        let report = |((_, ty), files): ((&str, String), BTreeSet<&str>)| {
            let message = format!(
                "methods of `{ty}` are in {} files; at most {METHOD_FILES_MAX}",
                files.len()
            );
            Finding::new(files.first().unwrap_or(&""), 0, message)
        };
        too_many.map(report).collect()
    }
}

fn is_test(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or(path);
    let is_folder = |part: &str| path.split('/').any(|folder| folder == part);
    ["tests.rs", "testing.rs"].contains(&last) || is_folder("tests") || is_folder("sim")
}

/// The module of a file in the source folder; empty for the root of the crate.
fn module_of(path: &str) -> String {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" { String::new() } else { path.replace('/', "::") }
}

fn joined(module: &str, child: &str) -> String {
    if module.is_empty() { child.to_string() } else { format!("{module}::{child}") }
}

/// The first part of a module's path below a folder; `None` if it is not below it.
fn part_below<'m>(folder: &str, module: &'m str) -> Option<&'m str> {
    let rest = match folder {
        "" => module,
        folder => module.strip_prefix(folder)?.strip_prefix("::")?,
    };
    rest.split("::").next().filter(|part| !part.is_empty())
}

fn private_children(code: &str) -> impl Iterator<Item = &str> {
    let declared = code.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    declared.filter(|name| name.chars().all(is_word))
}

/// The types of which a file has inherent methods.
fn types_with_methods(source: &Source) -> BTreeSet<String> {
    let mut types = BTreeSet::new();
    for line in source.code.lines().take(source.tests_from - 1) {
        let Some(rest) = line.strip_prefix("impl") else { continue };
        let rest = match rest.strip_prefix('<') {
            Some(generics) => generics.split_once("> ").map_or("", |(_, rest)| rest),
            None => rest.trim_start(),
        };
        if !rest.contains(" for ") {
            let name: String = rest.chars().take_while(|&c| is_word(c)).collect();
            types.insert(name);
        }
    }
    types.remove("");
    types
}

/// Every path of a file that may be an import, with its line. Groups of a `use` are expanded.
fn paths(source: &Source) -> Vec<(usize, String)> {
    let end = source.code.lines().take(source.tests_from - 1).map(|line| line.len() + 1).sum();
    let code = source.code.get(..end).unwrap_or(&source.code);
    let mut found = Vec::new();
    for at in find_word(code, "use") {
        let begins = code[..at].rsplit('\n').next().unwrap_or_default().trim_start();
        let is_item = begins.is_empty() || begins.starts_with("pub");
        if let (true, Some(length)) = (is_item, code[at..].find(';')) {
            let tree: String = code[at + 3..at + length].split_whitespace().collect();
            // In a module inside the file `super` is the file itself.
            let levels = code[..at].rsplit('\n').next().unwrap_or_default();
            let levels = levels.len() - levels.trim_start().len();
            flatten("", &tree, &mut |path| {
                let is_inside = levels > 0 && path.starts_with("super::");
                let path = if is_inside { path.replacen("super", "self", 1) } else { path };
                found.push((line_of(code, at), path));
            });
        }
    }
    for root in ["crate::", "super::", "self::"] {
        for at in find_word(code, root) {
            let line = code[..at].rsplit('\n').next().unwrap_or_default();
            if code[..at].ends_with("::") || find_word(line, "use").next().is_some() {
                continue;
            }
            let is_part = |c: char| is_word(c) || c == ':';
            let path: String = code[at..].chars().take_while(|&c| is_part(c)).collect();
            found.push((line_of(code, at), path.trim_end_matches(':').to_string()));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Calls `each` with the paths of a `use` tree without spaces.
fn flatten(prefix: &str, tree: &str, each: &mut impl FnMut(String)) {
    let Some((head, group)) = tree.split_once('{') else {
        return each(format!("{prefix}{tree}"));
    };
    let (prefix, group) = (format!("{prefix}{head}"), group.strip_suffix('}').unwrap_or(group));
    let (mut depth, mut start) = (0, 0);
    for (i, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if start < i {
                    flatten(&prefix, &group[start..i], each);
                }
                start = i + 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings for files of the library, by path below its source folder.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let named: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("{CORE}{path}"), *text)).collect();
        let sources = named.iter().map(|(name, text)| (name.as_str(), Source::new(text))).collect();
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_lower_layer_does_not_import_a_higher_one() {
        let found = found(&[
            ("search/model/query.rs", "use crate::search::text::parse;\n"),
            ("search/text/parse.rs", "use crate::search::model::{value::Value};\n"),
            ("search/model/value.rs", ""),
            ("log/store.rs", "fn a() { crate::search::model::value::b() }\n"),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("log/store.rs:1: `log` may not import `search`"), "{found:?}");
        assert!(found[1].contains("query.rs:1: `model` may not import `text`"), "{found:?}");
    }

    #[test]
    fn files_have_no_import_cycle() {
        let found = found(&[
            ("search/exec/a.rs", "use super::b;\n"),
            ("search/exec/b.rs", "use crate::search::exec::{c::{D, E}};\n"),
            ("search/exec/c.rs", "fn f() { crate::search::exec::a::g() }\n"),
            ("search/exec/d.rs", "use crate::search::exec::a::A;\n"),
        ]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("a.rs: is in a circle of imports, with search::exec::b"));
    }

    #[test]
    fn a_private_child_belongs_to_its_parent() {
        let parent = ("search/exec/a.rs", "mod part;\nuse part::B;\n");
        let child = ("search/exec/a/part.rs", "use crate::search::exec::a::A;\n");
        assert_eq!(found(&[parent, child]), [""; 0]);
        let public = ("search/exec/a.rs", "pub(crate) mod part;\nuse part::B;\n");
        assert_eq!(found(&[public, child]).len(), 2);
    }

    #[test]
    fn unit_tests_may_import_anything() {
        let text = "#[cfg(test)]\nmod tests {\n use crate::indexer::a::A;\n}\n";
        assert_eq!(found(&[("log/store.rs", text), ("indexer/a.rs", "")]), [""; 0]);
    }

    #[test]
    fn folders_are_small() {
        let names: Vec<String> = (0..16).map(|i| format!("search/exec/f{i}.rs")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(found(&files).len(), 1);
        assert_eq!(found(&files[..15]), [""; 0]);
    }

    #[test]
    fn methods_of_a_type_are_in_few_files() {
        let names = ["a", "b", "c", "d"].map(|name| format!("search/exec/{name}.rs"));
        let files: Vec<(&str, &str)> =
            names.iter().map(|name| (name.as_str(), "impl<'r> Run<'r> {\n}\n")).collect();
        assert_eq!(found(&files).len(), 1);
        assert_eq!(found(&files[..3]), [""; 0]);
    }

    #[test]
    fn the_tables_have_no_cycle() {
        for layers in LAYERS {
            for (i, (layer, allowed)) in layers.allowed.iter().enumerate() {
                let below =
                    |name: &&str| layers.allowed[..i].iter().any(|(below, _)| below == name);
                let wrong = allowed.iter().find(|name| !below(name));
                assert_eq!(wrong, None, "of {layer}");
            }
        }
    }
}
