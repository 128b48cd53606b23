//! Parquet and Arrow files of other systems, damaged ones, and the types of their columns.

use super::{content, value};
use crate::Sandbox;
use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array,
    DurationMillisecondArray, DurationNanosecondArray, Float32Array, Float64Array, Int8Array,
    Int64Array, RecordBatch, StringArray, StructArray, Time32MillisecondArray,
    Time64MicrosecondArray, Time64NanosecondArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, UInt32Array,
};
use arrow_ipc::reader::StreamReader;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{
    BrotliLevel, Compression, Encoding, LogicalType, Repetition, Type as Physical,
};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use serde_json::json;
use std::fs::File;
use std::sync::Arc;

fn write(sandbox: &Sandbox, name: &str, batch: &RecordBatch, set: WriterProperties) {
    let file = File::create(sandbox.path(name)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(set)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| {
        let nullable = name != "key";
        (name, array, nullable)
    }))
    .unwrap()
}

/// A stream of a big-endian machine: columns `k` (1, 2, 3) and `v` (100, 200, 300) of 32 bits.
const BIG_ENDIAN: &str = "\
ffffffffb00000001000000000000a000c000a00090004000a000000100000000001040008000c000a00040008000000\
0800000000000100020000004400000004000000d4ffffff1c0000000c0000000000000214000000c4ffffff00000001\
2000000000000000010000007600000010001400100000000f0008000000040010000000240000001400000000000002\
1c00000008000c000800070008000000000000012000000000000000010000006b00000000000000ffffffffb8000000\
14000000000000000c001600140013000c0004000c0000002000000000000000140000000000000304000a0018000c00\
080004000a0000003c000000100000000300000000000000000000000200000003000000000000000000000000000000\
030000000000000000000000000000000000000004000000000000000000000000000000000000000000000000000000\
0c000000000000001000000000000000000000000000000010000000000000000c000000000000000000000100000002\
000000030000000000000064000000c80000012c00000000ffffffff00000000";

#[test]
fn a_stream_of_the_other_byte_order_is_refused() {
    let sandbox = Sandbox::new();
    let digits = BIG_ENDIAN.as_bytes().chunks(2);
    let digits = digits.map(|pair| std::str::from_utf8(pair).unwrap());
    let bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    sandbox.write("big.arrows", bytes);
    let message = "big.arrows: the columns cannot be read: it was written on a machine with the \
                   other byte order";
    sandbox.firn("table build -i big.arrows --key k -o t").fails(2, message);
    sandbox.firn("log load s big.arrows --key k").fails(2, message);
    sandbox.firn("search build big.arrows -o c").fails(2, message);
    for made in ["t", "s", "c"] {
        assert!(!sandbox.path(made).exists());
    }
}

#[test]
fn impossible_prefixes_are_refused_with_their_column() {
    let sandbox = Sandbox::new();
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["apple", "apply"]));
    let set = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_column_encoding("key".into(), Encoding::DELTA_BYTE_ARRAY);
    write(&sandbox, "p.parquet", &batch([("key", keys)]), set.build());
    sandbox.firn("table build -i p.parquet --key key --value key -o good").ok();
    let mut bytes = std::fs::read(sandbox.path("p.parquet")).unwrap();
    let at = bytes.windows(5).position(|part| part == [0x80, 1, 4, 2, 0]).unwrap() + 4;
    bytes[at] = 10;
    sandbox.write("p.parquet", bytes);
    let message = "p.parquet: corrupt: this Parquet file cannot be read: column `key` of the type \
                   Utf8: it is damaged: a value begins with 5 bytes of the value before it, which \
                   has 0";
    sandbox.firn("table build -i p.parquet --key key --value key -o t").fails(6, message);
    sandbox.firn("search build p.parquet -o c").fails(6, message);
}

fn leaf(name: &str, ty: Physical, logical: Option<LogicalType>) -> TypePtr {
    let builder = Type::primitive_type_builder(name, ty).with_repetition(Repetition::REQUIRED);
    Arc::new(builder.with_logical_type(logical).build().unwrap())
}

#[test]
fn a_group_without_fields_does_not_move_columns() {
    let sandbox = Sandbox::new();
    let group = Type::group_type_builder("g").with_repetition(Repetition::OPTIONAL);
    let text = |name| leaf(name, Physical::BYTE_ARRAY, Some(LogicalType::String));
    let id = leaf("id", Physical::INT64, None);
    let fields = vec![id, Arc::new(group.build().unwrap()), text("a"), text("b")];
    let root = Type::group_type_builder("schema").with_fields(fields).build().unwrap();
    let file = File::create(sandbox.path("g.parquet")).unwrap();
    let set = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, Arc::new(root), set).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    let mut column = rows.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[1, 2], None, None).unwrap();
    column.close().unwrap();
    for texts in [["a1", "a2"], ["b1", "b2"]] {
        let mut column = rows.next_column().unwrap().unwrap();
        let texts = texts.map(ByteArray::from);
        column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
        column.close().unwrap();
    }
    rows.close().unwrap();
    writer.close().unwrap();
    sandbox.firn("table build -i g.parquet --key id --value b -o t").ok();
    let found = [json!({ "key": "1", "value": "b1" }), json!({ "key": "2", "value": "b2" })];
    assert_eq!(content(&sandbox, "t"), found);
    let message = "g.parquet: column `g`: `g` is a group without fields; name the other columns";
    sandbox.firn("table build -i g.parquet --key id -o u").fails(2, message);
    sandbox.firn("search build g.parquet -o c").ok();
    assert_eq!(sandbox.firn("search count c 'b = \"b2\"'").ok().out, "1\n");
}

#[test]
fn brotli_is_read_and_archives_are_refused_with_a_remedy() {
    let sandbox = Sandbox::new();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["one", "two"]));
    let brotli = Compression::BROTLI(BrotliLevel::default());
    let set = WriterProperties::builder().set_compression(brotli).build();
    write(&sandbox, "b.parquet", &batch([("key", ids), ("v", texts)]), set);
    sandbox.firn("table build -i b.parquet --key key -o t").ok();
    assert_eq!(sandbox.firn("table get t 2").ok().out, "two\n");
    sandbox.write("words.txt.bz2", b"BZh91AY&SY\x92\x91\x84D");
    let message = "words.txt.bz2: it is compressed with bzip2, which is not supported: decompress \
                   it first, for example with `bzip2 -dc`";
    sandbox.firn("table build -i words.txt.bz2 -o u").fails(2, message);
    let message = "standard input: it is a zip archive";
    sandbox.firn_with("search build - -o c", b"PK\x03\x04\x14\0\0\0\x08\0").fails(2, message);
    assert!(!sandbox.path("u").exists() && !sandbox.path("c").exists());
}

#[test]
fn keys_are_dates_times_and_decimals() {
    let sandbox = Sandbox::new();
    let price = Decimal128Array::from(vec![-5, 1250]).with_precision_and_scale(9, 2).unwrap();
    let at = TimestampMicrosecondArray::from(vec![0, 1_500_000]).with_timezone("UTC");
    let lists = {
        let mut lists = ListBuilder::new(Int64Builder::new());
        lists.append_value([Some(1)]);
        lists.append_value([Some(2)]);
        lists.finish()
    };
    let rows = batch([
        ("day", Arc::new(Date32Array::from(vec![0, 19_753])) as ArrayRef),
        ("price", Arc::new(price)),
        ("at", Arc::new(at)),
        ("time", Arc::new(Time64NanosecondArray::from(vec![1, 43_200_000_000_000]))),
        ("long", Arc::new(DurationMillisecondArray::from(vec![-1_500, 0]))),
        ("list", Arc::new(lists)),
    ]);
    write(&sandbox, "t.parquet", &rows, WriterProperties::builder().build());
    for (column, keys) in [
        ("day", ["1970-01-01", "2024-01-31"]),
        ("price", ["-0.05", "12.50"]),
        ("at", ["1970-01-01T00:00:00Z", "1970-01-01T00:00:01.5Z"]),
        ("time", ["00:00:00.000000001", "12:00:00"]),
        ("long", ["-PT1.5S", "PT0S"]),
    ] {
        let line = format!("table build -i t.parquet --key {column} --record -o {column}");
        sandbox.firn(&line).ok();
        let found = content(&sandbox, column).into_iter().map(|record| record["key"].clone());
        assert_eq!(found.collect::<Vec<_>>(), keys, "{column}");
    }
    let shown = value(&sandbox, "day", "1970-01-01");
    assert_eq!((&shown["time"], &shown["long"]), (&"00:00:00.000000001".into(), &"-PT1.5S".into()));
    let run = sandbox.firn("table build -i t.parquet --key list --record -o x");
    let run = run.fails(2, "is neither bytes nor a number or time: it cannot be a key");
    assert!(run.err.contains("t.parquet: column `list`: the type List"), "{}", run.err);
}

/// Columns of every type that a table keeps, with their extremes.
fn every_type() -> RecordBatch {
    let numbers = vec![Some(i64::MIN), Some(i64::MAX), None, Some(0)];
    let doubles = vec![Some(5e-324), Some(-0.0), Some(f64::INFINITY), Some(f64::NAN)];
    let texts = vec![Some(""), None, Some("a\0\"b,c|d\n\r\te"), Some("\u{10ffff}")];
    let bytes = vec![Some(&b""[..]), Some(b"\0\xff"), None, Some(b"NA")];
    let decimal = Decimal128Array::from(vec![Some(10_i128.pow(38) - 1), Some(-1), None, Some(0)]);
    let decimal = decimal.with_precision_and_scale(38, 10).unwrap();
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some(""), None, Some("a|b")]);
    lists.append_value(Vec::<Option<&str>>::new());
    lists.append_null();
    lists.append_value([Some("\0")]);
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for row in 0..4 {
        for item in 0..row {
            maps.keys().append_value(format!("k{item}"));
            maps.values().append_option((item > 0).then_some(item));
        }
        maps.append(row != 2).unwrap();
    }
    let inner: ArrayRef = Arc::new(Int64Array::from(numbers.clone()));
    let inner = StructArray::try_from(vec![("x", inner)]).unwrap();
    let at = vec![Some(i64::MIN), Some(i64::MAX), None, Some(-1)];
    let utc = TimestampMicrosecondArray::from(at.clone()).with_timezone("UTC");
    batch([
        ("key", Arc::new(BinaryArray::from(vec![&b"a"[..], b"\0", b"", b"\xff\n"])) as ArrayRef),
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), None]))),
        ("i8", Arc::new(Int8Array::from(vec![Some(i8::MIN), Some(i8::MAX), None, Some(0)]))),
        ("i64", Arc::new(Int64Array::from(numbers))),
        ("u32", Arc::new(UInt32Array::from(vec![Some(u32::MAX), Some(0), None, Some(1)]))),
        ("f32", Arc::new(Float32Array::from(vec![Some(1e-45), Some(-0.0), None, Some(f32::MAX)]))),
        ("f64", Arc::new(Float64Array::from(doubles))),
        ("text", Arc::new(StringArray::from(texts))),
        ("bytes", Arc::new(BinaryArray::from(bytes))),
        ("decimal", Arc::new(decimal)),
        ("date", Arc::new(Date32Array::from(vec![Some(i32::MIN), Some(i32::MAX), None, Some(0)]))),
        (
            "millis",
            Arc::new(Time32MillisecondArray::from(vec![Some(0), Some(86_399_999), None, None])),
        ),
        (
            "micros",
            Arc::new(Time64MicrosecondArray::from(vec![None, Some(86_399_999_999), None, None])),
        ),
        (
            "nanos",
            Arc::new(Time64NanosecondArray::from(vec![
                None,
                Some(86_399_999_999_999),
                None,
                Some(1),
            ])),
        ),
        ("at", Arc::new(utc)),
        ("local", Arc::new(TimestampNanosecondArray::from(at.clone()))),
        ("long", Arc::new(DurationNanosecondArray::from(at))),
        ("list", Arc::new(lists.finish())),
        ("map", Arc::new(maps.finish())),
        ("struct", Arc::new(inner)),
    ])
}

/// The rows of a file, by key, and its columns.
fn read(sandbox: &Sandbox, name: &str) -> (Vec<String>, Vec<String>) {
    let file = File::open(sandbox.path(name)).unwrap();
    let batches: Vec<RecordBatch> = match name.ends_with(".parquet") {
        true => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
            reader.map(|batch| batch.unwrap()).collect()
        }
        false => StreamReader::try_new(file, None).unwrap().map(|batch| batch.unwrap()).collect(),
    };
    let column =
        |column: &arrow_schema::FieldRef| format!("{}: {}", column.name(), column.data_type());
    let columns = batches[0].schema().fields().iter().map(column).collect();
    let row = |batch: &RecordBatch, row: usize| {
        let cells = batch.columns().iter().map(|array| format!("{:?}", array.slice(row, 1)));
        cells.collect::<Vec<_>>().join("\n")
    };
    let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |at| row(batch, at)));
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    (rows, columns)
}

#[test]
fn rows_of_every_type_come_back_from_columnar_exports() {
    let sandbox = Sandbox::new();
    write(&sandbox, "in.parquet", &every_type(), WriterProperties::builder().build());
    sandbox.firn("table build -i in.parquet --key key -o t --verify-input").ok();
    sandbox.firn("table export t -o t.arrow").ok();
    let (rows, columns) = read(&sandbox, "t.arrow");
    assert_eq!(rows.len(), 4);
    for column in ["nanos: Time64(ns)", "long: Duration(ns)", "date: Date32", "f32: Float32"] {
        assert!(columns.iter().any(|found| found == column), "{column}: {columns:?}");
    }
    let schema = |table: &str| {
        sandbox.firn(&format!("table stats {table} --json")).ok().json()[0]["value_schema"].clone()
    };
    for end in ["parquet", "arrow", "avro"] {
        sandbox.firn(&format!("table export t -o again.{end}")).ok();
        sandbox.firn(&format!("table build -i again.{end} --key key -o {end}")).ok();
        assert_eq!(schema(end), schema("t"), "{end}");
        sandbox.firn(&format!("table export {end} -o {end}.arrow")).ok();
        assert_eq!(
            read(&sandbox, &format!("{end}.arrow")),
            (rows.clone(), columns.clone()),
            "{end}"
        );
    }
    let file = File::open(sandbox.path("again.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 4);
}
