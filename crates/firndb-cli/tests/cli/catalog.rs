//! `firn catalog`: versions are published, compared, removed and pulled.

use super::Sandbox;
use serde_json::json;
use std::fs;

/// A collection of two partitions and a table.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,city\n1,Oslo\n2,Bergen\n");
    sandbox.write("b.csv", "id,city\n3,Oslo\n");
    sandbox.firn("search build a.csv b.csv -o docs --partition-by city").ok();
    sandbox.write("words.csv", "key,value\none,1\ntwo,2\n");
    sandbox
}

#[test]
fn versions_are_published_and_removed() {
    let sandbox = sandbox();
    let first = sandbox.firn("catalog publish c docs docs --json").ok().json();
    assert_eq!((&first[0]["version"], &first[0]["kind"]), (&json!(1), &json!("collection")));
    assert_eq!(first[0]["files"], first[0]["sent_files"]);
    let again = sandbox.firn("catalog publish c docs docs --label why=again").ok();
    assert!(again.out.starts_with("docs: version 2"), "{}", again.out);
    assert!(again.out.contains("0 of them new (0 B)"), "{}", again.out);
    let partition = sandbox.firn("search partitions docs --json").ok().json()[0]["name"].clone();
    sandbox.firn(&format!("search remove docs {}", partition.as_str().unwrap())).ok();
    sandbox.firn("catalog publish c docs docs").ok();

    let diff = sandbox.firn("catalog diff c docs 2 --json").ok().json();
    let changes = diff[0]["changes"].as_array().unwrap();
    assert!(changes.iter().any(|c| c["name"] == partition && c["after_bytes"].is_null()));
    assert_eq!(diff[0]["after"], 3);
    assert!(sandbox.firn("catalog diff c docs 2 3").ok().out.contains("removed"));
    let shown = sandbox.firn("catalog show c docs 2 --json").ok().json();
    assert_eq!((&shown[0]["labels"]["why"], &shown[0]["parent"]), (&json!("again"), &json!(1)));
    assert!(sandbox.firn("catalog show c docs 2").ok().out.contains("label      why=again"));

    sandbox.firn("catalog rollback c docs 2").ok();
    sandbox.firn("catalog pin c docs 1 --note first").ok();
    sandbox.firn("catalog pin c docs 1").fails(4, "pinned already");
    let listed = sandbox.firn("catalog ls c docs --json").ok().json();
    let pinned: Vec<_> = listed.iter().map(|line| line["pinned"].as_bool().unwrap()).collect();
    assert_eq!(pinned, [true, false, false, false]);
    assert!(sandbox.firn("catalog ls c docs").ok().out.contains("as version 2"));
    let said = sandbox.firn("catalog gc c --keep 1 --grace 0s --dry-run --json").ok().json();
    assert_eq!(said[0]["versions"], json!([2, 3]));
    sandbox.firn("catalog gc c --keep 1 --grace 0s").ok();
    sandbox.firn("catalog pin c docs 1 --remove").ok();
    let done = sandbox.firn("catalog gc c docs --keep 1 --grace 0s --json").ok().json();
    assert_eq!(done[0]["versions"], json!([1]));
    let names = sandbox.firn("catalog ls c --json").ok().json();
    assert_eq!((names.len(), &names[0]["version"]), (1, &json!(4)));
    sandbox.firn("catalog verify c docs").ok();
}

#[test]
fn a_pulled_version_is_identical() {
    let sandbox = sandbox();
    sandbox.firn("catalog publish c docs docs").ok();
    sandbox.firn("catalog pull c docs -o copy").ok();
    let count = |dir: &str| sandbox.firn(&format!("search count {dir}")).ok().out;
    assert_eq!(count("copy"), count("docs"));
    sandbox.firn("verify copy").ok();
    sandbox.firn("catalog pull c docs -o copy").ok();
    sandbox.firn("catalog pull c docs -o .").fails(4, "choose another one");
    sandbox.firn("catalog watch c docs -o cache --versions 1").ok();
    // A damaged object is detected and not pulled; publishing with `--verify` repairs it.
    let files = sandbox.path("c/docs/files");
    let largest = fs::read_dir(&files).unwrap().flatten();
    let largest = largest.max_by_key(|file| file.metadata().unwrap().len()).unwrap().path();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::remove_file(&largest).unwrap();
    fs::write(&largest, bytes).unwrap();
    sandbox.firn("catalog verify c docs").fails(6, "not the file");
    sandbox.firn("catalog pull c docs -o other").fails(6, "the manifest names");
    sandbox.firn("catalog watch c docs -o other-cache --versions 1").fails(6, "the manifest names");
    sandbox.firn("catalog publish c docs docs").ok();
    sandbox.firn("catalog verify c docs").fails(6, "not the file");
    let repaired = sandbox.firn("catalog publish c docs docs --verify").ok();
    assert!(
        repaired.out.contains("1 file of the version before missing or damaged"),
        "{}",
        repaired.out
    );
    sandbox.firn("catalog verify c docs").ok();
}

/// All files below a directory, with their contents.
fn contents(dir: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.metadata().unwrap().is_dir() {
            true => all.extend(contents(&entry.path())),
            false => all.push((entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    all.sort();
    all
}

/// `watch` and `pull` refuse a directory that has other files in it.
#[test]
fn directories_with_other_files_are_refused_and_unchanged() {
    let sandbox = sandbox();
    sandbox.firn("catalog publish c docs docs").ok();
    fs::create_dir(sandbox.path("tables")).unwrap();
    sandbox.firn("table build -i words.csv --key key -o tables/words.firn").ok();
    sandbox.write("tables/draft.tmp", "note");
    sandbox.firn("log put store k v").ok();
    for (dir, file) in [("locked", "lock"), ("hidden", ".env"), ("hashed", ".x.part")] {
        fs::create_dir(sandbox.path(dir)).unwrap();
        sandbox.write(&format!("{dir}/{file}"), "");
    }
    fs::create_dir(sandbox.path("linked")).unwrap();
    std::os::unix::fs::symlink("nowhere", sandbox.path("linked/link")).unwrap();
    for dir in ["tables", "docs", "store", "locked", "hidden", "hashed", "c"] {
        let before = contents(&sandbox.path(dir));
        sandbox
            .firn(&format!("catalog watch c docs -o {dir} --versions 1"))
            .fails(4, "no cache of");
        if dir != "docs" {
            sandbox.firn(&format!("catalog pull c docs -o {dir}")).fails(4, "choose another one");
        }
        assert_eq!(contents(&sandbox.path(dir)), before, "{dir}");
    }
    sandbox.firn("catalog watch c docs -o linked --versions 1").fails(4, "`link`");
    sandbox.firn("catalog pull c docs -o linked").fails(4, "`link`");
    // A pull accepts a directory of its own, and keeps files that were added to it.
    sandbox.firn("catalog watch c docs -o cache --versions 1").ok();
    sandbox.write("cache/users.firn", "mine");
    sandbox.firn("catalog watch c docs -o cache --versions 1").ok();
    assert_eq!(fs::read(sandbox.path("cache/users.firn")).unwrap(), b"mine");
    sandbox.firn("catalog pull c docs -o cache").fails(4, "choose another one");
}

/// A second pull writes the version that it reports, or is refused. It never reports success while
/// another version is in place.
#[test]
fn a_pull_never_leaves_another_version() {
    let sandbox = sandbox();
    let build = "table build -i words.csv --key key -o words.table --force --publish c words";
    sandbox.firn(build).ok();
    sandbox.write("words.csv", "key,value\none,new\n");
    sandbox.firn(build).ok();
    sandbox.firn("catalog pull c words -o copy --version 1").ok();
    sandbox.firn("catalog pull c words -o copy").fails(4, "not of version 2");
    sandbox.firn("catalog pull c words -o copy --version 1").ok();
    assert_eq!(sandbox.firn("table get copy/words.table one").ok().out.trim(), "1");
    fs::create_dir(sandbox.path("own")).unwrap();
    sandbox.write("own/words.table", "not a table");
    sandbox.firn("catalog pull c words -o own").fails(4, "`words.table`");
    assert_eq!(fs::read(sandbox.path("own/words.table")).unwrap(), b"not a table");
    let names: Vec<_> = contents(&sandbox.path("copy")).into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, [sandbox.path("copy/words.table")]);
}

/// After a restart, `watch` reports which version it cannot open, and why.
#[test]
fn watch_reports_why_the_newest_version_is_not_open() {
    let sandbox = sandbox();
    let build = "table build -i words.csv --key key -o words.table --force --publish c words";
    sandbox.firn(build).ok();
    sandbox.firn("catalog watch c words -o cache --versions 1").ok();
    sandbox.write("words.csv", "key,value\none,new\n");
    sandbox.firn(build).ok();
    fs::write(sandbox.path("c/words/versions/00000000000000000002.json"), "cut").unwrap();
    let started = sandbox.firn("catalog watch c words -o cache --versions 1").ok();
    assert!(started.out.contains("version 1 is open"), "{}", started.out);
    assert!(started.err.contains("manifest"), "{}", started.err);
    assert!(started.err.contains("version 1 goes on"), "{}", started.err);
}

#[test]
fn a_table_is_built_and_published() {
    let sandbox = sandbox();
    let built = "table build -i words.csv --key key -o words.table --publish c words";
    assert!(sandbox.firn(built).ok().out.contains("words: version 1, published"));
    let again = sandbox.firn(&format!("{built} --force --json")).ok().json();
    assert_eq!(again[0]["version"], 2);
    sandbox.firn("catalog pull c words -o out --version 1").ok();
    assert_eq!(sandbox.firn("table get out/words.table two").ok().out.trim(), "2");
}

/// Two machines stage a shard each, and their lines are published.
#[test]
fn staged_tables_are_published() {
    let sandbox = sandbox();
    sandbox.firn("table build words.csv --key key -o words.table").ok();
    let staged = sandbox.firn("catalog stage c words words.table").ok();
    assert_eq!(staged.json()[0]["statistics"]["records"], 2);
    sandbox.firn("catalog ls c words").fails(3, "nothing is published");
    let publish = "catalog publish c words --staged - --label from=two --json";
    let first = sandbox.firn_with(publish, staged.out.as_bytes()).ok().json();
    assert_eq!((&first[0]["kind"], &first[0]["labels"]["from"]), (&json!("table"), &json!("two")));
    sandbox.firn("catalog pull c words -o copy").ok();
    assert_eq!(sandbox.firn("table get copy/words.table two").ok().out.trim(), "2");

    // Each key in a table of its own: in one of the two orders the tables are the shards.
    let mut lines = Vec::new();
    for (file, rows) in [("a", "key,value\none,1\n"), ("b", "key,value\ntwo,2\n")] {
        sandbox.write(&format!("{file}.csv"), rows);
        sandbox.firn(&format!("table build {file}.csv --key key -o {file}.table")).ok();
        lines.push(sandbox.firn(&format!("catalog stage c words {file}.table")).ok().out);
    }
    let outcomes = [[0, 1], [1, 0]].map(|order| {
        sandbox.write("lines", order.map(|i: usize| lines[i].clone()).concat());
        sandbox.firn("catalog publish c words --staged lines --json")
    });
    let keys = ["one", "two"].map(|key| firndb::table::shard_of(key, 2));
    for (order, outcome) in [[0, 1], [1, 0]].into_iter().zip(outcomes) {
        match order == keys {
            true => assert_eq!(outcome.ok().json()[0]["kind"], "sharded table"),
            false => drop(outcome.fails(2, "its position in the list")),
        }
    }
    sandbox.write("lines", &lines[0][..lines[0].len() / 2]);
    sandbox.firn("catalog publish c words --staged lines").fails(6, "line 1: this is no line");
    sandbox.firn("catalog publish c words --staged lines words.table").fails(2, "cannot be used");
    sandbox.firn("catalog publish c words").fails(2, "required");
    sandbox.firn("catalog stage c docs docs").fails(2, "from one machine");
    let cleaned = sandbox.firn("catalog gc c --grace 0s --json").ok().json();
    assert_eq!(cleaned[0]["staged"], 3);
    sandbox.firn_with(publish, staged.out.as_bytes()).fails(3, "stage it again");
}

#[test]
fn mistakes_are_reported() {
    let sandbox = sandbox();
    sandbox.firn("catalog ls c").fails(3, "there is no catalog here");
    sandbox.firn("catalog publish c a/b docs").fails(2, "cannot be a name");
    sandbox.firn("catalog publish c docs missing").fails(3, "missing");
    sandbox.firn("catalog publish c docs a.csv").fails(2, "not a file of FirnDB");
    sandbox.firn("catalog publish c docs docs --label why").fails(2, "NAME=TEXT");
    sandbox.firn("catalog show c docs").fails(3, "nothing is published");
    sandbox.firn("catalog publish c docs docs").ok();
    sandbox.firn("catalog show c docs 7").fails(3, "there is no version 7");
    sandbox.firn("catalog gc c --keep 0").fails(2, "from 1 on");
    sandbox.firn("catalog watch c docs -o cache --every 0s").fails(2, "--every");
}
