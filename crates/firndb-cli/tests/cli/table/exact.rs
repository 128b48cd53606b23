//! Parquet and Arrow: values that cannot be stored or shown exactly and damaged files are refused.

use super::columns::{batch, ipc_file, ipc_stream};
use super::{content, value};
use crate::Sandbox;
use arrow_array::builder::{Int32Builder, MapBuilder, StringBuilder};
use arrow_array::*;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, root_as_footer, root_as_message};
use arrow_schema::{DataType, Field, Schema};
use parquet::data_type::{ByteArrayType, Int64Type, Int96, Int96Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::json;
use std::sync::Arc;

/// A batch of the columns `k`, a text, and `v`.
fn of(keys: &[&str], column: ArrayRef) -> RecordBatch {
    let keys: ArrayRef = Arc::new(StringArray::from(keys.to_vec()));
    RecordBatch::try_from_iter_with_nullable([("k", keys, false), ("v", column, true)]).unwrap()
}

#[test]
fn int96_timestamps_keep_their_years() {
    let sandbox = Sandbox::new();
    let text = "message m {
        required binary k (UTF8) = 1;
        optional group g = 2 { optional int96 t = 3; }
        optional int64 n (TIMESTAMP(NANOS, true));
        optional group l (LIST) { repeated group list { optional int96 element; } }
    }";
    let schema = Arc::new(parse_message_type(text).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let keys = ["a", "b", "c"].map(|key| key.as_bytes().to_vec().into());
    // Parquet counts Julian days, which start at noon; its nanoseconds count from midnight.
    let times = [1_721_426, 2_440_588, 5_373_484].map(|day| {
        let mut time = Int96::new();
        time.set_data(1_500_000_000, 0, day);
        time
    });
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&keys, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&times, Some(&[2; 3]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[1; 3], Some(&[1; 3]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&times, Some(&[3; 3]), Some(&[0; 3])).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    sandbox.write("a.parquet", bytes);
    sandbox.firn("table build -i a.parquet -o t --key k --verify-input").ok();
    for (key, day) in [("a", "0001-01-01"), ("b", "1970-01-01"), ("c", "9999-12-31")] {
        let (time, nano) = (format!("{day}T00:00:01.5"), "1970-01-01T00:00:00.000000001Z");
        let row = json!({ "g": { "t": time }, "n": nano, "l": [time] });
        assert_eq!(value(&sandbox, "t", key), row);
    }
}

#[test]
fn duplicate_names_are_refused() {
    let sandbox = Sandbox::new();
    let names = ["k", "a", "a"].map(|name| Field::new(name, DataType::Int32, false));
    let column = || Arc::new(Int32Array::from(vec![1])) as ArrayRef;
    let schema = Arc::new(Schema::new(names.to_vec()));
    let twice = RecordBatch::try_new(schema, vec![column(), column(), column()]).unwrap();
    sandbox.write("a.arrow", ipc_file(&[twice]));
    let run = sandbox.firn("table build -i a.arrow -o t --key k");
    run.fails(2, "a.arrow: two columns have the name `a`; rename one of them");

    let field = || Arc::new(Field::new("z", DataType::Int32, false));
    let inner = StructArray::from(vec![(field(), column()), (field(), column())]);
    sandbox.write("b.arrow", ipc_file(&[of(&["a"], Arc::new(inner))]));
    let run = sandbox.firn("table build -i b.arrow -o t --key k --record");
    run.fails(2, "b.arrow: column `v`: two columns have the name `z`");

    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for keys in [["x", "y"], ["x", "x"]] {
        keys.iter().for_each(|key| maps.keys().append_value(key));
        maps.values().append_slice(&[1, 2]);
        maps.append(true).unwrap();
    }
    sandbox.write("c.arrow", ipc_file(&[of(&["a", "b"], Arc::new(maps.finish()))]));
    let run = sandbox.firn("table build -i c.arrow -o t --key k --record");
    run.fails(2, "c.arrow:2: column `v`: a map has the key `x` twice");
    sandbox.firn("table build -i c.arrow -o t --key k --record --on-error skip").ok();
    assert_eq!(value(&sandbox, "t", "a"), json!({ "v": { "x": 1, "y": 2 } }));
}

/// A column with one list of all `items`.
fn list(items: ArrayRef) -> ArrayRef {
    let item = Field::new("item", items.data_type().clone(), true);
    let len = items.len() as i32;
    Arc::new(FixedSizeListArray::new(Arc::new(item), len, items, None))
}

#[test]
fn lists_of_nulls_are_shown_or_refused() {
    let sandbox = Sandbox::new();
    let ints = || Arc::new(Int32Array::from(vec![None; 100_000])) as ArrayRef;
    let field = Arc::new(Field::new("z", DataType::Null, true));
    let structs = |count| {
        let inner: ArrayRef = Arc::new(NullArray::new(count));
        Arc::new(StructArray::from(vec![(field.clone(), inner)])) as ArrayRef
    };
    let cases = [
        (ints(), json!(null), 100_000),
        (Arc::new(NullArray::new(70_000)), json!(null), 70_000),
        (structs(60_000), json!({ "z": null }), 60_000),
    ];
    for (items, item, count) in cases {
        sandbox.write("a.arrow", ipc_file(&[of(&["a"], list(items))]));
        sandbox.firn("table build -i a.arrow -o t --key k --record --force").ok();
        assert_eq!(value(&sandbox, "t", "a")["v"], json!(vec![item; count]));
    }
    // A few bytes must not expand until the memory is full.
    for items in [structs(2_000_000), Arc::new(NullArray::new(2_000_000))] {
        sandbox.write("a.arrow", ipc_file(&[of(&["a"], list(items))]));
        let run = sandbox.firn("table build -i a.arrow -o u --key k --record");
        run.fails(2, "a.arrow:1: it has too many nulls or empty records in lists");
    }
}

#[test]
fn too_deeply_nested_columns_are_refused() {
    let sandbox = Sandbox::new();
    let nested = |levels| {
        let mut column: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        for _ in 0..levels {
            let field = Field::new("z", column.data_type().clone(), true);
            column = Arc::new(StructArray::from(vec![(Arc::new(field), column)]));
        }
        column
    };
    sandbox.write("a.arrow", ipc_file(&[of(&["a"], nested(25))]));
    sandbox.firn("table build -i a.arrow -o t --key k --record").ok();
    assert!(value(&sandbox, "t", "a").to_string().contains("{\"z\":7}"));
    sandbox.write("a.arrow", ipc_file(&[of(&["a"], nested(35))]));
    let run = sandbox.firn("table build -i a.arrow -o u --key k --record");
    run.fails(2, "a.arrow: column `v`: it is nested more deeply than values can be shown");
}

#[test]
fn streams_of_small_batches_and_of_none_are_read() {
    let sandbox = Sandbox::new();
    let empty = of(&[], Arc::new(NullArray::new(0)));
    let small = of(&["a", "b"], Arc::new(Int32Array::from(vec![1, 2])));
    for (batches, count) in [
        (vec![small.clone()], 2),
        (vec![small.clone(), of(&["c"], Arc::new(Int32Array::from(vec![3])))], 3),
        (vec![small.slice(0, 0), small.clone(), small.slice(0, 0)], 2),
        (vec![empty], 0),
    ] {
        let stream = ipc_stream(&batches);
        // The end marker of a stream, 8 bytes, is optional.
        for bytes in [&stream[..], &stream[..stream.len() - 8], &ipc_file(&batches)] {
            sandbox.firn_with("table build -i - -o t --key k --force", bytes).ok();
            assert_eq!(content(&sandbox, "t").len(), count);
        }
    }
}

#[test]
fn a_stream_truncated_within_a_length_is_damaged() {
    // A sender that dies may have sent a part of a length. If that were read as the end of the
    // stream, the remaining rows would be lost silently.
    let sandbox = Sandbox::new();
    let stream = ipc_stream(&[of(&["a"], Arc::new(Int32Array::from(vec![1])))]);
    let end = stream.len() - 8;
    // Old streams have no marker before a length, and end with a length of zero.
    let old = [&stream[..end], &[0; 4]].concat();
    for (bytes, whole) in [(&stream, [end, end + 8]), (&old, [end, end + 4])] {
        for cut in end..=bytes.len() {
            let run = sandbox.firn_with("table build -i - -o t --key k --force", &bytes[..cut]);
            if whole.contains(&cut) {
                run.ok();
            } else {
                run.fails(6, "it is cut off, or a length in it is wrong");
            }
        }
    }
}

/// Replaces a length of `bytes`, which occurs once after `from`, by one larger than any memory.
fn inflate(bytes: &mut [u8], from: usize, length: i64) {
    let at = bytes[from..].windows(8).position(|b| b == length.to_le_bytes()).unwrap();
    bytes[from + at..from + at + 8].copy_from_slice(&(1_i64 << 46).to_le_bytes());
}

#[test]
fn damaged_arrow_gives_an_error_of_one_line() {
    let sandbox = Sandbox::new();
    let batches = [batch(0, 2000)];
    let (mut stream, mut file) = (ipc_stream(&batches), ipc_file(&batches));
    // The second message is the batch.
    let len = |at: usize| i32::from_le_bytes(stream[at + 4..at + 8].try_into().unwrap()) as usize;
    let at = 8 + len(0);
    let body = root_as_message(&stream[at + 8..at + 8 + len(at)]).unwrap().bodyLength();
    inflate(&mut stream, at, body);
    let end = file.len() - 10;
    let footer = i32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
    let blocks = root_as_footer(&file[end - footer..end]).unwrap().recordBatches().unwrap();
    let body = blocks.get(0).bodyLength();
    inflate(&mut file, end - footer, body);
    for (name, bytes, message) in [
        ("a.arrows", &stream, "the columns cannot be read"),
        ("a.arrow", &file, "its directory names what is not there"),
    ] {
        sandbox.write(name, bytes);
        sandbox.firn(&format!("table build -i {name} -o t --key id")).fails(6, message);
    }
    // The same for the lengths stored in compressed columns.
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD));
    let schema = batches[0].schema();
    let mut writer =
        StreamWriter::try_new_with_options(Vec::new(), &schema, options.unwrap()).unwrap();
    writer.write(&batches[0]).unwrap();
    let mut stream = writer.into_inner().unwrap();
    sandbox.write("c.arrows", &stream);
    sandbox.firn("table build -i c.arrows -o c --key id --verify-input").ok();
    // The numbers of the first column.
    inflate(&mut stream, at + 8, 2000 * 8);
    sandbox.write("c.arrows", &stream);
    sandbox.firn("table build -i c.arrows -o t --key id").fails(6, "an impossible length");
    // Wherever the damage is, panic messages of the Arrow reader are not printed.
    let whole = ipc_file(&[batch(0, 5)]);
    for at in (8..whole.len()).step_by(29) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        sandbox.write("b.arrow", &bytes);
        let run = sandbox.firn("table build -i b.arrow -o u --key id --force");
        let clean = run.err.is_empty() || run.err.starts_with("error: ");
        assert!(clean && run.err.lines().count() <= 1, "{at}: {}", run.err);
    }
    sandbox.firn("table verify u").ok();
    assert!(content(&sandbox, "u").len() <= 5);
}
