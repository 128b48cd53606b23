//! The commands that change a collection: merge, compact, replace, remove.

use super::{Place, ROWS};

fn names(place: &Place) -> Vec<String> {
    let lines = place.firn("search partitions c --json").ok().json();
    lines.iter().map(|p| p["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn merged_partitions_answer_as_before() {
    let place = Place::with_collection();
    let ask = || place.firn("search group c 'price > 30' --by region --agg rating --json").ok().out;
    let before = ask();
    let run = place.firn("search merge c north south --into both").ok();
    assert_eq!(run.out, "Merged 2 partitions into both: 400 documents.\n");
    assert_eq!(names(&place), ["both", "east"]);
    assert_eq!(ask(), before);
    place.firn("search merge c both west --into all").fails(3, "there is no partition west");
}

#[test]
fn small_unchanged_partitions_are_joined() {
    let place = Place::with_collection();
    let ask = || place.firn("search export c 'price > 30 order by rating' --format jsonl").ok().out;
    let before = ask();
    let young = place.firn("search compact c --at-least 2").ok();
    assert_eq!(young.out, "Nothing to join.\n", "they were written just now");
    let plan = place.firn("search compact c --at-least 2 --unchanged-for 0 --dry-run --json").ok();
    assert_eq!(names(&place), ["east", "north", "south"]);
    let plan = &plan.json()[0];
    assert_eq!((&plan["into"], &plan["dry_run"]), (&"east.to.south".into(), &true.into()));
    assert_eq!(plan["from"].as_array().unwrap().len(), 3);
    let run = place.firn("search compact c --at-least 2 --unchanged-for 0").ok();
    assert_eq!(run.out, format!("Joined 3 partitions into east.to.south: {ROWS} documents.\n"));
    assert_eq!(names(&place), ["east.to.south"]);
    assert_eq!(ask(), before);

    std::fs::create_dir(place.path("log")).unwrap();
    std::fs::rename(place.path("c"), place.path("collection")).unwrap();
    place.firn("search compact collection").fails(2, "firn index rebuild DIR --partitions N");
}

#[test]
fn a_partition_is_replaced_by_rows() {
    let place = Place::with_collection();
    place.write("new.csv", "id,region,price,day,rating,ok\n9000,north,1,2024-01-01,NA,true\n");
    place.firn("search replace c nroth new.csv").fails(3, "partitions are east, north, south");
    let run = place.firn("search replace c north new.csv --json").ok().json();
    assert_eq!(run[0]["documents_after"], ROWS * 2 / 3 + 1);
    assert_eq!(place.firn("search count c 'region = \"north\"'").ok().out, "1\n");

    place.write("bad.csv", "id,region,price,day,rating,ok\nx,north,1,2024-01-01,NA,true\n");
    place.firn("search replace c north bad.csv").fails(2, "bad.csv:2: column `id`");
    assert_eq!(place.firn("search count c 'region = \"north\"'").ok().out, "1\n");
}

#[test]
fn partitions_are_removed() {
    let place = Place::with_collection();
    place.firn("search remove c east nowhere").fails(3, "there is no partition nowhere");
    let run = place.firn("search remove c east south").ok();
    assert_eq!(run.out, "Removed 2 partitions; 200 documents in 1 partition remain.\n");
    assert_eq!(names(&place), ["north"]);
}

#[test]
fn an_emptied_collection_keeps_its_types() {
    let place = Place::new();
    place.write("a.csv", "id,price\n1,2.5\n");
    place.write("b.csv", "id,price\n2,3\n");
    place.firn("search build a.csv -o c").ok();
    place.firn("search remove c main").ok();
    assert_eq!(place.firn("search count c 'price > 2'").ok().out, "0\n");
    place.firn("search build b.csv -o c --add --partition more").ok();
    // From these rows alone the prices would be inferred as integers.
    assert_eq!(place.firn("search export c 'price > 2.5'").ok().out, "id,price\n2,3.0\n");
}

/// Rows that need several partitions in little memory.
fn many_rows() -> String {
    let row = |n| format!("{n},old{n:0180}\n");
    "id,t\n".to_string() + &(0..60_000).map(row).collect::<String>()
}

#[test]
fn continuations_are_removed_with_their_partition() {
    let place = Place::new();
    place.write("big.csv", many_rows());
    place.write("small.csv", "id,t\n1,new1\n2,new2\n");
    place.write("own.csv", "id,t\n7,mine\n");
    for change in
        ["search build small.csv -o c --update --partition day", "search replace c day small.csv"]
    {
        place.firn("search build big.csv -o c --replace --partition day --memory 8M").ok();
        assert!(names(&place).contains(&"day.2".to_string()));
        place.firn("search replace c day.2 small.csv").fails(4, "replace `day`");
        place.firn("search remove c day.2").fails(4, "remove `day`");
        place.firn(change).ok();
        assert_eq!(place.firn("search count c").ok().out, "2\n");
    }
    place.firn("search build big.csv -o c --replace --partition day --memory 8M").ok();
    place.firn("search remove c day.2 day").ok();
    assert!(names(&place).is_empty());
    // A partition that was built under such a name is not a continuation of `day`.
    place.firn("search build own.csv -o c --add --partition day.2").ok();
    place.firn("search build big.csv -o c --update --partition day --memory 8M").ok();
    assert_eq!(place.firn("search count c 't = \"mine\"'").ok().out, "1\n");
    assert_eq!(place.firn("search count c").ok().out, "60001\n");
    place.firn("search remove c day").ok();
    assert_eq!(names(&place), ["day.2"]);
}

#[test]
fn a_merge_does_not_duplicate_documents() {
    let place = Place::with_collection();
    place.write("new.csv", "id,region,price,day,rating,ok\n9000,north,1,2024-01-01,NA,true\n");
    place.firn("search compact c --at-least 2 --unchanged-for 0").ok();
    let update = "search build new.csv -o c --partition-by region";
    for option in ["--update", "--add"] {
        let run = place.firn(&format!("{update} {option}"));
        run.fails(4, "the documents of partition `north` were merged into `east.to.south`");
    }
    place.firn("search remove c north").fails(3, "east.to.south");
    assert_eq!(place.firn("search count c").ok().out, format!("{ROWS}\n"));
    place.firn(&format!("{update} --replace")).ok();
    assert_eq!(names(&place), ["north"]);
}

#[test]
fn changes_go_to_the_collection_that_was_renamed_into_place() {
    let place = Place::new();
    place.write("old.csv", "id,city\n1,Oslo\n2,Bergen\n");
    place.write("new.csv", "id,city\n1,Oslo\n11,Oslo\n2,Bergen\n4,Rome\n5,Paris\n");
    place.firn("search build old.csv -o c --partition-by city").ok();
    place.firn("search build new.csv -o c.new --partition-by city").ok();
    let line = "search build - --format csv -o c --update --partition Lima";
    let run = place.firn_while(line, b"id,city\n100,Lima\n", || {
        // By now it has the old collection open; if not, the test proves less.
        std::thread::sleep(std::time::Duration::from_millis(300));
        std::fs::rename(place.path("c"), place.path("c.old")).unwrap();
        std::fs::rename(place.path("c.new"), place.path("c")).unwrap();
    });
    run.ok();
    assert_eq!(place.firn("search count c").ok().out, "6\n");
    assert_eq!(place.firn("search count c.old").ok().out, "2\n");
    place.firn("verify c").ok();
}
