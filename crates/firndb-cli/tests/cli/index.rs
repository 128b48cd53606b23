//! `firn index`: applies feeds and keeps a collection up to date.

use super::{ROWS, Sandbox, csv};
use serde_json::{Value as Json, json};

/// An index of the sample, partitioned by region.
fn with_index() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", csv());
    let schema = sandbox.firn("search build data.csv --infer").ok().out;
    sandbox.write("schema.toml", schema);
    let run = sandbox.firn("index init x --schema schema.toml --partition-by region").ok();
    assert_eq!(run.out, "x: an index of documents with 6 fields, divided by field `region`\n");
    sandbox
}

fn apply(sandbox: &Sandbox, line: &str) -> Json {
    sandbox.firn(&format!("index apply x {line} --key id --json")).ok().json().remove(0)
}

#[test]
fn a_second_feed_rebuilds_only_changed_partitions() {
    let sandbox = with_index();
    let first = apply(&sandbox, "main data.csv");
    assert_eq!(
        (&first["added"], &first["dirty"]),
        (&json!(ROWS), &json!(["east", "north", "south"]))
    );
    assert_eq!(first["published"]["documents"], ROWS);
    assert_eq!(sandbox.firn("search count x/collection").ok().out, format!("{ROWS}\n"));
    // Its log, a manifest, and a partition for each region.
    let checked = sandbox.firn("verify x --json").ok().json();
    assert!(checked[0]["files"].as_u64() >= Some(5), "{checked:?}");

    // Row 0 (north) is gone, row 1 (south) has another price, row 9000 (south) is new.
    let rows: Vec<String> = csv().lines().map(str::to_string).collect();
    let mut new = [&rows[..1], &rows[2..]].concat();
    new[1] = new[1].replacen("37.5", "1", 1);
    new.push("9000,south,2,2024-01-01T00:00:00Z,NA,true".to_string());
    sandbox.write("new.csv", new.join("\n"));
    let run = sandbox.firn("index apply x main new.csv --key id --no-publish").ok();
    assert!(
        run.out.starts_with(
            "main: 1 added, 1 updated, 1 removed, 598 unchanged; 2 partitions changed, in "
        ),
        "{}",
        run.out
    );
    assert_eq!(sandbox.firn("search count x/collection 'id = 9000'").ok().out, "0\n");
    let status = sandbox.firn("index status x --json").ok().json().remove(0);
    assert_eq!(status["dirty"], json!(["north", "south"]));
    assert_eq!(status["sources"], json!([{ "name": "main", "documents": ROWS }]));
    let text = sandbox.firn("index status x").ok().out;
    assert!(text.contains("2 partitions changed and not published: north, south;"), "{text}");

    let done = sandbox.firn("index rebuild x --json").ok().json().remove(0);
    assert_eq!((&done["rebuilt"], &done["documents"]), (&json!(["north", "south"]), &json!(400)));
    assert_eq!(sandbox.firn("search count x/collection 'id = 9000 or price = 1'").ok().out, "2\n");
    assert_eq!(sandbox.firn("index rebuild x").ok().out, "Nothing to publish.\n");
    assert_eq!(apply(&sandbox, "main new.csv")["unchanged"], ROWS);
}

#[test]
fn single_changes_keep_other_documents() {
    let sandbox = with_index();
    apply(&sandbox, "main data.csv");
    sandbox.write("one.csv", "id,region,price,day,rating,ok\n3,west,5,2024-01-01,NA,true\n");
    let one = apply(&sandbox, "main one.csv --update");
    assert_eq!((&one["updated"], &one["removed"]), (&json!(1), &json!(0)));
    assert_eq!(one["dirty"], json!(["north", "west"]));
    sandbox.write("gone.csv", "id\n3\n4\n77777\n");
    let gone = apply(&sandbox, "main gone.csv --delete");
    assert_eq!((&gone["removed"], &gone["unchanged"]), (&json!(2), &json!(1)));
    assert_eq!(gone["published"]["removed"], json!(["west"]));
    assert_eq!(sandbox.firn("search count x/collection").ok().out, format!("{}\n", ROWS - 2));
    // For a shared key, a source of a smaller name takes precedence over `main`.
    apply(&sandbox, "a one.csv");
    apply(&sandbox, "main data.csv");
    assert_eq!(sandbox.firn("search count x/collection 'region = \"west\"'").ok().out, "1\n");
}

/// Rows of all inputs count, also those that are skipped.
#[test]
fn row_numbers_are_keys_of_feeds_that_grow_at_their_end() {
    let sandbox = with_index();
    let apply = |inputs: &str| {
        let line = format!("index apply x main {inputs} --row-number --on-error skip --json");
        sandbox.firn(&line).ok().json().remove(0)
    };
    let head = "id,region,price,day,rating,ok\n";
    let row = |id: u32| format!("{id},west,5,2024-01-01,NA,true\n");
    sandbox.write("a.csv", format!("{head}{}x,west\n{}", row(1), row(2)));
    sandbox.write("b.csv", format!("{head}{}", row(1)));
    let first = apply("a.csv b.csv");
    assert_eq!((&first["added"], &first["skipped"]), (&json!(3), &json!(1)));
    sandbox.write("b.csv", format!("{head}{}{}", row(1), row(3)));
    let more = apply("a.csv b.csv");
    assert_eq!((&more["added"], &more["unchanged"]), (&json!(1), &json!(3)));
    assert_eq!(sandbox.firn("search count x/collection 'id = 1'").ok().out, "2\n");
    // The row that could not be used has the number 2.
    sandbox.write("a.csv", format!("{head}{}{}{}", row(1), row(9), row(2)));
    let whole = apply("a.csv b.csv");
    assert_eq!((&whole["added"], &whole["unchanged"]), (&json!(1), &json!(4)));
    let line = "index apply x main a.csv --row-number";
    for other in ["--key id", "--update", "--delete"] {
        sandbox.firn(&format!("{line} {other}")).fails(2, "--row-number");
    }
}

#[test]
fn documents_can_be_repartitioned() {
    let sandbox = with_index();
    apply(&sandbox, "main data.csv");
    let ask = || sandbox.firn("search group x/collection 'price > 30' --by region --json").ok().out;
    let before = ask();
    sandbox.firn("index rebuild x --partitions 5").ok();
    let status = sandbox.firn("index status x --json").ok().json().remove(0);
    assert_eq!((&status["partitions"], &status["partitions_by_hash"]), (&json!(5), &json!(5)));
    assert_eq!(ask(), before);
    let done = sandbox.firn("index rebuild x --all --json").ok().json().remove(0);
    assert_eq!(done["rebuilt"].as_array().unwrap().len(), 5);
    std::fs::remove_dir_all(sandbox.path("x/collection")).unwrap();
    sandbox.firn("index rebuild x").ok();
    assert_eq!(ask(), before);
}

#[test]
fn mistakes_are_reported_and_change_nothing() {
    let sandbox = with_index();
    apply(&sandbox, "main data.csv");
    sandbox.firn("index status y").fails(3, "`firn index init` makes one");
    sandbox.firn("index init x --schema schema.toml").fails(4, "there is an index already");
    sandbox.firn("index init y --schema schema.toml --partition-by nowhere").fails(2, "`nowhere`");
    sandbox.firn("index init y --schema schema.toml --partitions 0").fails(2, "choose 1 to 32000");
    sandbox.firn("index apply x main data.csv").fails(2, "<--key <COLUMN,...>|--row-number>");
    sandbox
        .firn("index apply x main data.csv --key idd")
        .fails(2, "data.csv:2: column `idd` of the key");
    sandbox.write("bad.csv", csv().replacen("north", "north,x", 400));
    sandbox.firn("index apply x main bad.csv --key id").fails(2, "bad.csv:2");
    sandbox.write("empty.csv", "id,region,price,day,rating,ok\n");
    sandbox.firn("index apply x main empty.csv --key id").fails(2, "--allow-empty");
    assert_eq!(sandbox.firn("search count x/collection").ok().out, format!("{ROWS}\n"));
    assert_eq!(sandbox.firn("index rebuild x").ok().out, "Nothing to publish.\n");
    let lock = std::fs::File::open(sandbox.path("x/log/lock")).unwrap();
    lock.try_lock().unwrap();
    sandbox.firn("index status x").fails(5, "another program has this index open");
    drop(lock);
    let gone = apply(&sandbox, "main empty.csv --allow-empty");
    assert_eq!(gone["removed"], ROWS);
}

#[test]
fn a_truncated_feed_removes_nothing() {
    let sandbox = with_index();
    apply(&sandbox, "main data.csv");
    let rows: Vec<String> = csv().lines().map(str::to_string).collect();
    let write = |name: &str, rows: &[String]| sandbox.write(name, rows.join("\n"));
    write("one.csv", &rows[..2]);
    write("part.csv", &rows[..=ROWS as usize / 2 - 10]);
    let all = format!("{ROWS}\n");
    for file in ["one.csv", "part.csv"] {
        let run = sandbox.firn(&format!("index apply x main {file} --key id"));
        let run = run.fails(2, &format!("of the {ROWS} documents of source `main`"));
        assert!(run.err.contains("--allow-removals") && run.out.is_empty(), "{}", run.err);
    }
    let run = sandbox.firn("index apply x main one.csv --key id --json").fails(2, "");
    let error: Json = serde_json::from_str(&run.err).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("remove {} of", ROWS - 1)), "{message}");
    sandbox.firn("index apply x main one.csv --key id --max-removed 0.9").fails(2, "share of 0.9");
    assert_eq!(sandbox.firn("search count x/collection").ok().out, all);
    assert_eq!(sandbox.firn("index rebuild x").ok().out, "Nothing to publish.\n");
    for share in ["1.1", "-0.1", "NaN", "half"] {
        let run =
            sandbox.firn(&format!("index apply x main one.csv --key id --max-removed={share}"));
        run.fails(2, "is not a share");
    }
    sandbox
        .firn("index apply x main one.csv --key id --update --allow-removals")
        .fails(2, "cannot");
    sandbox.firn("index apply x main one.csv --key id --allow-empty").fails(2, "--allow-removals");
    assert_eq!(apply(&sandbox, "main one.csv --allow-removals")["removed"], ROWS - 1);
    assert_eq!(apply(&sandbox, "main data.csv")["added"], ROWS - 1);
    assert_eq!(apply(&sandbox, "main part.csv --max-removed 0.6")["removed"], ROWS / 2 + 10);
}

#[test]
fn skipped_rows_remove_no_documents() {
    let sandbox = with_index();
    apply(&sandbox, "main data.csv");
    let all = format!("{ROWS}\n");
    // One row is bad, so its document is missing; all others are unchanged.
    sandbox.write("bad.csv", csv().replacen("37.5", "x", 1));
    let line = "index apply x main bad.csv --key id --on-error skip";
    sandbox.firn(line).fails(2, "1 rows were left out");
    // All rows are bad.
    sandbox.write("worse.csv", "id,region,price,day,rating,ok\nx,y,z,1,2,3\n");
    let worse = "index apply x main worse.csv --key id --on-error skip";
    sandbox.firn(worse).fails(2, "--allow-empty");
    sandbox.firn(&format!("{worse} --allow-empty")).fails(2, "left out");
    assert_eq!(sandbox.firn("search count x/collection").ok().out, all);
    assert_eq!(apply(&sandbox, "main bad.csv --on-error skip --max-removed 0.01")["removed"], 1);
    // A bad row in a feed that has every document removes nothing.
    sandbox.write("more.csv", format!("{}\nx,y,z,1,2,3\n", csv().trim_end()));
    let more = apply(&sandbox, "main more.csv --on-error skip");
    assert_eq!(
        (&more["added"], &more["removed"], &more["skipped"]),
        (&json!(1), &json!(0), &json!(1))
    );
}

#[test]
fn commands_refuse_to_change_the_collection_of_an_index() {
    let sandbox = with_index();
    apply(&sandbox, "main data.csv");
    sandbox.write("one.csv", "id,region,price,day,rating,ok\n3,west,5,2024-01-01,NA,true\n");
    let before = sandbox.firn("search scan x/collection all").ok().out;
    let link = "ln";
    std::os::unix::fs::symlink("x/collection", sandbox.path(link)).unwrap();
    for dir in ["x/collection", link] {
        for line in [
            "build one.csv -o DIR --add --partition new",
            "build one.csv -o DIR --update --partition north",
            "build one.csv -o DIR --replace",
            "replace DIR north one.csv",
            "remove DIR north",
            "merge DIR north south --into both",
            "compact DIR --at-least 2 --unchanged-for 0s",
        ] {
            let run = sandbox.firn(&format!("search {}", line.replace("DIR", dir)));
            run.fails(2, "firn index rebuild DIR --partitions N");
        }
    }
    sandbox.firn("search build one.csv -o x/collection").fails(4, "there is a collection already");
    assert_eq!(sandbox.firn("search scan x/collection all").ok().out, before);
    assert_eq!(sandbox.firn("index rebuild x").ok().out, "Nothing to publish.\n");
    // A collection pulled from a catalog may be changed.
    sandbox.firn("catalog publish c docs x/collection").ok();
    sandbox.firn("catalog pull c docs -o copy").ok();
    sandbox.firn("search remove copy north").ok();
    // A plain copy may be changed once its file `owned-by-index` is removed.
    let mut copy = std::process::Command::new("cp");
    copy.args(["-r", "x/collection", "y"]).current_dir(&sandbox.0);
    assert!(copy.status().unwrap().success());
    sandbox.firn("search remove y north").fails(2, "remove the file `owned-by-index`");
    std::fs::remove_file(sandbox.path("y/owned-by-index")).unwrap();
    sandbox.firn("search remove y north").ok();
}

/// An index whose documents have version `version`, published.
fn index_of(sandbox: &Sandbox, name: &str, version: u32) {
    sandbox
        .write("ids.toml", "[fields]\nid = \"u64 full\"\ng = \"string full\"\nv = \"i64 full\"\n");
    sandbox.firn(&format!("index init {name} --schema ids.toml --partition-by g")).ok();
    apply_version(sandbox, name, version, "");
}

fn apply_version(sandbox: &Sandbox, name: &str, version: u32, options: &str) {
    let rows = ["A", "B", "C"].iter().enumerate();
    let rows: String = rows.map(|(id, g)| format!("{id},{g},{version}\n")).collect();
    sandbox.write("feed.csv", format!("id,g,v\n{rows}"));
    sandbox.firn(&format!("index apply {name} s feed.csv --key id {options}")).ok();
}

fn versions(sandbox: &Sandbox, name: &str) -> String {
    let export = format!("search scan {name}/collection 'all order by id' --fields v");
    sandbox.firn(&export).ok().out.replace('\n', " ")
}

#[test]
fn a_foreign_or_older_collection_is_rebuilt() {
    let sandbox = Sandbox::new();
    index_of(&sandbox, "one", 1);
    let copy = |from: &str, to: &str| {
        let _ = std::fs::remove_dir_all(sandbox.path(to));
        std::fs::create_dir(sandbox.path(to)).unwrap();
        for entry in std::fs::read_dir(sandbox.path(from)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), sandbox.path(to).join(entry.file_name())).unwrap();
        }
    };
    copy("one/collection", "old");
    apply_version(&sandbox, "one", 2, "");
    apply_version(&sandbox, "one", 3, "--no-publish");
    copy("old", "one/collection");
    let run = sandbox.firn("index rebuild one").ok();
    assert!(run.err.contains("not the one that this index published last"), "{}", run.err);
    assert!(run.out.contains("3 partitions rebuilt"), "{}", run.out);
    assert_eq!(versions(&sandbox, "one"), "v 3 3 3 ");
    // The collection of another index, with the same set number.
    index_of(&sandbox, "two", 7);
    index_of(&sandbox, "three", 8);
    copy("three/collection", "two/collection");
    sandbox.firn("index rebuild two").ok();
    assert_eq!(versions(&sandbox, "two"), "v 7 7 7 ");
    let run = sandbox.firn("index rebuild two").ok();
    assert_eq!((&*run.out, &*run.err), ("Nothing to publish.\n", ""));
}

#[test]
fn a_backup_is_an_index() {
    let sandbox = Sandbox::new();
    index_of(&sandbox, "one", 1);
    let run = sandbox.firn("index backup one -o copy --json").ok().json();
    assert_eq!((&run[0]["partitions"], &run[0]["dirty"]), (&3.into(), &0.into()));
    let run = sandbox.firn("index rebuild copy").ok();
    assert_eq!((&*run.out, &*run.err), ("Nothing to publish.\n", ""));
    assert_eq!(versions(&sandbox, "copy"), "v 1 1 1 ");
    // It includes what is not published yet.
    apply_version(&sandbox, "one", 2, "--no-publish");
    let run = sandbox.firn("index backup one -o later").ok();
    assert!(run.out.contains("3 partitions not published yet"), "{}", run.out);
    apply_version(&sandbox, "one", 3, "");
    let run = sandbox.firn("index rebuild later").ok();
    assert!(run.out.contains("3 partitions rebuilt") && run.err.is_empty(), "{}", run.err);
    assert_eq!(
        (versions(&sandbox, "later"), versions(&sandbox, "one")),
        ("v 2 2 2 ".into(), "v 3 3 3 ".into())
    );
    sandbox.firn("verify later/collection").ok();

    sandbox.firn("index backup one -o later").fails(4, "nothing was changed");
    sandbox.firn("index backup one -o one/backup").fails(4, "inside");
    std::fs::create_dir(sandbox.path("mine")).unwrap();
    sandbox.write("mine/letter.txt", "dear");
    sandbox.firn("index backup one -o mine").fails(4, "letter.txt");
    sandbox.firn("index backup nowhere -o copy2").fails(3, "there is no index here");
}

#[test]
fn different_values_of_key_columns_give_different_keys() {
    let sandbox = Sandbox::new();
    sandbox.write("ids.toml", "[fields]\na = \"string full\"\nb = \"string full\"\n");
    sandbox.firn("index init x --schema ids.toml --partitions 2").ok();
    // U+001F separates the values of a key.
    let rows = ["x\\u001f\",\"b\":\"y", "x\",\"b\":\"\\u001fy", "1\",\"b\":\"2"];
    let rows = rows.map(|row| format!("{{\"a\":\"{row}\"}}\n")).concat();
    sandbox.write("feed.jsonl", rows + "{\"a\":1,\"b\":\"2\"}\n{\"a\":1,\"b\":2}\n");
    let run = sandbox.firn("index apply x s feed.jsonl --key a,b --json").ok().json();
    assert_eq!((&run[0]["added"], &run[0]["repeated"]), (&5.into(), &0.into()));
    sandbox.write("delete.jsonl", "{\"a\":1,\"b\":\"2\"}\n");
    let run = sandbox.firn("index apply x s delete.jsonl --key a,b --delete --json").ok().json();
    assert_eq!(run[0]["removed"], 1);
    assert_eq!(sandbox.firn("search count x/collection").ok().out, "4\n");
}
