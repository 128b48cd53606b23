//! `firn table build` from Parquet and Arrow IPC.

use super::{bytes, content, value};
use crate::Sandbox;
use arrow_array::builder::{
    FixedSizeBinaryBuilder, Int32Builder, ListBuilder, MapBuilder, StringBuilder,
    StringDictionaryBuilder,
};
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field};
use firndb_ingest::{BatchWriter, Format};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde_json::json;
use std::sync::Arc;

/// Rows `from..to` with a key, a long, a text that may be missing, and a list.
pub(super) fn batch(from: i64, to: i64) -> RecordBatch {
    let name = |i: i64| (i % 3 != 0).then(|| format!("name {i}"));
    let mut lists = ListBuilder::new(Int32Builder::new());
    for i in from..to {
        lists.append_value((0..i as i32 % 4).map(Some));
    }
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int64Array::from_iter_values(from..to)) as ArrayRef, false),
        ("n", Arc::new(Int32Array::from_iter_values((from..to).map(|i| -i as i32))), false),
        ("name", Arc::new(StringArray::from_iter((from..to).map(name))), true),
        ("list", Arc::new(lists.finish()), true),
    ])
    .unwrap()
}

fn parquet(batches: &[RecordBatch], compression: Compression) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(1000))
        .build();
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut bytes, batches[0].schema(), Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
    bytes
}

pub(super) fn ipc_file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

pub(super) fn ipc_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn avro(batches: &[RecordBatch]) -> Vec<u8> {
    let schema = batches[0].schema();
    let mut writer = BatchWriter::new(Vec::new(), Format::Avro, &schema).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap()
}

#[test]
fn formats_with_types_give_the_same_records() {
    let sandbox = Sandbox::new();
    let batches = [batch(0, 1500), batch(1500, 3000)];
    sandbox.write("a.parquet", parquet(&batches, Compression::SNAPPY));
    sandbox.firn("table build -i a.parquet -o t --key id --verify-input").ok();
    assert_eq!(content(&sandbox, "t").len(), 3000);
    assert_eq!(value(&sandbox, "t", "7"), json!({ "n": -7, "name": "name 7", "list": [0, 1, 2] }));
    assert_eq!(value(&sandbox, "t", "2997"), json!({ "n": -2997, "name": null, "list": [0] }));
    // n: int -7; name: not null, 6 bytes; list: not null, a block of 3 nullable ints, the end.
    assert_eq!(bytes(&sandbox, "t", "7"), "0d020c6e616d652037020602000202020400");
    let schema = &sandbox.firn("table stats t --json").ok().json()[0]["value_schema"];
    let list = json!({ "type": "array", "items": ["null", "int"] });
    assert_eq!(
        schema["fields"],
        json!([
            { "name": "n", "type": "int" },
            { "name": "name", "type": ["null", "string"] },
            { "name": "list", "type": ["null", list] },
        ])
    );
    let expected = std::fs::read(sandbox.path("t")).unwrap();
    let (file, stream) = (ipc_file(&batches), ipc_stream(&batches));
    sandbox.write("zstd.parquet", parquet(&batches, Compression::ZSTD(Default::default())));
    sandbox.write("gzip.pq", parquet(&batches, Compression::GZIP(Default::default())));
    sandbox.write("lz4", parquet(&batches, Compression::LZ4_RAW));
    sandbox.write("a.arrow", &file);
    sandbox.write("unnamed", &stream);
    sandbox.write("a.arrows.zst", zstd::encode_all(&stream[..], 1).unwrap());
    sandbox.write("a.feather.zst", zstd::encode_all(&file[..], 1).unwrap());
    sandbox.write("a.avro", avro(&batches));
    sandbox.write("packed", zstd::encode_all(&avro(&batches)[..], 1).unwrap());
    let inputs =
        "zstd.parquet gzip.pq lz4 a.avro packed a.arrow unnamed a.arrows.zst a.feather.zst";
    for input in inputs.split(' ') {
        sandbox.firn(&format!("table build -i {input} -o u --key id --force --verify-input")).ok();
        assert!(std::fs::read(sandbox.path("u")).unwrap() == expected, "{input}");
    }
    for input in [&file, &stream] {
        sandbox.firn_with("table build -i - -o u --key id --force", input).ok();
        assert!(std::fs::read(sandbox.path("u")).unwrap() == expected);
    }
    let run = sandbox.firn_with("table build -i - -o v --key id", b"PAR1");
    run.fails(2, "Parquet cannot be read from standard input");
}

#[test]
fn columns_are_selectable_and_one_is_raw() {
    let sandbox = Sandbox::new();
    sandbox.write("a.parquet", parquet(&[batch(0, 10)], Compression::UNCOMPRESSED));
    sandbox.firn("table build -i a.parquet -o t --key id --value n").ok();
    assert_eq!(sandbox.firn("table get t 3").ok().out, "-3\n");
    // The key is a part of the value too, and the columns have another order.
    sandbox.firn("table build -i a.parquet -o u --key id --value name,id").ok();
    assert_eq!(value(&sandbox, "u", "4"), json!({ "name": "name 4", "id": 4 }));
    let run = sandbox.firn("table build -i a.parquet -o v --key id --value name");
    run.fails(2, "a.parquet:1: column `name`: there is no value");
    let run =
        sandbox.firn("table build -i a.parquet -o v --key id --value name --on-error skip").ok();
    assert!(run.err.contains("skipped 4 of 10 rows"), "{}", run.err);
    sandbox.firn("table build -i a.parquet -o w --key name").fails(2, "there is no value");
    sandbox.firn("table build -i a.parquet -o w --key list").fails(2, "neither bytes nor a number");
    sandbox.firn("table build -i a.parquet -o w --key x").fails(2, "columns are id, n, name, list");
    sandbox.firn("table build -i a.parquet -o w").fails(2, "say which column is the key");
    sandbox.firn("table build -i a.parquet -o w --key id --value n:long,name").fails(2, "own type");
}

#[test]
fn every_type_is_shown_as_json() {
    let sandbox = Sandbox::new();
    let mut words = StringDictionaryBuilder::<Int32Type>::new();
    words.append_value("w");
    let mut fixed = FixedSizeBinaryBuilder::new(2);
    fixed.append_value([0xab, 1]).unwrap();
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("one");
    map.values().append_value(1);
    map.append(true).unwrap();
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![5]));
    let structs =
        StructArray::from(vec![(Arc::new(Field::new("z", DataType::Int32, true)), inner)]);
    let decimal = |v: i128| Decimal128Array::from(vec![v]).with_precision_and_scale(9, 2).unwrap();
    let columns: Vec<(&str, ArrayRef, serde_json::Value)> = vec![
        ("bool", Arc::new(BooleanArray::from(vec![true])), json!(true)),
        ("u64", Arc::new(UInt64Array::from(vec![1 << 40])), json!(1_u64 << 40)),
        ("f32", Arc::new(Float32Array::from(vec![0.5])), json!(0.5)),
        ("nan", Arc::new(Float64Array::from(vec![f64::NAN])), json!("NaN")),
        ("bytes", Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..]])), json!("00ff")),
        ("fixed", Arc::new(fixed.finish()), json!("ab01")),
        ("words", Arc::new(words.finish()), json!("w")),
        ("date", Arc::new(Date32Array::from(vec![19_723])), json!("2024-01-01")),
        ("time", Arc::new(Time64MicrosecondArray::from(vec![1_500_000])), json!("00:00:01.5")),
        ("local", Arc::new(TimestampSecondArray::from(vec![1])), json!("1970-01-01T00:00:01")),
        (
            "instant",
            Arc::new(TimestampNanosecondArray::from(vec![1]).with_timezone("UTC")),
            json!("1970-01-01T00:00:00.000000001Z"),
        ),
        ("decimal", Arc::new(decimal(-12345)), json!("-123.45")),
        ("map", Arc::new(map.finish()), json!({ "one": 1 })),
        ("struct", Arc::new(structs), json!({ "z": 5 })),
        ("null", Arc::new(NullArray::new(1)), json!(null)),
    ];
    let key: (&str, ArrayRef) = ("k", Arc::new(StringArray::from(vec!["key"])));
    let all = columns.iter().map(|(name, array, _)| (*name, array.clone()));
    let batch = RecordBatch::try_from_iter(std::iter::once(key).chain(all)).unwrap();
    let expected: serde_json::Map<String, serde_json::Value> =
        columns.iter().map(|(name, _, json)| (name.to_string(), json.clone())).collect();
    sandbox.write("a.arrow", ipc_file(std::slice::from_ref(&batch)));
    sandbox.firn("table build -i a.arrow -o t --key k --verify-input").ok();
    assert_eq!(value(&sandbox, "t", "key"), serde_json::Value::Object(expected));
}

#[test]
fn values_under_a_null_are_ignored() {
    let sandbox = Sandbox::new();
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![Some(5), None]));
    let child = Arc::new(Field::new("z", DataType::Int32, false));
    let nulls = Some(vec![true, false].into());
    let structs = StructArray::new(vec![child].into(), vec![inner], nulls);
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("k", keys.clone(), false),
        ("s", Arc::new(structs) as ArrayRef, true),
        ("l", keys, false),
    ]);
    sandbox.write("a.arrow", ipc_file(&[batch.unwrap()]));
    sandbox.firn("table build -i a.arrow -o t --key k").ok();
    assert_eq!(value(&sandbox, "t", "a"), json!({ "s": { "z": 5 }, "l": "a" }));
    assert_eq!(value(&sandbox, "t", "b"), json!({ "s": null, "l": "b" }));
}

#[test]
fn unsupported_values_are_reported() {
    let sandbox = Sandbox::new();
    let big: ArrayRef = Arc::new(UInt64Array::from(vec![1, u64::MAX]));
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let batch = RecordBatch::try_from_iter([("k", keys), ("n", big.clone()), ("m", big)]).unwrap();
    sandbox.write("a.arrow", ipc_file(&[batch]));
    let run = sandbox.firn("table build -i a.arrow -o t --key k");
    run.fails(2, "a.arrow:2: column `n`: 18446744073709551615 does not fit");
    sandbox.write("other.parquet", parquet(&[self::batch(0, 5)], Compression::SNAPPY));
    sandbox.write("a.parquet", parquet(&[self::batch(5, 9)], Compression::SNAPPY));
    sandbox.firn("table build -i a.parquet other.parquet -o t --key id").ok();
    sandbox.write("b.csv", "id,n,name,list\n1,2,3,4\n");
    let run = sandbox.firn("table build -i b.csv a.parquet -o u --key id");
    run.fails(2, "a.parquet: its columns or their types differ");
    sandbox.firn("table build -i a.parquet b.csv -o u --key id").fails(2, "inputs of one form");
    let duplicates = sandbox.firn("table build -i a.parquet a.parquet -o u --key id");
    duplicates.fails(2, "was added twice, by a.parquet:");
}

#[test]
fn damaged_files_are_refused() {
    let sandbox = Sandbox::new();
    let batches = [batch(0, 2000)];
    let files = [
        ("a.parquet", parquet(&batches, Compression::SNAPPY)),
        ("a.arrow", ipc_file(&batches)),
        ("a.arrows", ipc_stream(&batches)),
    ];
    for (name, bytes) in files {
        for cut in [0, 5, 100, bytes.len() / 2, bytes.len() - 3] {
            sandbox.write(name, &bytes[..cut]);
            let run = sandbox.firn(&format!("table build -i {name} -o t --key id"));
            // The end marker of a stream is optional: all of its rows are there.
            let whole = name == "a.arrows" && cut == bytes.len() - 3;
            assert!(whole || run.code == 6 && run.err.contains(name), "{name} {cut}: {}", run.err);
            let _ = std::fs::remove_file(sandbox.path("t"));
        }
    }
}
