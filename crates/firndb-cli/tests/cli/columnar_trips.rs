//! Extreme values through Parquet, Arrow and Avro, from every store and back.

use super::Sandbox;
use arrow_array::builder::{Float64Builder, ListBuilder, StringBuilder};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow_ipc::reader::StreamReader;
use parquet::arrow::ArrowWriter;
use std::fs::File;
use std::sync::Arc;

const FORMATS: [&str; 3] = ["parquet", "arrow", "avro"];

/// Records whose keys and values are any bytes, in JSON lines.
const RECORDS: &str = r#"{"key":"a","value":""}
{"key":"","value":"an empty key"}
{"key":"quotes \" and ' , ; | tab\t","value":"line\r\nline\n"}
{"key_hex":"00","value_hex":"0000ff"}
{"key_hex":"ff0a0d","value_hex":"c328"}
{"key":"NA","value":"null"}
"#;

/// The records of a store as JSON lines, ordered.
fn records(sandbox: &Sandbox, group: &str, store: &str) -> Vec<String> {
    let mut lines: Vec<String> = sandbox
        .firn(&format!("{group} export {store}"))
        .ok()
        .out
        .lines()
        .map(String::from)
        .collect();
    lines.sort();
    lines
}

#[test]
fn keys_and_values_of_any_bytes_come_back_from_columnar_files() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", RECORDS);
    sandbox.firn("log load s in.jsonl").ok();
    let expected = records(&sandbox, "log", "s");
    assert_eq!(expected.len(), 6);
    for end in FORMATS {
        sandbox.firn(&format!("log export s -o s.{end}")).ok();
        sandbox.firn(&format!("log load log-{end} s.{end} --key key")).ok();
        assert_eq!(records(&sandbox, "log", &format!("log-{end}")), expected, "{end}");
        sandbox.firn(&format!("table build s.{end} --key key -o table-{end}")).ok();
        assert_eq!(records(&sandbox, "table", &format!("table-{end}")), expected, "{end}");
        sandbox.firn(&format!("table export table-{end} -o again.{end}")).ok();
        sandbox.firn(&format!("table build again.{end} --key key -o again-{end}")).ok();
        assert_eq!(records(&sandbox, "table", &format!("again-{end}")), expected, "{end}");
    }
}

const SCHEMA: &str = "\
[fields]
id = \"i64 full\"
b = \"bool full nullable\"
u = \"u64 full nullable\"
f = \"f64 full nullable\"
t = \"timestamp full nullable\"
s = \"string full nullable\"
x = \"bytes full nullable\"
m = \"string filterable stored multi\"
n = \"f64 filterable stored multi\"
";

/// Documents with the extremes of every type, and without values.
fn documents() -> RecordBatch {
    let mut texts = ListBuilder::new(StringBuilder::new());
    texts.append_value([Some("a|b"), Some(""), Some("\0")]);
    texts.append_value(Vec::<Option<&str>>::new());
    texts.append_value([Some("\",\n\r\t")]);
    texts.append_null();
    let mut numbers = ListBuilder::new(Float64Builder::new());
    numbers.append_value([Some(5e-324), Some(f64::INFINITY)]);
    numbers.append_value(Vec::new());
    numbers.append_value([Some(f64::NEG_INFINITY), Some(f64::MAX)]);
    numbers.append_null();
    let times = vec![Some(i64::MIN), Some(i64::MAX), None, Some(-1)];
    let floats = vec![Some(5e-324), Some(f64::MIN), None, Some(f64::NEG_INFINITY)];
    let columns: [(&str, ArrayRef, bool); 9] = [
        ("id", Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, 0, -1])), false),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, None])), true),
        ("u", Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(0), None, None])), true),
        ("f", Arc::new(Float64Array::from(floats)), true),
        ("t", Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC")), true),
        (
            "s",
            Arc::new(StringArray::from(vec![Some(""), Some("\0,\"'|\n"), None, Some("NA")])),
            true,
        ),
        ("x", Arc::new(BinaryArray::from(vec![Some(&b""[..]), Some(b"\0\xff"), None, None])), true),
        ("m", Arc::new(texts.finish()), true),
        ("n", Arc::new(numbers.finish()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The rows and the columns of an Arrow file.
fn read(sandbox: &Sandbox, name: &str) -> (Vec<String>, String) {
    let file = File::open(sandbox.path(name)).unwrap();
    let reader = StreamReader::try_new(file, None).unwrap();
    let schema = format!("{:?}", reader.schema());
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
    let row = |batch: &RecordBatch, row: usize| {
        let cells = batch.columns().iter().map(|array| format!("{:?}", array.slice(row, 1)));
        cells.collect::<Vec<_>>().join("\n")
    };
    let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |at| row(batch, at)));
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    (rows, schema)
}

#[test]
fn documents_of_every_type_come_back_from_columnar_files() {
    let sandbox = Sandbox::new();
    sandbox.write("schema.toml", SCHEMA);
    let batch = documents();
    let file = File::create(sandbox.path("in.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    sandbox.firn("search build in.parquet -o c --schema schema.toml").ok();
    sandbox.firn("index init i --schema schema.toml --partitions 2").ok();
    sandbox.firn("index apply i main in.parquet --key id").ok();
    sandbox.firn("search export c -o c.arrow").ok();
    let expected = read(&sandbox, "c.arrow");
    assert_eq!(expected.0.len(), 4);
    for part in ["-9223372036854775808", "18446744073709551615", "5e-324", "a|b"] {
        assert!(expected.0.iter().any(|row| row.contains(part)), "{part}: {expected:?}");
    }
    // Avro has no unsigned numbers of 64 bits, so its files have the other documents.
    let message = "column `u`: 18446744073709551615 does not fit 64 bits; use parquet or arrow";
    sandbox.firn("search export c -o all.avro").fails(2, message);
    assert!(!sandbox.path("all.avro").exists());
    sandbox.firn("search export c 'id >= -1' -o signed.arrow").ok();
    let signed = read(&sandbox, "signed.arrow");
    for (end, query, expected) in
        [("parquet", "", &expected), ("arrow", "", &expected), ("avro", "'id >= -1'", &signed)]
    {
        for (group, store) in [("search", "c"), ("index", "i")] {
            let file = format!("{group}-out.{end}");
            sandbox.firn(&format!("{group} export {store} {query} -o {file}")).ok();
            let again = format!("{group}-{end}");
            sandbox.firn(&format!("search build {file} -o {again} --schema schema.toml")).ok();
            sandbox.firn(&format!("search export {again} -o {again}.arrow")).ok();
            assert_eq!(read(&sandbox, &format!("{again}.arrow")), *expected, "{file}");
        }
    }
    // The types that are inferred are those of the file.
    let inferred = sandbox.firn("search build search-out.parquet --infer").ok().out;
    for ty in ["bool", "i64", "f64", "timestamp", "string", "bytes"] {
        assert!(inferred.contains(&format!("type = \"{ty}\"")), "{ty}: {inferred}");
    }
}
