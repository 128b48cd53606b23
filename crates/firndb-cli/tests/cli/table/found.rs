//! Types inferred from the first rows, and later rows that do not fit them.

use super::{bytes, value};
use crate::Place;
use serde_json::{Value as Json, json};

/// CSV of more rows than types are inferred from, and then one of `last` in the columns n and x.
fn late(usual: &str, last: &str) -> String {
    let mut rows = "id,n,x\n".to_string();
    (0..10_000).for_each(|i| rows += &format!("{i},{usual},1\n"));
    rows + &format!("last,{last},1\n")
}

#[test]
fn later_csv_cells_are_not_changed_to_fit_the_type() {
    let place = Place::new();
    let wrong = [
        ("5", "007", "`007` is no long"),
        ("5", "+5", "`+5` is no long"),
        ("5", " 9 ", "` 9 ` is no long"),
        ("5", "-0", "`-0` is no long"),
        ("0.5", "007", "`007` is no double"),
        ("0.5", "9007199254740993", "`9007199254740993` is no double, which would round"),
        ("0.5", "1e-400", "`1e-400` is no double"),
    ];
    for (usual, last, message) in wrong {
        place.write("a.csv", late(usual, last));
        let run = place.firn("table build -i a.csv -o t --key id");
        run.fails(2, &format!("a.csv:10002: column `n`: {message}"));
    }
    // An explicit type is applied, but no digit is lost.
    place.write("a.csv", "id,n,x\n1,+5,-0\n2, 9 ,007\n");
    place.firn("table build -i a.csv -o t --key id --value n:long,x:long").ok();
    assert_eq!(value(&place, "t", "1"), json!({ "n": 5, "x": 0 }));
    assert_eq!(value(&place, "t", "2"), json!({ "n": 9, "x": 7 }));
    place.write("b.csv", "id,n,x\n1,9007199254740993,1\n");
    let run = place.firn("table build -i b.csv -o u --key id --value n:double,x");
    run.fails(2, "b.csv:2: column `n`: `9007199254740993` is no double, which would round");
    // A number that no type represents exactly is stored as text.
    place.write("c.csv", "id,n,x\n1,1e-400,-0\n2,0.5,1\n");
    place.firn("table build -i c.csv -o v --key id").ok();
    assert_eq!(value(&place, "v", "1"), json!({ "n": "1e-400", "x": -0.0 }));
    assert!(bytes(&place, "v", "1").ends_with("80"), "the sign is there");
}

#[test]
fn later_json_values_are_not_converted_to_text() {
    let place = Place::new();
    let rows = |usual: &str, last: &str| {
        let row = |key: String, v: &str| format!("{{\"k\":\"{key}\",\"v\":{v},\"w\":1}}\n");
        let first: String = (0..10_000).map(|i| row(i.to_string(), usual)).collect();
        first + &row("last".to_string(), last)
    };
    for last in ["{\"a\":1}", "7", "true", "[1]"] {
        place.write("a.jsonl", rows("\"text\"", last));
        let run = place.firn("table build -i a.jsonl -o t --key k");
        run.fails(2, &format!("a.jsonl:10001: column `v`: `{last}` is no string"));
    }
    place.firn("table build -i a.jsonl -o t --key k --value v:string,w").ok();
    assert_eq!(value(&place, "t", "last"), json!({ "v": "[1]", "w": 1 }));
    // Numbers outside the range of a long are stored as text, and other values are not.
    let big = "18446744073709551615";
    place.write("big.jsonl", rows(big, "12"));
    place.firn("table build -i big.jsonl -o big --key k").ok();
    assert_eq!(value(&place, "big", "0")["v"], big);
    assert_eq!(value(&place, "big", "last")["v"], "12");
    place.write("big.jsonl", rows(big, "[1]"));
    place.firn("table build -i big.jsonl -o u --key k").fails(2, "`[1]` is no number");
    place.write("mixed.jsonl", format!("{{\"k\":1,\"v\":{big},\"w\":1}}\n{{\"k\":2,\"v\":[1]}}\n"));
    let run = place.firn("table build -i mixed.jsonl -o u --key k");
    run.fails(2, "mixed.jsonl:1: column `v`: 18446744073709551615 is neither");
}

#[test]
fn types_are_inferred_from_the_first_input_with_rows() {
    let place = Place::new();
    place.write("a.csv", "id,n,m\n");
    place.write("b.csv", "id,n,m\n1,2,3.5\n");
    place.firn("table build -i a.csv b.csv a.csv -o t --key id --verify-input").ok();
    assert_eq!(value(&place, "t", "1"), json!({ "n": 2, "m": 3.5 }));
    // Without any row, the columns exist all the same.
    place.firn("table build -i a.csv a.csv -o none --key id").ok();
    assert_eq!(place.firn("table scan none --format csv").ok().out, "key,n,m\n");
    place.firn("table build -i a.csv -o none --key x --force").fails(2, "no column `x`");
    place.write("empty.csv", "");
    place.firn("table build -i empty.csv -o u --key id").fails(2, "empty.csv: the file is empty");
}

#[test]
fn columns_that_no_row_has_are_reported() {
    let place = Place::new();
    place.write("a.jsonl", "{\"k\":1,\"a\":2}\n");
    let build = "table build -k k --value a:long,nosuch:long --force -o t -i";
    let run = place.firn(&format!("{build} a.jsonl")).ok();
    assert!(run.err.contains("no row has the column `nosuch`"), "{}", run.err);
    assert_eq!(value(&place, "t", "1"), json!({ "a": 2, "nosuch": null }));
    // One row of any input is enough.
    place.write("b.jsonl", "{\"k\":2,\"nosuch\":3}\n");
    assert_eq!(place.firn(&format!("{build} a.jsonl b.jsonl")).ok().err, "");
    place.firn("table build -i a.jsonl -k k --value a,nosuch -o u").fails(2, "no column `nosuch`");
}

#[test]
fn type_inference_bounds_its_memory() {
    let place = Place::new();
    let text = "x".repeat(1 << 20);
    let mut rows = "id,n,text\n".to_string();
    (0..17).for_each(|i| rows += &format!("{i},1,{text}\n"));
    place.write("a.csv", rows + "last,y,z\n");
    let run = place.firn("table build -i a.csv -o t --key id");
    run.fails(2, "a.csv:19: column `n`: `y` is no long");
    let row = |i: u64| format!("{{\"k\":{i},\"n\":1,\"text\":\"{text}\"}}\n");
    let rows: String = (0..17).map(row).collect();
    place.write("a.jsonl", rows + "{\"k\":17,\"late\":1}\n");
    let run = place.firn("table build -i a.jsonl -o t --key k");
    run.fails(2, "a.jsonl:18: column `late`: the first rows have no such column");
}

#[test]
fn carriage_returns_end_lines_or_are_data() {
    let place = Place::new();
    place.write("a.csv", "id,n,x\n1,x,\"abc\r\"\n2,\"y\r\",z\r\n");
    place.firn("table build -i a.csv -o t --key id").ok();
    assert_eq!(value(&place, "t", "1"), json!({ "n": "x", "x": "abc\r" }));
    assert_eq!(value(&place, "t", "2"), json!({ "n": "y\r", "x": "z" }));
    place.write("mac.csv", "id,n\r1,2\r3,4\r");
    let run = place.firn("table build -i mac.csv -o u --key id");
    run.fails(2, "mac.csv:1: column 2 of the header holds a carriage return");
    place.firn("search build mac.csv -o c").fails(2, "holds a carriage return");
}

#[test]
fn every_built_value_can_be_shown() {
    let place = Place::new();
    let many: Json = (0..40_000).map(Json::from).collect();
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let rows = [
        format!("{{\"k\":\"many\",\"v\":{many},\"w\":1}}\n"),
        format!("{{\"k\":\"deep\",\"v\":{},\"w\":1}}\n", nested(100)),
    ];
    place.write("a.jsonl", rows.concat());
    place.firn("table build -i a.jsonl -o t --key k --verify-input").ok();
    assert_eq!(value(&place, "t", "many")["v"], many);
    assert_eq!(value(&place, "t", "deep")["v"].to_string(), nested(100));
    // The parser's own limit is reached first, and its error says so.
    place.write("b.jsonl", rows[0].clone() + &format!("{{\"k\":1,\"v\":{}}}\n", nested(130)));
    let run = place.firn("table build -i b.jsonl -o u --key k");
    run.fails(2, "b.jsonl:2: the line is not a JSON object: recursion limit");
    place.write("b.csv", format!("k,v,w\n1,\"{}\",1\n", nested(130)));
    let run = place.firn("table build -i b.csv -o u --key k --value v:json,w");
    run.fails(2, "b.csv:2: column `v`: the value is no JSON: recursion limit");
}
