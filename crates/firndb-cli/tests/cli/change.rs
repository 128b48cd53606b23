//! The commands that change a collection: merge, compact, replace, remove.

use super::{ROWS, Sandbox};

fn names(sandbox: &Sandbox) -> Vec<String> {
    let lines = sandbox.firn("search partitions c --json").ok().json();
    lines.iter().map(|p| p["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn merged_partitions_answer_as_before() {
    let sandbox = Sandbox::with_collection();
    let ask =
        || sandbox.firn("search group c 'price > 30' --by region --agg rating --json").ok().out;
    let before = ask();
    let run = sandbox.firn("search merge c north south --into both").ok();
    assert_eq!(run.out, "Merged 2 partitions into both: 400 documents.\n");
    assert_eq!(names(&sandbox), ["both", "east"]);
    assert_eq!(ask(), before);
    sandbox.firn("search merge c both west --into all").fails(3, "there is no partition west");
}

#[test]
fn small_unchanged_partitions_are_joined() {
    let sandbox = Sandbox::with_collection();
    let ask = || sandbox.firn("search scan c 'price > 30 order by rating' --format jsonl").ok().out;
    let before = ask();
    let young = sandbox.firn("search compact c --at-least 2").ok();
    assert_eq!(young.out, "Nothing to join.\n", "they were written just now");
    let plan =
        sandbox.firn("search compact c --at-least 2 --unchanged-for 0s --dry-run --json").ok();
    assert_eq!(names(&sandbox), ["east", "north", "south"]);
    let plan = &plan.json()[0];
    assert_eq!((&plan["into"], &plan["dry_run"]), (&"east.to.south".into(), &true.into()));
    assert_eq!(plan["from"].as_array().unwrap().len(), 3);
    let run = sandbox.firn("search compact c --at-least 2 --unchanged-for 0s").ok();
    assert_eq!(run.out, format!("Joined 3 partitions into east.to.south: {ROWS} documents.\n"));
    assert_eq!(names(&sandbox), ["east.to.south"]);
    assert_eq!(ask(), before);

    std::fs::create_dir(sandbox.path("log")).unwrap();
    std::fs::rename(sandbox.path("c"), sandbox.path("collection")).unwrap();
    sandbox.firn("search compact collection").fails(2, "firn index rebuild DIR --partitions N");
}

#[test]
fn a_partition_is_replaced_by_rows() {
    let sandbox = Sandbox::with_collection();
    sandbox.write("new.csv", "id,region,price,day,rating,ok\n9000,north,1,2024-01-01,NA,true\n");
    sandbox.firn("search replace c nroth new.csv").fails(3, "partitions are east, north, south");
    let run = sandbox.firn("search replace c north new.csv --json").ok().json();
    assert_eq!(run[0]["after_documents"], ROWS * 2 / 3 + 1);
    assert_eq!(sandbox.firn("search count c 'region = \"north\"'").ok().out, "1\n");

    sandbox.write("bad.csv", "id,region,price,day,rating,ok\nx,north,1,2024-01-01,NA,true\n");
    sandbox.firn("search replace c north bad.csv").fails(2, "bad.csv:2: column `id`");
    assert_eq!(sandbox.firn("search count c 'region = \"north\"'").ok().out, "1\n");
}

#[test]
fn partitions_are_removed() {
    let sandbox = Sandbox::with_collection();
    sandbox.firn("search remove c east nowhere").fails(3, "there is no partition nowhere");
    let run = sandbox.firn("search remove c east south").ok();
    assert_eq!(run.out, "Removed 2 partitions; 200 documents in 1 partition remain.\n");
    assert_eq!(names(&sandbox), ["north"]);
}

#[test]
fn an_emptied_collection_keeps_its_types() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,price\n1,2.5\n");
    sandbox.write("b.csv", "id,price\n2,3\n");
    sandbox.firn("search build a.csv -o c").ok();
    sandbox.firn("search remove c main").ok();
    assert_eq!(sandbox.firn("search count c 'price > 2'").ok().out, "0\n");
    sandbox.firn("search build b.csv -o c --add --partition more").ok();
    // From these rows alone the prices would be inferred as integers.
    assert_eq!(sandbox.firn("search scan c 'price > 2.5'").ok().out, "id,price\n2,3.0\n");
}

/// Rows that need several partitions in little memory.
fn many_rows() -> String {
    let row = |n| format!("{n},old{n:0180}\n");
    "id,t\n".to_string() + &(0..60_000).map(row).collect::<String>()
}

#[test]
fn continuations_are_removed_with_their_partition() {
    let sandbox = Sandbox::new();
    sandbox.write("big.csv", many_rows());
    sandbox.write("small.csv", "id,t\n1,new1\n2,new2\n");
    sandbox.write("own.csv", "id,t\n7,mine\n");
    for change in
        ["search build small.csv -o c --update --partition day", "search replace c day small.csv"]
    {
        sandbox.firn("search build big.csv -o c --replace --partition day --memory 8M").ok();
        assert!(names(&sandbox).contains(&"day.2".to_string()));
        sandbox.firn("search replace c day.2 small.csv").fails(4, "replace `day`");
        sandbox.firn("search remove c day.2").fails(4, "remove `day`");
        sandbox.firn(change).ok();
        assert_eq!(sandbox.firn("search count c").ok().out, "2\n");
    }
    sandbox.firn("search build big.csv -o c --replace --partition day --memory 8M").ok();
    sandbox.firn("search remove c day.2 day").ok();
    assert!(names(&sandbox).is_empty());
    // A partition that was built under such a name is not a continuation of `day`.
    sandbox.firn("search build own.csv -o c --add --partition day.2").ok();
    sandbox.firn("search build big.csv -o c --update --partition day --memory 8M").ok();
    assert_eq!(sandbox.firn("search count c 't = \"mine\"'").ok().out, "1\n");
    assert_eq!(sandbox.firn("search count c").ok().out, "60001\n");
    sandbox.firn("search remove c day").ok();
    assert_eq!(names(&sandbox), ["day.2"]);
}

#[test]
fn a_merge_does_not_duplicate_documents() {
    let sandbox = Sandbox::with_collection();
    sandbox.write("new.csv", "id,region,price,day,rating,ok\n9000,north,1,2024-01-01,NA,true\n");
    sandbox.firn("search compact c --at-least 2 --unchanged-for 0s").ok();
    let update = "search build new.csv -o c --partition-by region";
    for option in ["--update", "--add"] {
        let run = sandbox.firn(&format!("{update} {option}"));
        run.fails(4, "the documents of partition `north` were merged into `east.to.south`");
    }
    sandbox.firn("search remove c north").fails(3, "east.to.south");
    assert_eq!(sandbox.firn("search count c").ok().out, format!("{ROWS}\n"));
    sandbox.firn(&format!("{update} --replace")).ok();
    assert_eq!(names(&sandbox), ["north"]);
}

#[test]
fn changes_go_to_the_collection_that_was_renamed_into_place() {
    let sandbox = Sandbox::new();
    sandbox.write("old.csv", "id,city\n1,Oslo\n2,Bergen\n");
    sandbox.write("new.csv", "id,city\n1,Oslo\n11,Oslo\n2,Bergen\n4,Rome\n5,Paris\n");
    sandbox.firn("search build old.csv -o c --partition-by city").ok();
    sandbox.firn("search build new.csv -o c.new --partition-by city").ok();
    let line = "search build - --format csv -o c --update --partition Lima";
    let run = sandbox.firn_while(line, b"id,city\n100,Lima\n", || {
        // By now it has the old collection open; if not, the test proves less.
        std::thread::sleep(std::time::Duration::from_millis(300));
        std::fs::rename(sandbox.path("c"), sandbox.path("c.old")).unwrap();
        std::fs::rename(sandbox.path("c.new"), sandbox.path("c")).unwrap();
    });
    run.ok();
    assert_eq!(sandbox.firn("search count c").ok().out, "6\n");
    assert_eq!(sandbox.firn("search count c.old").ok().out, "2\n");
    sandbox.firn("verify c").ok();
}
