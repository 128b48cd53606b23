//! `firn index`: feeds go in, a collection is kept up to date.

use super::{Place, ROWS, csv};
use serde_json::{Value as Json, json};

/// An index of the sample, divided by region.
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
fn a_feed_is_taken_and_a_second_version_rebuilds_only_what_changed() {
    let place = with_index();
    let first = apply(&place, "main data.csv");
    assert_eq!(
        (&first["added"], &first["dirty"]),
        (&json!(ROWS), &json!(["east", "north", "south"]))
    );
    assert_eq!(first["published"]["documents"], ROWS);
    assert_eq!(place.firn("search count x/collection").ok().out, format!("{ROWS}\n"));
    // Its log, a set, and a partition for each region.
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
fn single_changes_leave_the_rest_alone() {
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
    // A source that comes first in the alphabet hides what `main` says of a key.
    apply(&place, "a one.csv");
    apply(&place, "main data.csv");
    assert_eq!(place.firn("search count x/collection 'region = \"west\"'").ok().out, "1\n");
}

#[test]
fn documents_are_divided_anew() {
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
fn mistakes_are_told_and_change_nothing() {
    let place = with_index();
    apply(&place, "main data.csv");
    place.firn("index status y").fails(3, "`firn index init` makes one");
    place.firn("index init x --schema schema.toml").fails(4, "there is an index already");
    place.firn("index init y --schema schema.toml --partition-by nowhere").fails(2, "`nowhere`");
    place.firn("index init y --schema schema.toml --partitions 0").fails(2, "choose 1 to 65536");
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
