//! The shapes of JSON results are those of `docs/cli.md`.

use super::Sandbox;
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../../../docs/cli.md");

/// Required and optional fields.
type Shape = (BTreeSet<String>, BTreeSet<String>);

/// The documented shapes, by command and kind of line.
fn shapes() -> BTreeMap<(String, String), Shape> {
    let table = PAGE.split("| command | line | fields |").nth(1).unwrap();
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let shape = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (mut required, mut optional) = (BTreeSet::new(), BTreeSet::new());
        for field in cells[2].split_whitespace() {
            match field.strip_prefix('[').and_then(|field| field.strip_suffix(']')) {
                Some(field) => optional.insert(field.to_string()),
                None => required.insert(field.to_string()),
            };
        }
        ((cells[0].to_string(), cells[1].to_string()), (required, optional))
    };
    lines.map(shape).collect()
}

/// Names of sizes, durations and times without their units.
const UNITLESS: [&str; 9] =
    ["bytes", "size", "seconds", "time", "micros", "millis", "nanos", "duration", "elapsed"];

/// Fails if a name anywhere in the value lacks its unit.
fn check_names(value: &Json, command: &str) {
    match value {
        Json::Object(object) => {
            for (name, value) in object {
                // Labels, statistics and facts have names of their own.
                if ["labels", "facts", "statistics", "value_schema", "schema"].contains(&&**name) {
                    continue;
                }
                assert!(!UNITLESS.contains(&&**name), "`{command}` has `{name}`");
                let ends = ["_ns", "_ms", "_us", "_micros", "_millis", "_secs", "_size"];
                assert!(!ends.iter().any(|end| name.ends_with(end)), "`{command}` has `{name}`");
                check_names(value, command);
            }
        }
        Json::Array(values) => values.iter().for_each(|value| check_names(value, command)),
        _ => {}
    }
}

fn check(
    shapes: &BTreeMap<(String, String), Shape>,
    used: &mut BTreeSet<(String, String)>,
    command: &str,
    line: &Json,
) {
    let object: &Map<String, Json> = line.as_object().unwrap();
    let (kind, object) = match object.get("summary") {
        Some(summary) => {
            assert_eq!(object.len(), 1, "`{command}`: {line}");
            ("summary", summary.as_object().unwrap())
        }
        None => ("result", object),
    };
    let id = (command.to_string(), kind.to_string());
    let (required, optional) = shapes.get(&id).unwrap_or_else(|| panic!("{id:?} is not there"));
    let plain = |name: &String| name.strip_suffix("_hex").unwrap_or(name).to_string();
    let names: BTreeSet<String> = object.keys().map(plain).collect();
    let missing: Vec<_> = required.difference(&names).collect();
    assert!(missing.is_empty(), "`{command}` {kind}: {missing:?} are not in {line}");
    let known: BTreeSet<String> = required.union(optional).cloned().collect();
    let more: Vec<_> = names.difference(&known).collect();
    assert!(more.is_empty(), "`{command}` {kind}: {more:?} are not documented: {line}");
    check_names(&Json::Object(object.clone()), command);
    used.insert(id);
}

/// Commands in an order in which each finds what it needs; `!` marks an expected exit code of 3.
const LINES: [&str; 56] = [
    "log put s x y",
    "log put s x y --ttl 1d",
    "log load s in.csv",
    "log get s x",
    "!log get s absent",
    "!log mget s keys",
    "log delete s absent",
    "log scan s",
    "log list s",
    "log export s -o s.jsonl",
    "log export s -o s.parquet --without-expiry",
    "log stats s",
    "log verify s",
    "log compact s",
    "log backup s -o b",
    "log restore b -o r",
    "log repair b -o saved",
    "log freeze s -o frozen",
    "log bench --records 100 --ops 10 --syncs 1",
    "table build in.csv --key key -o t",
    "table get t a",
    "!table get t absent",
    "!table mget t keys",
    "table scan t",
    "table list t",
    "table export t -o t.csv",
    "table stats t",
    "table verify t",
    "table bench t --gets 10",
    "search build in.csv -o c --partition-by key",
    "search query c",
    "search query c --payload",
    "search count c",
    "search facets c --by key",
    "search group c --by key",
    "search explain c",
    "search list c",
    "search export c -o c.csv",
    "search stats c",
    "search verify c",
    "search replace c b in.csv",
    "search merge c a b --into ab",
    "search remove c ab",
    "index init i --schema schema.toml --partitions 2",
    "index apply i main in.csv --key key",
    "index rebuild i --all",
    "index list i",
    "index stats i",
    "index verify i",
    "index backup i -o ib",
    "catalog publish cat words t",
    "catalog publish cat words frozen",
    "catalog list cat",
    "catalog list cat words",
    "catalog show cat words",
    "catalog stats cat",
];

const MORE_LINES: [&str; 11] = [
    "import h -o imported",
    "log import h -o imported --add",
    "catalog diff cat words 1 2",
    "catalog pull cat words -o pulled",
    "catalog watch cat words -o cache --versions 1",
    "catalog verify cat words",
    "catalog pin cat words 1",
    "catalog rollback cat words 1",
    "catalog gc cat --grace 0s",
    "inspect t",
    "inspect c",
];

#[test]
fn results_have_the_documented_fields() {
    let sandbox = Sandbox::new();
    sandbox.write("in.csv", "key,value\na,1\nb,2\nc,3\n");
    sandbox.write("keys", "a\nnone\n");
    sandbox.write("schema.toml", "[fields]\nkey = \"string full\"\nvalue = \"u64 full\"\n");
    crate::log::foreign::unpack("ver", &sandbox.path("h"));
    let (shapes, mut used) = (shapes(), BTreeSet::new());
    for line in LINES.into_iter().chain(MORE_LINES) {
        let (code, line) = line.strip_prefix('!').map_or((0, line), |line| (3, line));
        let run = sandbox.firn(&format!("{line} --json"));
        assert_eq!(run.code, code, "{line}: {}", run.err);
        let command: Vec<&str> = line.split(' ').take(2).collect();
        let command = match command[..] {
            ["import", _] => "log import".to_string(),
            ["inspect", _] => "inspect".to_string(),
            // A rollback publishes.
            ["catalog", "rollback"] => "catalog publish".to_string(),
            _ => command.join(" "),
        };
        let json = run.json();
        assert!(!json.is_empty(), "{line}");
        json.iter().for_each(|object| check(&shapes, &mut used, &command, object));
    }
    let unused: Vec<_> = shapes.keys().filter(|id| !used.contains(id)).collect();
    assert!(unused.is_empty(), "no command of this test prints {unused:?}");
}

#[test]
fn failures_are_objects() {
    let sandbox = Sandbox::new();
    for (line, kind) in [
        ("log get nowhere k --json", "not_found"),
        ("table stats --json", "invalid_argument"),
        ("nonsense --json", "invalid_argument"),
        ("get nowhere k --json", "not_found"),
    ] {
        let run = sandbox.firn(line);
        let error: Json = serde_json::from_str(&run.err).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(error["error"]["kind"], kind, "{line}: {error}");
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
        assert_eq!(run.out, "");
    }
}
