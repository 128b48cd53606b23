//! `firn table build` from rows: CSV, TSV and JSON lines, as raw values and as Avro records.

use super::{bytes, content, value};
use crate::{ROWS, Sandbox, csv, jsonl, row};
use serde_json::{Value as Json, json};

#[test]
fn one_column_is_a_raw_value() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,name,note\n1,x,\"a,\"\"b\"\"\nc\"\n2,y,\n");
    sandbox.firn("table build -i a.csv -o t --key id --value note --verify-input").ok();
    assert_eq!(bytes(&sandbox, "t", "1"), "612c2262220a63");
    assert_eq!(bytes(&sandbox, "t", "2"), "");
    assert!(sandbox.firn("table stats t --json").ok().json()[0]["value_schema"].is_null());
    sandbox
        .write("a.jsonl", "{\"k\":1,\"v\":\"x\\u00e9\"}\n{\"k\":\"b\",\"v\":[1,{\"a\":null}]}\n");
    sandbox.firn("table build -i a.jsonl -o u --key k").ok();
    assert_eq!(bytes(&sandbox, "u", "1"), "78c3a9");
    assert_eq!(sandbox.firn("table get u b").ok().out, "[1,{\"a\":null}]\n");
}

#[test]
fn several_columns_are_an_avro_record() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,name,price,ok\n7,foo,1.5,true\n8,,NA,false\n");
    sandbox.firn("table build -i a.csv -o t --key id --verify-input").ok();
    // name: string of 3; price: 1.5 in IEEE 754, little-endian; ok: true. 02 is "not null".
    assert_eq!(bytes(&sandbox, "t", "7"), "0206666f6f02000000000000f83f0201");
    assert_eq!(bytes(&sandbox, "t", "8"), "00000200");
    assert_eq!(value(&sandbox, "t", "7"), json!({ "name": "foo", "price": 1.5, "ok": true }));
    assert_eq!(value(&sandbox, "t", "8"), json!({ "name": null, "price": null, "ok": false }));
    let out = sandbox.firn("table get t 8").ok().out;
    assert_eq!(out, "{\"name\":null,\"price\":null,\"ok\":false}\n");
    let stats = sandbox.firn("table stats t --json").ok().json();
    let schema = json!({ "type": "record", "name": "Row", "fields": [
        { "name": "name", "type": ["null", "string"] },
        { "name": "price", "type": ["null", "double"] },
        { "name": "ok", "type": ["null", "boolean"] },
    ]});
    assert_eq!(stats[0]["value_schema"], schema);
    let out = sandbox.firn("table scan t --format csv").ok().out;
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["7,foo,1.5,true", "8,,,false", "key,name,price,ok"]);
}

#[test]
fn columns_and_types_are_selectable() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,a b,n,x\nk,1,2,3\n");
    sandbox.firn("table build -i a.csv -o t -k id --value 'n:string,a b:double'").ok();
    assert_eq!(value(&sandbox, "t", "k"), json!({ "n": "2", "a b": 1.0 }));
    let schema = &sandbox.firn("table stats t --json").ok().json()[0]["value_schema"];
    // Avro names have no blanks: the original column name is stored with the field.
    assert_eq!(schema["fields"][1]["name"], "a_b");
    assert_eq!(schema["fields"][1]["column"], "a b");
    sandbox.firn("table build -i a.csv -o one -k id --value n --record").ok();
    assert_eq!(bytes(&sandbox, "one", "k"), "0204");
    sandbox.firn("table build -i a.csv -o d").fails(2, "a.csv: say which column is the key");
    let run = sandbox.firn("table build -i a.csv -o d --format csv");
    run.fails(2, "say which column is the key with --key: id, a b, n, x");
    let run = sandbox.firn("table build -i a.csv -o d -k idd").fails(2, "no column `idd`");
    assert!(run.err.contains("columns are id, a b, n, x"), "{}", run.err);
    sandbox.firn("table build -i a.csv -o d -k id --value n,n").fails(2, "names `n` twice");
    sandbox.firn("table build -i a.csv -o d -k id --value y").fails(2, "no column `y`");
    sandbox.write("b.txt", "a 1\n");
    sandbox.firn("table build -i b.txt -o d --format text -k id").fails(2, "has no columns");
    assert!(!sandbox.path("d").exists());
}

#[test]
fn every_format_of_rows_gives_the_same_records() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", csv());
    sandbox.write("tabs", csv().replace(',', "\t"));
    sandbox.write("a.jsonl.zst", zstd::encode_all(jsonl().as_bytes(), 1).unwrap());
    sandbox.firn("table build -i a.csv -o t --key id").ok();
    let expected = content(&sandbox, "t");
    assert_eq!(expected.len() as u64, ROWS);
    for id in [0, 7, 599] {
        let (_, region, price, day, rating, ok) = row(id);
        let object =
            json!({ "region": region, "price": price, "day": day, "rating": rating, "ok": ok });
        assert_eq!(value(&sandbox, "t", &id.to_string()), object);
    }
    for input in ["tabs", "a.jsonl.zst"] {
        sandbox.firn(&format!("table build -i {input} -o of-{input} --key id --verify-input")).ok();
        assert_eq!(content(&sandbox, &format!("of-{input}")), expected, "{input}");
    }
    sandbox.firn_with("table build -i - -o stdin --key id", csv().as_bytes()).ok();
    assert_eq!(content(&sandbox, "stdin"), expected);
}

#[test]
fn nested_json_round_trips() {
    let sandbox = Sandbox::new();
    let objects = [
        json!({ "k": "a", "n": 1, "t": ["x", 2.5, null, { "y": [] }], "o": { "p": -7 }, "m": 1 }),
        json!({ "k": "b", "n": null, "o": "text", "m": "mixed" }),
    ];
    sandbox.write("a.jsonl", objects.iter().map(|o| format!("{o}\n")).collect::<String>());
    sandbox.firn("table build -i a.jsonl -o t --key k --verify-input").ok();
    for object in &objects {
        let mut expected = object.clone();
        let key = expected.as_object_mut().unwrap().remove("k").unwrap();
        for name in ["n", "t", "o", "m"] {
            expected.as_object_mut().unwrap().entry(name).or_insert(Json::Null);
        }
        assert_eq!(value(&sandbox, "t", key.as_str().unwrap()), expected);
    }
    // m of a: the third type of the union is a long (04), and 1 is 02.
    assert!(bytes(&sandbox, "t", "a").ends_with("0402"));
    sandbox.write("big.jsonl", "{\"k\":1,\"a\":[18446744073709551615],\"b\":1}\n");
    sandbox.firn("table build -i big.jsonl -o u --key k --verify-input").ok();
    assert_eq!(value(&sandbox, "u", "1"), json!({ "a": [u64::MAX], "b": 1 }));
}

#[test]
fn bad_rows_are_named() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,n,m\n1,2,3\n2,3\n3,4,5,6\n4,5,6\n");
    sandbox.firn("table build -i a.csv -o t --key id").fails(2, "a.csv:3: the row has 2 values");
    let run =
        sandbox.firn("table build -i a.csv -o t --key id --on-error skip --verify-input").ok();
    assert!(run.err.contains("skipped 2 of 4 rows") && run.err.contains("a.csv:4"), "{}", run.err);
    assert_eq!(content(&sandbox, "t").len(), 2);
    let mut rows = "id,n,m\n".to_string();
    (0..10_001).for_each(|i| rows += &format!("{i},1,2\n"));
    sandbox.write("late.csv", rows + "x,1.5,2\n");
    let run = sandbox.firn("table build -i late.csv -o u --key id").fails(2, "late.csv:10003");
    assert!(run.err.contains("`1.5` is not a long") && run.err.contains(":string"), "{}", run.err);
    sandbox.firn("table build -i late.csv -o u --key id --value n:double,m").ok();
    assert_eq!(value(&sandbox, "u", "x"), json!({ "n": 1.5, "m": 2 }));

    sandbox.write("a.jsonl", "{\"k\":1,\"v\":1}\n{\"v\":2}\n{\"k\":[1],\"v\":1}\n{\"k\":4}\n[5]\n");
    let run = sandbox.firn("table build -i a.jsonl -o v --key k --on-error skip").ok();
    assert_eq!(content(&sandbox, "v").len(), 1);
    for what in [
        "a.jsonl:2: column `k`: there is no value",
        "a.jsonl:3: column `k`: a key is a text",
        "a.jsonl:4: column `v`: there is no value",
        "a.jsonl:5: the line is an array",
    ] {
        assert!(run.err.contains(what), "{what} is not in {}", run.err);
    }
}

#[test]
fn all_inputs_must_have_the_same_columns() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,n,m\n1,2,3\n");
    sandbox.write("b.csv", "m,id,n\n6,4,5\n");
    sandbox.firn("table build -i a.csv b.csv -o t --key id").ok();
    assert_eq!(value(&sandbox, "t", "4"), json!({ "n": 5, "m": 6 }));
    sandbox.write("c.csv", "id,n\n7,8\n");
    sandbox
        .firn("table build -i a.csv c.csv -o u --key id")
        .fails(2, "c.csv: there is no column `m`");
    sandbox.write("d.csv", "id,n,m,o\n7,8,9,10\n");
    sandbox.firn("table build -i a.csv d.csv -o u --key id").fails(2, "have no column `o`");
    sandbox.firn("table build -i a.csv d.csv -o u --key id --value n,m").ok();
    sandbox.write("e.jsonl", "{\"id\":9,\"n\":1,\"m\":2}\n");
    sandbox.firn("table build -i a.csv e.jsonl -o w --key id").ok();
    assert_eq!(content(&sandbox, "w").len(), 2);
    sandbox.write("f.txt", "a 1\n");
    sandbox.firn("table build -i f.txt -o x --key id --format text").fails(2, "has no columns");
}

#[test]
fn csv_in_another_encoding_is_converted() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", b"id,name,n\nx,caf\xe9,1\n");
    sandbox.firn("table build -i a.csv -o t --key id -e latin1").ok();
    assert_eq!(value(&sandbox, "t", "x"), json!({ "name": "caf\u{e9}", "n": 1 }));
    sandbox.firn("table build -i a.csv -o u --key id").fails(2, "not valid UTF-8");
    sandbox.firn("table build -i a.csv -o u --key id -e utf-16le").fails(2, "not valid UTF-16LE");
    sandbox.firn("table build -i a.csv -o raw --key id --value name").ok();
    assert_eq!(bytes(&sandbox, "raw", "x"), "636166e9");
}
