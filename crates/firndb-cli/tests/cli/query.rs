//! The commands that read: query, count, explain, facets, group, stats, partitions, export.

use super::{ROWS, Sandbox, row};
use serde_json::json;

#[test]
fn a_query_shows_a_table() {
    let sandbox = Sandbox::with_collection();
    let run = sandbox.firn("search query c 'region = \"north\" order by id desc limit 2' --count");
    let out = run.ok().out;
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].contains("id") && lines[0].contains("price"), "{out}");
    assert!(lines[2].contains("597") && lines[3].contains("594"), "{out}");
    assert!(lines[4].starts_with("2 documents of 200 in "), "{out}");
    assert!(lines[5].starts_with("next page: --after "), "{out}");
}

#[test]
fn no_query_is_the_first_ten_documents() {
    let sandbox = Sandbox::with_collection();
    let lines = sandbox.firn("search query c --json").ok().json();
    assert_eq!(lines.len(), 11);
    assert_eq!(lines[0]["partition"], "east");
    let all = sandbox.firn("search query c --json --all").ok().json();
    assert_eq!(all.len() as u64, ROWS + 1);
    assert!(all.last().unwrap()["summary"]["next"].is_null());
}

#[test]
fn tokens_page_through_all_documents() {
    let sandbox = Sandbox::with_collection();
    let text = "rating > 3 order by rating, price desc";
    let all =
        sandbox.firn(&format!("search query c '{text}' --json --all --fields id")).ok().json();
    let mut pages = Vec::new();
    let mut after = String::new();
    loop {
        let line = format!("search query c '{text}' --json --limit 50 --fields id {after}");
        let mut page = sandbox.firn(&line).ok().json();
        let last = page.pop().unwrap();
        pages.extend(page);
        match last["summary"]["next"].as_str() {
            Some(token) => after = format!("--after {token}"),
            None => break,
        }
    }
    let expected = (0..ROWS).filter(|id| row(*id).4.is_some_and(|rating| rating > 3)).count();
    assert_eq!(pages.len(), expected);
    assert_eq!(pages, all[..all.len() - 1]);
    sandbox.firn("search query c --after nonsense").fails(2, "page token");
}

#[test]
fn fields_and_payloads_are_selectable() {
    let sandbox = Sandbox::with_collection();
    let run = sandbox.firn("search query c 'id = 8' --json --fields region,rating --payload").ok();
    let line = &run.json()[0];
    assert_eq!(line["fields"], json!({ "region": "east" }));
    assert_eq!(line["payload"]["id"], 8);
    let run = sandbox.firn("search query c --fields region,nme");
    run.fails(2, "there is no field `nme`");
}

#[test]
fn errors_point_at_their_position() {
    let sandbox = Sandbox::with_collection();
    let run = sandbox.firn("search query c 'region = \"north\" and prise > 5'");
    let run = run.fails(2, "`price`");
    let lines: Vec<&str> = run.err.lines().collect();
    assert!(lines[0].starts_with("error: ") && lines.len() == 3, "{}", run.err);
    let caret = lines[2].find('^').unwrap();
    assert_eq!(&lines[1][caret..caret + 5], "prise");

    sandbox.firn("search count c 'price > \"much\"'").fails(2, "price");
    sandbox.firn("search count c 'price >'").fails(2, "^");
    sandbox.firn("search query c 'all limit 5 limit 6'").fails(2, "^");
    let run = sandbox.firn("search count c 'prise = 1' --json").fails(2, "");
    let error: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!(error["error"]["kind"], "invalid_argument");
    assert_eq!(error["error"]["span"], json!([0, 5]));
}

#[test]
fn counts_are_exact() {
    let sandbox = Sandbox::with_collection();
    let count = |filter: &str| sandbox.firn(&format!("search count c '{filter}'")).ok().out;
    let expected = (0..ROWS).filter(|id| row(*id).2 < 20.0 && row(*id).5).count();
    assert_eq!(count("price < 20 and ok"), format!("{expected}\n"));
    assert_eq!(count("not exists rating"), format!("{}\n", ROWS / 4));
    assert_eq!(count("day < \"2024-01-02\""), format!("{}\n", ROWS.div_ceil(28)));
    let json = sandbox.firn("search count c --json").ok().json();
    assert_eq!(json, [json!({ "count": ROWS })]);
}

#[test]
fn facets_and_groups_count_values() {
    let sandbox = Sandbox::with_collection();
    let run =
        sandbox.firn("search facets c 'region = \"north\"' --by region,rating --top 3 --json");
    let lines = run.ok().json();
    assert_eq!(lines[0]["values"], json!([{ "value": "north", "count": ROWS / 3 }]));
    assert_eq!(lines[1]["values"].as_array().unwrap().len(), 3);
    assert_eq!(lines[1]["missing"], ROWS / 12);
    let run = sandbox.firn("search facets c 'region = \"north\"' --by region --disjunctive --json");
    assert_eq!(run.ok().json()[0]["distinct"], 3);

    let lines = sandbox.firn("search group c --by region --agg price,rating --json").ok().json();
    assert_eq!(lines.len(), 3);
    let sum: f64 = (0..ROWS).filter(|id| id % 3 == 2).map(|id| row(id).2).sum();
    assert_eq!(lines[0]["key"], json!({ "region": "east" }));
    assert_eq!(lines[0]["aggregates"]["price"]["sum"], sum);
    assert_eq!(lines[0]["aggregates"]["rating"]["count"], ROWS / 4);
    let table = sandbox.firn("search group c --by ok,region --agg price").ok().out;
    assert!(table.contains("avg price") && table.ends_with("6 groups\n"), "{table}");
    sandbox.firn("search group c --by regoin").fails(2, "region");
}

#[test]
fn explain_stats_and_partitions_describe_the_collection() {
    let sandbox = Sandbox::with_collection();
    let explain = sandbox.firn("search explain c 'region = \"north\" limit 5' --json").ok().json();
    assert_eq!(explain[0]["partitions"], 3);
    assert!(!explain[0]["plan"].as_array().unwrap().is_empty());
    let explain = sandbox.firn("search explain c 'region = \"north\"'").ok().out;
    assert!(explain.contains("found: 200 documents"), "{explain}");

    let stats = sandbox.firn("search stats c --json").ok().json();
    assert_eq!((&stats[0]["documents"], &stats[0]["partitions"]), (&ROWS.into(), &3.into()));
    let fields = stats[0]["fields"].as_array().unwrap();
    let rating = fields.iter().find(|field| field["name"] == "rating").unwrap();
    assert_eq!((&rating["type"], &rating["missing"]), (&"i64".into(), &(ROWS / 4).into()));
    assert_eq!((&rating["distinct"], &rating["max"]), (&11.into(), &10.into()));
    assert!(sandbox.firn("search stats c").ok().out.starts_with("600 documents in 3 partitions"));

    let partitions = sandbox.firn("search partitions c --json").ok().json();
    let names: Vec<_> = partitions.iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["east", "north", "south"]);
    assert!(sandbox.firn("search partitions c").ok().out.ends_with("3 partitions\n"));
}

#[test]
fn an_export_builds_the_same_collection() {
    let sandbox = Sandbox::with_collection();
    let ask = |dir: &str| {
        let query = "price > 50 order by price, id";
        let found = sandbox.firn(&format!("search scan {dir} '{query}' --format jsonl")).ok().out;
        let groups = sandbox.firn(&format!("search group {dir} --by region --agg rating")).ok().out;
        (found, groups)
    };
    for format in ["csv", "jsonl"] {
        let exported = sandbox.firn(&format!("search scan c --format {format}")).ok().out;
        sandbox.firn_with(&format!("search build - -o {format}"), exported.as_bytes()).ok();
        assert_eq!(ask(format), ask("c"), "{format}");
    }
    let some = sandbox.firn("search scan c 'id < 3 order by id' --fields id,rating").ok().out;
    assert_eq!(some, "id,rating\n0,\n1,7\n2,3\n");
}
