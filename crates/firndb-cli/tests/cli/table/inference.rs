//! Types inferred from the first rows, and later rows that do not fit them.

use super::{bytes, value};
use crate::Sandbox;
use serde_json::{Value as Json, json};

/// CSV of more rows than types are inferred from, and then one of `last` in the columns n and x.
fn late(usual: &str, last: &str) -> String {
    let mut rows = "id,n,x\n".to_string();
    (0..10_000).for_each(|i| rows += &format!("{i},{usual},1\n"));
    rows + &format!("last,{last},1\n")
}

#[test]
fn later_csv_cells_are_not_changed_to_fit_the_type() {
    let sandbox = Sandbox::new();
    let wrong = [
        ("5", "007", "`007` is not a long"),
        ("5", "+5", "`+5` is not a long"),
        ("5", " 9 ", "` 9 ` is not a long"),
        ("5", "-0", "`-0` is not a long"),
        ("0.5", "007", "`007` is not a double"),
        ("0.5", "9007199254740993", "`9007199254740993` is not a double, which would round"),
        ("0.5", "1e-400", "`1e-400` is not a double"),
    ];
    for (usual, last, message) in wrong {
        sandbox.write("a.csv", late(usual, last));
        let run = sandbox.firn("table build -i a.csv -o t --key id");
        run.fails(2, &format!("a.csv:10002: column `n`: {message}"));
    }
    // An explicit type is applied, but no digit is lost.
    sandbox.write("a.csv", "id,n,x\n1,+5,-0\n2, 9 ,007\n");
    sandbox.firn("table build -i a.csv -o t --key id --value n:long,x:long").ok();
    assert_eq!(value(&sandbox, "t", "1"), json!({ "n": 5, "x": 0 }));
    assert_eq!(value(&sandbox, "t", "2"), json!({ "n": 9, "x": 7 }));
    sandbox.write("b.csv", "id,n,x\n1,9007199254740993,1\n");
    let run = sandbox.firn("table build -i b.csv -o u --key id --value n:double,x");
    run.fails(2, "b.csv:2: column `n`: `9007199254740993` is not a double, which would round");
    // A number that no type represents exactly is stored as text.
    sandbox.write("c.csv", "id,n,x\n1,1e-400,-0\n2,0.5,1\n");
    sandbox.firn("table build -i c.csv -o v --key id").ok();
    assert_eq!(value(&sandbox, "v", "1"), json!({ "n": "1e-400", "x": -0.0 }));
    assert!(bytes(&sandbox, "v", "1").ends_with("80"), "the sign is there");
}

#[test]
fn later_json_values_are_not_converted_to_text() {
    let sandbox = Sandbox::new();
    let rows = |usual: &str, last: &str| {
        let row = |key: String, v: &str| format!("{{\"k\":\"{key}\",\"v\":{v},\"w\":1}}\n");
        let first: String = (0..10_000).map(|i| row(i.to_string(), usual)).collect();
        first + &row("last".to_string(), last)
    };
    for last in ["{\"a\":1}", "7", "true", "[1]"] {
        sandbox.write("a.jsonl", rows("\"text\"", last));
        let run = sandbox.firn("table build -i a.jsonl -o t --key k");
        run.fails(2, &format!("a.jsonl:10001: column `v`: `{last}` is not a string"));
    }
    sandbox.firn("table build -i a.jsonl -o t --key k --value v:string,w").ok();
    assert_eq!(value(&sandbox, "t", "last"), json!({ "v": "[1]", "w": 1 }));
    // Numbers outside the range of a long are stored as text, and other values are not.
    let big = "18446744073709551615";
    sandbox.write("big.jsonl", rows(big, "12"));
    sandbox.firn("table build -i big.jsonl -o big --key k").ok();
    assert_eq!(value(&sandbox, "big", "0")["v"], big);
    assert_eq!(value(&sandbox, "big", "last")["v"], "12");
    sandbox.write("big.jsonl", rows(big, "[1]"));
    sandbox.firn("table build -i big.jsonl -o u --key k").fails(2, "`[1]` is not a number");
    sandbox
        .write("mixed.jsonl", format!("{{\"k\":1,\"v\":{big},\"w\":1}}\n{{\"k\":2,\"v\":[1]}}\n"));
    sandbox.firn("table build -i mixed.jsonl -o u --key k").ok();
    assert_eq!(value(&sandbox, "u", "1")["v"], u64::MAX);
}

#[test]
fn types_are_inferred_from_the_first_input_with_rows() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,n,m\n");
    sandbox.write("b.csv", "id,n,m\n1,2,3.5\n");
    sandbox.firn("table build -i a.csv b.csv a.csv -o t --key id --verify-input").ok();
    assert_eq!(value(&sandbox, "t", "1"), json!({ "n": 2, "m": 3.5 }));
    // Without any row, the columns exist all the same.
    sandbox.firn("table build -i a.csv a.csv -o none --key id").ok();
    assert_eq!(sandbox.firn("table scan none --format csv").ok().out, "key,n,m\n");
    sandbox.firn("table build -i a.csv -o none --key x --force").fails(2, "no column `x`");
    sandbox.write("empty.csv", "");
    sandbox.firn("table build -i empty.csv -o u --key id").fails(2, "empty.csv: the file is empty");
}

#[test]
fn columns_that_no_row_has_are_reported() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", "{\"k\":1,\"a\":2}\n");
    let build = "table build -k k --value a:long,nosuch:long --force -o t -i";
    let run = sandbox.firn(&format!("{build} a.jsonl")).ok();
    assert!(run.err.contains("no row has the column `nosuch`"), "{}", run.err);
    assert_eq!(value(&sandbox, "t", "1"), json!({ "a": 2, "nosuch": null }));
    // One row of any input is enough.
    sandbox.write("b.jsonl", "{\"k\":2,\"nosuch\":3}\n");
    assert_eq!(sandbox.firn(&format!("{build} a.jsonl b.jsonl")).ok().err, "");
    sandbox
        .firn("table build -i a.jsonl -k k --value a,nosuch -o u")
        .fails(2, "no column `nosuch`");
}

#[test]
fn type_inference_bounds_its_memory() {
    let sandbox = Sandbox::new();
    let text = "x".repeat(1 << 20);
    let mut rows = "id,n,text\n".to_string();
    (0..17).for_each(|i| rows += &format!("{i},1,{text}\n"));
    sandbox.write("a.csv", rows + "last,y,z\n");
    let run = sandbox.firn("table build -i a.csv -o t --key id");
    run.fails(2, "a.csv:19: column `n`: `y` is not a long");
    let row = |i: u64| format!("{{\"k\":{i},\"n\":1,\"text\":\"{text}\"}}\n");
    let rows: String = (0..17).map(row).collect();
    sandbox.write("a.jsonl", rows + "{\"k\":17,\"late\":1}\n");
    let run = sandbox.firn("table build -i a.jsonl -o t --key k");
    run.fails(2, "a.jsonl:18: column `late`: the first rows have no such column");
}

#[test]
fn carriage_returns_end_lines_or_are_data() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,n,x\n1,x,\"abc\r\"\n2,\"y\r\",z\r\n");
    sandbox.firn("table build -i a.csv -o t --key id").ok();
    assert_eq!(value(&sandbox, "t", "1"), json!({ "n": "x", "x": "abc\r" }));
    assert_eq!(value(&sandbox, "t", "2"), json!({ "n": "y\r", "x": "z" }));
    sandbox.write("mac.csv", "id,n\r1,2\r3,4\r");
    let run = sandbox.firn("table build -i mac.csv -o u --key id");
    run.fails(2, "mac.csv:1: column 2 of the header holds a carriage return");
    sandbox.firn("search build mac.csv -o c").fails(2, "holds a carriage return");
}

#[test]
fn every_built_value_can_be_shown() {
    let sandbox = Sandbox::new();
    let many: Json = (0..40_000).map(Json::from).collect();
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let rows = [
        format!("{{\"k\":\"many\",\"v\":{many},\"w\":1}}\n"),
        format!("{{\"k\":\"deep\",\"v\":{},\"w\":1}}\n", nested(100)),
    ];
    sandbox.write("a.jsonl", rows.concat());
    sandbox.firn("table build -i a.jsonl -o t --key k --verify-input").ok();
    assert_eq!(value(&sandbox, "t", "many")["v"], many);
    assert_eq!(value(&sandbox, "t", "deep")["v"].to_string(), nested(100));
    // The parser's own limit is reached first, and its error says so.
    sandbox.write("b.jsonl", rows[0].clone() + &format!("{{\"k\":1,\"v\":{}}}\n", nested(130)));
    let run = sandbox.firn("table build -i b.jsonl -o u --key k");
    run.fails(2, "b.jsonl:2: the line is not a JSON object: recursion limit");
    sandbox.write("b.csv", format!("k,v,w\n1,\"{}\",1\n", nested(130)));
    let run = sandbox.firn("table build -i b.csv -o u --key k --value v:json,w");
    run.fails(2, "b.csv:2: column `v`: the value is not JSON: recursion limit");
}
