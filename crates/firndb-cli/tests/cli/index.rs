//! `firn index`: applies feeds and keeps a collection up to date.

use super::{Place, ROWS, csv};
use serde_json::{Value as Json, json};

/// An index of the sample, partitioned by region.
fn with_index() -> Place {
    let place = Place::new();
    place.write("data.csv", csv());
    let schema = place.firn("search build data.csv --infer").ok().out;
    place.write("schema.toml", schema);
    let run = place.firn("index init x --schema schema.toml --partition-by region").ok();
    assert_eq!(run.out, "x: an index of documents with 6 fields, divided by field `region`\n");
    place
}

fn apply(place: &Place, line: &str) -> Json {
    place.firn(&format!("index apply x {line} --key id --json")).ok().json().remove(0)
}

#[test]
fn a_second_feed_rebuilds_only_changed_partitions() {
    let place = with_index();
    let first = apply(&place, "main data.csv");
    assert_eq!(
        (&first["added"], &first["dirty"]),
        (&json!(ROWS), &json!(["east", "north", "south"]))
    );
    assert_eq!(first["published"]["documents"], ROWS);
    assert_eq!(place.firn("search count x/collection").ok().out, format!("{ROWS}\n"));
    // Its log, a manifest, and a partition for each region.
    let checked = place.firn("verify x --json").ok().json();
    assert!(checked[0]["files"].as_u64() >= Some(5), "{checked:?}");

    // Row 0 (north) is gone, row 1 (south) has another price, row 9000 (south) is new.
    let rows: Vec<String> = csv().lines().map(str::to_string).collect();
    let mut new = [&rows[..1], &rows[2..]].concat();
    new[1] = new[1].replacen("37.5", "1", 1);
    new.push("9000,south,2,2024-01-01T00:00:00Z,NA,true".to_string());
    place.write("new.csv", new.join("\n"));
    let run = place.firn("index apply x main new.csv --key id --no-publish").ok();
    assert!(
        run.out.starts_with(
            "main: 1 added, 1 updated, 1 removed, 598 unchanged; 2 partitions changed, in "
        ),
        "{}",
        run.out
    );
    assert_eq!(place.firn("search count x/collection 'id = 9000'").ok().out, "0\n");
    let status = place.firn("index status x --json").ok().json().remove(0);
    assert_eq!(status["dirty"], json!(["north", "south"]));
    assert_eq!(status["sources"], json!([{ "source": "main", "documents": ROWS }]));
    let text = place.firn("index status x").ok().out;
    assert!(text.contains("2 partitions changed and not published: north, south;"), "{text}");

    let done = place.firn("index rebuild x --json").ok().json().remove(0);
    assert_eq!((&done["rebuilt"], &done["documents"]), (&json!(["north", "south"]), &json!(400)));
    assert_eq!(place.firn("search count x/collection 'id = 9000 or price = 1'").ok().out, "2\n");
    assert_eq!(place.firn("index rebuild x").ok().out, "Nothing to publish.\n");
    assert_eq!(apply(&place, "main new.csv")["unchanged"], ROWS);
}

#[test]
fn single_changes_keep_other_documents() {
    let place = with_index();
    apply(&place, "main data.csv");
    place.write("one.csv", "id,region,price,day,rating,ok\n3,west,5,2024-01-01,NA,true\n");
    let one = apply(&place, "main one.csv --update");
    assert_eq!((&one["updated"], &one["removed"]), (&json!(1), &json!(0)));
    assert_eq!(one["dirty"], json!(["north", "west"]));
    place.write("gone.csv", "id\n3\n4\n77777\n");
    let gone = apply(&place, "main gone.csv --delete");
    assert_eq!((&gone["removed"], &gone["unchanged"]), (&json!(2), &json!(1)));
    assert_eq!(gone["published"]["removed"], json!(["west"]));
    assert_eq!(place.firn("search count x/collection").ok().out, format!("{}\n", ROWS - 2));
    // For a shared key, a source of a smaller name takes precedence over `main`.
    apply(&place, "a one.csv");
    apply(&place, "main data.csv");
    assert_eq!(place.firn("search count x/collection 'region = \"west\"'").ok().out, "1\n");
}

#[test]
fn documents_can_be_repartitioned() {
    let place = with_index();
    apply(&place, "main data.csv");
    let ask = || place.firn("search group x/collection 'price > 30' --by region --json").ok().out;
    let before = ask();
    place.firn("index rebuild x --partitions 5").ok();
    let status = place.firn("index status x --json").ok().json().remove(0);
    assert_eq!((&status["partitions"], &status["partitions_by_hash"]), (&json!(5), &json!(5)));
    assert_eq!(ask(), before);
    let done = place.firn("index rebuild x --all --json").ok().json().remove(0);
    assert_eq!(done["rebuilt"].as_array().unwrap().len(), 5);
    std::fs::remove_dir_all(place.path("x/collection")).unwrap();
    place.firn("index rebuild x").ok();
    assert_eq!(ask(), before);
}

#[test]
fn mistakes_are_reported_and_change_nothing() {
    let place = with_index();
    apply(&place, "main data.csv");
    place.firn("index status y").fails(3, "`firn index init` makes one");
    place.firn("index init x --schema schema.toml").fails(4, "there is an index already");
    place.firn("index init y --schema schema.toml --partition-by nowhere").fails(2, "`nowhere`");
    place.firn("index init y --schema schema.toml --partitions 0").fails(2, "choose 1 to 32000");
    place.firn("index apply x main data.csv").fails(2, "--key");
    place
        .firn("index apply x main data.csv --key idd")
        .fails(2, "data.csv:2: column `idd` of the key");
    place.write("bad.csv", csv().replacen("north", "north,x", 400));
    place.firn("index apply x main bad.csv --key id").fails(2, "bad.csv:2");
    place.write("empty.csv", "id,region,price,day,rating,ok\n");
    place.firn("index apply x main empty.csv --key id").fails(2, "--allow-empty");
    assert_eq!(place.firn("search count x/collection").ok().out, format!("{ROWS}\n"));
    assert_eq!(place.firn("index rebuild x").ok().out, "Nothing to publish.\n");
    let lock = std::fs::File::open(place.path("x/log/lock")).unwrap();
    lock.try_lock().unwrap();
    place.firn("index status x").fails(5, "another program has this index open");
    drop(lock);
    let gone = apply(&place, "main empty.csv --allow-empty");
    assert_eq!(gone["removed"], ROWS);
}

#[test]
fn a_truncated_feed_removes_nothing() {
    let place = with_index();
    apply(&place, "main data.csv");
    let rows: Vec<String> = csv().lines().map(str::to_string).collect();
    let write = |name: &str, rows: &[String]| place.write(name, rows.join("\n"));
    write("one.csv", &rows[..2]);
    write("part.csv", &rows[..=ROWS as usize / 2 - 10]);
    let all = format!("{ROWS}\n");
    for file in ["one.csv", "part.csv"] {
        let run = place.firn(&format!("index apply x main {file} --key id"));
        let run = run.fails(2, &format!("of the {ROWS} documents of source `main`"));
        assert!(run.err.contains("--allow-removals") && run.out.is_empty(), "{}", run.err);
    }
    let run = place.firn("index apply x main one.csv --key id --json").fails(2, "");
    let error: Json = serde_json::from_str(&run.err).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("remove {} of", ROWS - 1)), "{message}");
    place.firn("index apply x main one.csv --key id --max-removed 0.9").fails(2, "share of 0.9");
    assert_eq!(place.firn("search count x/collection").ok().out, all);
    assert_eq!(place.firn("index rebuild x").ok().out, "Nothing to publish.\n");
    for share in ["1.1", "-0.1", "NaN", "half"] {
        let run = place.firn(&format!("index apply x main one.csv --key id --max-removed={share}"));
        run.fails(2, "no share");
    }
    place.firn("index apply x main one.csv --key id --update --allow-removals").fails(2, "cannot");
    place.firn("index apply x main one.csv --key id --allow-empty").fails(2, "--allow-removals");
    assert_eq!(apply(&place, "main one.csv --allow-removals")["removed"], ROWS - 1);
    assert_eq!(apply(&place, "main data.csv")["added"], ROWS - 1);
    assert_eq!(apply(&place, "main part.csv --max-removed 0.6")["removed"], ROWS / 2 + 10);
}

#[test]
fn skipped_rows_remove_no_documents() {
    let place = with_index();
    apply(&place, "main data.csv");
    let all = format!("{ROWS}\n");
    // One row is bad, so its document is missing; all others are unchanged.
    place.write("bad.csv", csv().replacen("37.5", "x", 1));
    let line = "index apply x main bad.csv --key id --on-error skip";
    place.firn(line).fails(2, "1 rows were left out");
    // All rows are bad.
    place.write("worse.csv", "id,region,price,day,rating,ok\nx,y,z,1,2,3\n");
    let worse = "index apply x main worse.csv --key id --on-error skip";
    place.firn(worse).fails(2, "--allow-empty");
    place.firn(&format!("{worse} --allow-empty")).fails(2, "left out");
    assert_eq!(place.firn("search count x/collection").ok().out, all);
    assert_eq!(apply(&place, "main bad.csv --on-error skip --max-removed 0.01")["removed"], 1);
    // A bad row in a feed that has every document removes nothing.
    place.write("more.csv", format!("{}\nx,y,z,1,2,3\n", csv().trim_end()));
    let more = apply(&place, "main more.csv --on-error skip");
    assert_eq!(
        (&more["added"], &more["removed"], &more["skipped"]),
        (&json!(1), &json!(0), &json!(1))
    );
}

#[test]
fn commands_refuse_to_change_the_collection_of_an_index() {
    let place = with_index();
    apply(&place, "main data.csv");
    place.write("one.csv", "id,region,price,day,rating,ok\n3,west,5,2024-01-01,NA,true\n");
    let before = place.firn("search export x/collection all").ok().out;
    let link = "ln";
    std::os::unix::fs::symlink("x/collection", place.path(link)).unwrap();
    for dir in ["x/collection", link] {
        for line in [
            "build one.csv -o DIR --add --partition new",
            "build one.csv -o DIR --update --partition north",
            "build one.csv -o DIR --replace",
            "replace DIR north one.csv",
            "remove DIR north",
            "merge DIR north south --into both",
            "compact DIR --at-least 2 --unchanged-for 0",
        ] {
            let run = place.firn(&format!("search {}", line.replace("DIR", dir)));
            run.fails(2, "firn index rebuild DIR --partitions N");
        }
    }
    place.firn("search build one.csv -o x/collection").fails(4, "there is a collection already");
    assert_eq!(place.firn("search export x/collection all").ok().out, before);
    assert_eq!(place.firn("index rebuild x").ok().out, "Nothing to publish.\n");
    // A collection pulled from a catalog may be changed.
    place.firn("catalog publish c docs x/collection").ok();
    place.firn("catalog pull c docs copy").ok();
    place.firn("search remove copy north").ok();
    // So may a copy, once the user confirms it.
    let mut copy = std::process::Command::new("cp");
    copy.args(["-r", "x/collection", "y"]).current_dir(&place.0);
    assert!(copy.status().unwrap().success());
    place.firn("search remove y north").fails(2, "remove the file `owned-by-index`");
    std::fs::remove_file(place.path("y/owned-by-index")).unwrap();
    place.firn("search remove y north").ok();
}

/// An index whose documents have version `version`, published.
fn index_of(place: &Place, name: &str, version: u32) {
    place.write("ids.toml", "[fields]\nid = \"u64 full\"\ng = \"string full\"\nv = \"i64 full\"\n");
    place.firn(&format!("index init {name} --schema ids.toml --partition-by g")).ok();
    apply_version(place, name, version, "");
}

fn apply_version(place: &Place, name: &str, version: u32, options: &str) {
    let rows = ["A", "B", "C"].iter().enumerate();
    let rows: String = rows.map(|(id, g)| format!("{id},{g},{version}\n")).collect();
    place.write("feed.csv", format!("id,g,v\n{rows}"));
    place.firn(&format!("index apply {name} s feed.csv --key id {options}")).ok();
}

fn versions(place: &Place, name: &str) -> String {
    let export = format!("search export {name}/collection 'all order by id' --fields v");
    place.firn(&export).ok().out.replace('\n', " ")
}

#[test]
fn a_foreign_or_older_collection_is_rebuilt() {
    let place = Place::new();
    index_of(&place, "one", 1);
    let copy = |from: &str, to: &str| {
        let _ = std::fs::remove_dir_all(place.path(to));
        std::fs::create_dir(place.path(to)).unwrap();
        for entry in std::fs::read_dir(place.path(from)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), place.path(to).join(entry.file_name())).unwrap();
        }
    };
    copy("one/collection", "old");
    apply_version(&place, "one", 2, "");
    apply_version(&place, "one", 3, "--no-publish");
    copy("old", "one/collection");
    let run = place.firn("index rebuild one").ok();
    assert!(run.err.contains("not the one that this index published last"), "{}", run.err);
    assert!(run.out.contains("3 partitions rebuilt"), "{}", run.out);
    assert_eq!(versions(&place, "one"), "v 3 3 3 ");
    // The collection of another index, with the same set number.
    index_of(&place, "two", 7);
    index_of(&place, "three", 8);
    copy("three/collection", "two/collection");
    place.firn("index rebuild two").ok();
    assert_eq!(versions(&place, "two"), "v 7 7 7 ");
    let run = place.firn("index rebuild two").ok();
    assert_eq!((&*run.out, &*run.err), ("Nothing to publish.\n", ""));
}

#[test]
fn a_backup_is_an_index() {
    let place = Place::new();
    index_of(&place, "one", 1);
    let run = place.firn("index backup one copy --json").ok().json();
    assert_eq!((&run[0]["partitions"], &run[0]["dirty"]), (&3.into(), &0.into()));
    let run = place.firn("index rebuild copy").ok();
    assert_eq!((&*run.out, &*run.err), ("Nothing to publish.\n", ""));
    assert_eq!(versions(&place, "copy"), "v 1 1 1 ");
    // It includes what is not published yet.
    apply_version(&place, "one", 2, "--no-publish");
    let run = place.firn("index backup one later").ok();
    assert!(run.out.contains("3 partitions not published yet"), "{}", run.out);
    apply_version(&place, "one", 3, "");
    let run = place.firn("index rebuild later").ok();
    assert!(run.out.contains("3 partitions rebuilt") && run.err.is_empty(), "{}", run.err);
    assert_eq!(
        (versions(&place, "later"), versions(&place, "one")),
        ("v 2 2 2 ".into(), "v 3 3 3 ".into())
    );
    place.firn("verify later/collection").ok();

    place.firn("index backup one later").fails(4, "nothing was changed");
    place.firn("index backup one one/backup").fails(4, "inside");
    std::fs::create_dir(place.path("mine")).unwrap();
    place.write("mine/letter.txt", "dear");
    place.firn("index backup one mine").fails(4, "letter.txt");
    place.firn("index backup nowhere copy2").fails(3, "there is no index here");
}

#[test]
fn different_values_of_key_columns_give_different_keys() {
    let place = Place::new();
    place.write("ids.toml", "[fields]\na = \"string full\"\nb = \"string full\"\n");
    place.firn("index init x --schema ids.toml --partitions 2").ok();
    // U+001F separates the values of a key.
    let rows = ["x\\u001f\",\"b\":\"y", "x\",\"b\":\"\\u001fy", "1\",\"b\":\"2"];
    let rows = rows.map(|row| format!("{{\"a\":\"{row}\"}}\n")).concat();
    place.write("feed.jsonl", rows + "{\"a\":1,\"b\":\"2\"}\n{\"a\":1,\"b\":2}\n");
    let run = place.firn("index apply x s feed.jsonl --key a,b --json").ok().json();
    assert_eq!((&run[0]["added"], &run[0]["repeated"]), (&5.into(), &0.into()));
    place.write("delete.jsonl", "{\"a\":1,\"b\":\"2\"}\n");
    let run = place.firn("index apply x s delete.jsonl --key a,b --delete --json").ok().json();
    assert_eq!(run[0]["removed"], 1);
    assert_eq!(place.firn("search count x/collection").ok().out, "4\n");
}
