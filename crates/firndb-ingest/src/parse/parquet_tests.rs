//! Parquet files that other systems write, and damaged ones.

use crate::{BatchWriter, Format, RecordOptions, RecordReader, RowOptions, Rows, ValueColumn};
use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, Decimal128Array, DictionaryArray, DurationSecondArray,
    FixedSizeBinaryArray, Int8Array, Int64Array, RecordBatch, StringArray, StructArray,
    Time64NanosecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter};
use parquet::basic::Type as Physical;
use parquet::basic::{BrotliLevel, Compression, ConvertedType, Encoding, LogicalType, Repetition};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type, Int96, Int96Type};
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData,
};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The records of a file as `KEY=VALUE`, or the error.
fn read(bytes: &[u8], key: &str, values: &[&str]) -> Result<Vec<String>, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("firndb-parquet-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).unwrap();
    let result = read_file(&path, key, values);
    std::fs::remove_file(path).unwrap();
    result
}

fn read_file(path: &std::path::Path, key: &str, values: &[&str]) -> Result<Vec<String>, String> {
    let options = RecordOptions::default().key(key).format(crate::Format::Parquet);
    let options = options.values(values.iter().map(|name| ValueColumn::new(*name)));
    let inputs = [crate::Input::File(path.to_path_buf())];
    let mut reader = RecordReader::new(&inputs, options).map_err(|e| e.to_string())?;
    let mut records = Vec::new();
    while let Some(batch) = reader.next_batch().map_err(|e| e.to_string())? {
        let show = |(_, key, value): (u64, &[u8], &[u8])| {
            format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
        };
        records.extend(batch.iter().map(show).chain(batch.bad_rows().iter().cloned()));
    }
    Ok(records)
}

fn why(bytes: &[u8], key: &str, values: &[&str]) -> String {
    read(bytes, key, values).unwrap_err()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A file of columns `k` (numbers) and `v` (texts).
fn file(
    rows: i64,
    set: impl FnOnce(WriterPropertiesBuilder) -> WriterPropertiesBuilder,
) -> Vec<u8> {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("text {row}"))));
    write(&batch(vec![("k", keys), ("v", texts)]), set(WriterProperties::builder()).build())
}

fn write(batch: &RecordBatch, properties: WriterProperties) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    out
}

/// The file with other metadata.
fn with_metadata(
    bytes: &[u8],
    change: impl FnOnce(&mut Vec<KeyValue>, &mut Vec<RowGroupMetaData>),
) -> Vec<u8> {
    let end = bytes.len() - 8;
    let len = u32::from_le_bytes(*bytes[end..].first_chunk().unwrap()) as usize;
    let old = ParquetMetaDataReader::new()
        .parse_and_finish(&bytes::Bytes::copy_from_slice(bytes))
        .unwrap();
    let file = old.file_metadata();
    let mut known = file.key_value_metadata().cloned().unwrap_or_default();
    let mut groups = old.row_groups().to_vec();
    change(&mut known, &mut groups);
    let (version, schema) = (file.version(), file.schema_descr_ptr());
    let made = FileMetaData::new(version, file.num_rows(), None, Some(known), schema, None);
    let mut out = bytes[..end - len].to_vec();
    let made = ParquetMetaData::new(made, groups);
    ParquetMetaDataWriter::new(&mut out, &made).finish().unwrap();
    out
}

/// The file with another number of rows in its footer than `old`; both are below 64.
fn with_total(bytes: &[u8], old: u8, total: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    // The field, its number, and the next field, the list of row groups.
    let field = [0x16, old << 1, 0x19];
    let at = bytes.windows(3).rposition(|part| part == field).unwrap();
    bytes[at + 1] = total << 1;
    bytes
}

fn first_rows() -> Vec<String> {
    (0..6).map(|row| format!("{row}=text {row}")).collect()
}

#[test]
fn rows_are_counted_by_row_groups() {
    let good = file(6, |set| set);
    assert_eq!(read(&with_total(&good, 6, 0), "k", &[]).unwrap(), first_rows());
    let error = why(&with_total(&good, 6, 5), "k", &[]);
    assert!(error.contains("its footer says 5 rows, and its row groups 6"), "{error}");
    for claimed in [7, 5, 0, -1] {
        let wrong = with_metadata(&good, |_, groups| {
            groups[0] = groups[0].clone().into_builder().set_num_rows(claimed).build().unwrap();
        });
        let found = read(&wrong, "k", &[]);
        assert!(found.as_ref().is_err_and(|e| e.contains("damaged")), "{claimed}: {found:?}");
    }
}

/// Inserts a checksum into the header of the only page of an uncompressed column.
fn with_checksum(bytes: &[u8], add: u32) -> Vec<u8> {
    // type, uncompressed size and compressed size: a byte for the field, and a number.
    let (mut at, mut sizes) = (4, Vec::new());
    for _ in 0..3 {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            at += 1;
            value |= u64::from(bytes[at] & 0x7f) << shift;
            shift += 7;
            if bytes[at] < 0x80 {
                break;
            }
        }
        sizes.push((value >> 1) as usize);
        at += 1;
    }
    // The header of the page ends where its bytes begin: before the metadata of the file.
    let old = ParquetMetaDataReader::new()
        .parse_and_finish(&bytes::Bytes::copy_from_slice(bytes))
        .unwrap();
    let chunk = old.row_group(0).column(0);
    let end = 4 + chunk.compressed_size() as usize;
    let crc = crc32fast::hash(&bytes[end - sizes[2]..end]).wrapping_add(add) as i32;
    let mut field = vec![0x15];
    let mut rest = ((crc << 1) ^ (crc >> 31)) as u32;
    while rest >= 0x80 {
        field.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    field.push(rest as u8);
    // The next field, the header of a data page, had the number 5 after 3.
    assert_eq!(bytes[at], 0x2c);
    let mut out = [&bytes[..at], &field, &[0x1c], &bytes[at + 1..]].concat();
    let footer = out.len() - 8;
    let len = u32::from_le_bytes(*out[footer..].first_chunk().unwrap()) as usize;
    out.truncate(footer - len);
    let (more, group) = (field.len() as i64, old.row_group(0).clone());
    let size = chunk.compressed_size() + more;
    let chunk = chunk.clone().into_builder().set_total_compressed_size(size).build().unwrap();
    let group = group.into_builder().set_column_metadata(vec![chunk]).build().unwrap();
    let made = ParquetMetaData::new(old.file_metadata().clone(), vec![group]);
    ParquetMetaDataWriter::new(&mut out, &made).finish().unwrap();
    out
}

#[test]
fn checksums_of_pages_are_verified() {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let plain = WriterProperties::builder().set_dictionary_enabled(false).build();
    let bytes = write(&batch(vec![("k", keys)]), plain);
    assert_eq!(read(&with_checksum(&bytes, 0), "k", &["k"]).unwrap().len(), 100);
    let error = why(&with_checksum(&bytes, 1), "k", &["k"]);
    assert!(error.contains("column `k` of the type Int64: ") && error.contains("CRC"), "{error}");
}

#[test]
fn delta_byte_arrays_are_checked() {
    let texts: Vec<String> =
        (0..1000).map(|row| format!("{}{}", "ab".repeat(row % 97), row * 7919)).collect();
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let values: ArrayRef = Arc::new(StringArray::from(texts.clone()));
    let sparse = texts.iter().enumerate().map(|(row, text)| (row % 3 > 0).then_some(text));
    let sparse: ArrayRef = Arc::new(StringArray::from_iter(sparse));
    let mut lists = ListBuilder::new(StringBuilder::new());
    for (row, text) in texts.iter().enumerate() {
        lists.append_value((0..row % 4).map(|item| (item != 2).then_some(text)));
    }
    let lists: ArrayRef = Arc::new(lists.finish());
    let batch = batch(vec![("k", keys), ("v", values), ("s", sparse), ("l", lists)]);
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let set = WriterProperties::builder()
            .set_writer_version(version)
            .set_dictionary_enabled(false)
            .set_data_page_row_count_limit(300)
            .set_write_batch_size(100)
            .set_column_encoding("v".into(), Encoding::DELTA_BYTE_ARRAY)
            .set_column_encoding("s".into(), Encoding::DELTA_BYTE_ARRAY)
            .set_column_encoding("l.list.element".into(), Encoding::DELTA_BYTE_ARRAY)
            .build();
        let bytes = write(&batch, set);
        let records = read(&bytes, "k", &["v"]).unwrap();
        let expected = texts.iter().enumerate().map(|(row, text)| format!("{row}={text}"));
        assert_eq!(records, expected.collect::<Vec<_>>());
        assert_eq!(read(&bytes, "k", &[]).unwrap().len(), 1000);
    }
    // The first value cannot have a prefix. Its lengths: 128 numbers in a block of 4, 2 numbers.
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["apple", "apply"]));
    let batch = self::batch(vec![("k", keys)]);
    let set = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_column_encoding("k".into(), Encoding::DELTA_BYTE_ARRAY)
        .build();
    let mut bytes = write(&batch, set);
    let at = bytes.windows(5).position(|part| part == [0x80, 1, 4, 2, 0]).unwrap() + 4;
    bytes[at] = 10;
    let error = why(&bytes, "k", &["k"]);
    assert!(
        error.contains("column `k` of the type Utf8: it is damaged: a value begins"),
        "{error}"
    );
    bytes[at] = 9;
    assert!(why(&bytes, "k", &["k"]).contains("a value has a length of -5 bytes"));
}

fn leaf(name: &str, ty: Physical, logical: Option<LogicalType>) -> TypePtr {
    let builder = Type::primitive_type_builder(name, ty).with_repetition(Repetition::REQUIRED);
    Arc::new(builder.with_logical_type(logical).build().unwrap())
}

fn group(name: &str, fields: Vec<TypePtr>) -> TypePtr {
    let builder = Type::group_type_builder(name).with_repetition(Repetition::OPTIONAL);
    Arc::new(builder.with_fields(fields).build().unwrap())
}

/// A value of a leaf column that a test writes, in one row.
enum Value<'a> {
    Bytes(&'a [u8]),
    Long(i64),
    Old(Int96),
}

/// A file of one row of leaf columns. `levels` says whether a column is in an optional group.
fn one_row(fields: Vec<TypePtr>, values: &[(Value, bool)], known: Vec<KeyValue>) -> Vec<u8> {
    let root = Arc::new(Type::group_type_builder("schema").with_fields(fields).build().unwrap());
    let set = WriterProperties::builder().set_key_value_metadata(Some(known)).build();
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, root, Arc::new(set)).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    for (value, is_optional) in values {
        let levels = is_optional.then_some(&[1_i16][..]);
        let mut column = rows.next_column().unwrap().unwrap();
        match value {
            Value::Bytes(bytes) => {
                let values = [ByteArray::from(bytes.to_vec())];
                column.typed::<ByteArrayType>().write_batch(&values, levels, None).unwrap();
            }
            Value::Long(value) => {
                column.typed::<Int64Type>().write_batch(&[*value], levels, None).unwrap();
            }
            Value::Old(value) => {
                column.typed::<Int96Type>().write_batch(&[*value], levels, None).unwrap();
            }
        }
        column.close().unwrap();
    }
    rows.close().unwrap();
    writer.close().unwrap();
    out
}

fn text(name: &str) -> TypePtr {
    leaf(name, Physical::BYTE_ARRAY, Some(LogicalType::String))
}

#[test]
fn groups_without_fields_do_not_move_columns() {
    let id = leaf("id", Physical::INT64, None);
    let nested = group("n", vec![group("e", vec![]), text("x"), group("f", vec![])]);
    let fields = vec![id, group("g", vec![]), text("a"), nested, text("b")];
    let values = [
        (Value::Long(1), false),
        (Value::Bytes(b"a1"), false),
        (Value::Bytes(b"x1"), true),
        (Value::Bytes(b"b1"), false),
    ];
    let bytes = one_row(fields, &values, Vec::new());
    assert_eq!(read(&bytes, "id", &["b"]).unwrap(), ["1=b1"]);
    assert_eq!(read(&bytes, "id", &["a"]).unwrap(), ["1=a1"]);
    assert_eq!(read(&bytes, "b", &["id"]).unwrap(), ["b1=1"]);
    let error = why(&bytes, "id", &[]);
    assert!(error.contains("column `g`: `g` is a group without fields"), "{error}");
    let error = why(&bytes, "id", &["n"]);
    assert!(error.contains("column `n`: `n.e` is a group without fields"), "{error}");
    let error = why(&bytes, "id", &["g"]);
    assert!(error.contains("column `g`: `g` is a group without fields"), "{error}");
}

#[test]
fn types_that_cannot_be_converted_are_refused_only_if_they_are_used() {
    let map = Type::group_type_builder("m")
        .with_repetition(Repetition::REQUIRED)
        .with_converted_type(ConvertedType::MAP)
        .with_fields(vec![text("x")]);
    let fields = vec![text("k"), Arc::new(map.build().unwrap()), text("v")];
    let values = [b"key", b"xyz", b"val"].map(|bytes| (Value::Bytes(bytes), false));
    let bytes = one_row(fields, &values, Vec::new());
    assert_eq!(read(&bytes, "k", &["v"]).unwrap(), ["key=val"]);
    for values in [&[][..], &["m"], &["v", "m"]] {
        let error = why(&bytes, "k", values);
        assert!(error.contains("column `m`: its type is not supported: "), "{error}");
    }
    // Rows have all columns.
    let path = std::env::temp_dir().join(format!("firndb-types-{}.parquet", std::process::id()));
    std::fs::write(&path, &bytes).unwrap();
    let error = Rows::from_path(&path, RowOptions::default()).next_row().unwrap_err();
    assert!(error.to_string().contains("column `m`: its type is not supported: "), "{error}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn texts_are_utf8_whatever_declares_them() {
    let json = leaf("j", Physical::BYTE_ARRAY, Some(LogicalType::Json));
    let bad = one_row(
        vec![text("k"), json.clone()],
        &[(Value::Bytes(b"k"), false), (Value::Bytes(b"\"\xff\""), false)],
        Vec::new(),
    );
    let error = why(&bad, "k", &["j"]);
    assert!(error.contains("column `j` of the type Utf8: ") && error.contains("UTF-8"), "{error}");
    let good = one_row(
        vec![text("k"), json],
        &[(Value::Bytes(b"k"), false), (Value::Bytes(b"{}"), false)],
        Vec::new(),
    );
    assert_eq!(read(&good, "k", &["j"]).unwrap(), ["k={}"]);
    // The Arrow schema of the file says that the bytes are text.
    let columns = ["k", "v"].map(|name| Field::new(name, DataType::Utf8, false));
    let schema = parquet::arrow::encode_arrow_schema(&Schema::new(columns.to_vec()));
    let known = vec![KeyValue::new(ARROW_SCHEMA_META_KEY.to_string(), schema)];
    let fields = || vec![text("k"), leaf("v", Physical::BYTE_ARRAY, None)];
    let values = |value| [(Value::Bytes(b"k"), false), (Value::Bytes(value), false)];
    let bad = one_row(fields(), &values(b"a\xc3"), known.clone());
    let error = why(&bad, "k", &["v"]);
    assert!(error.contains("column `v` of the type Utf8: "), "{error}");
    assert_eq!(read(&one_row(fields(), &values(b"ab"), known), "k", &["v"]).unwrap(), ["k=ab"]);
}

#[test]
fn arrow_schemas_of_other_systems_are_ignored_if_they_do_not_fit() {
    let good = file(6, |set| set);
    let wrong = |value: &str| {
        let value = value.to_string();
        with_metadata(&good, |known, _| {
            known.retain(|entry| entry.key != ARROW_SCHEMA_META_KEY);
            known.push(KeyValue::new(ARROW_SCHEMA_META_KEY.to_string(), value));
        })
    };
    let other = parquet::arrow::encode_arrow_schema(&Schema::new(vec![
        Field::new("x", DataType::Int64, false),
        Field::new("v", DataType::Utf8, false),
    ]));
    for value in ["", "not base64!", "AAAA", &other] {
        assert_eq!(read(&wrong(value), "k", &[]).unwrap(), first_rows(), "{value}");
    }
}

#[test]
fn dictionaries_of_every_type_are_read() {
    let keys = || Int8Array::from(vec![Some(1), None, Some(0)]);
    let prices = Decimal128Array::from(vec![150, 225]).with_precision_and_scale(9, 2).unwrap();
    let arrays: [(ArrayRef, [&str; 2]); 7] = [
        (Arc::new(StringArray::from(vec!["a", "b"])), ["b", "a"]),
        (Arc::new(BinaryArray::from(vec![&b"a"[..], b"b"])), ["b", "a"]),
        (Arc::new(Int64Array::from(vec![7, 8])), ["8", "7"]),
        (Arc::new(prices), ["2.25", "1.50"]),
        (Arc::new(Date32Array::from(vec![0, 1])), ["1970-01-02", "1970-01-01"]),
        (Arc::new(DurationSecondArray::from(vec![1, -2])), ["-PT2S", "PT1S"]),
        (Arc::new(Time64NanosecondArray::from(vec![1, 0])), ["00:00:00", "00:00:00.000000001"]),
    ];
    for (values, [first, last]) in arrays {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let array = DictionaryArray::try_new(keys(), values).unwrap();
        let bytes = write(
            &RecordBatch::try_from_iter_with_nullable([
                ("k", ids, false),
                ("v", Arc::new(array) as ArrayRef, true),
            ])
            .unwrap(),
            WriterProperties::builder().build(),
        );
        let found = read(&bytes, "k", &["v"]).unwrap();
        assert_eq!(found[..2], [format!("1={first}"), format!("3={last}")]);
        assert!(found[2].ends_with("column `v`: there is no value"), "{found:?}");
    }
}

#[test]
fn dictionaries_with_lengths_before_values_of_a_fixed_size_are_refused() {
    let values = FixedSizeBinaryArray::try_from_iter([b"ab", b"cd"].into_iter()).unwrap();
    let plain: ArrayRef = Arc::new(values.clone());
    let properties = || WriterProperties::builder().build();
    let bytes = write(&batch(vec![("k", plain.clone()), ("v", plain)]), properties());
    assert_eq!(read(&bytes, "k", &["v"]).unwrap(), ["ab=ab", "cd=cd"]);
    let keys = Int8Array::from(vec![0, 1]);
    let array: ArrayRef = Arc::new(DictionaryArray::try_new(keys, Arc::new(values)).unwrap());
    let batch = batch(vec![("k", array)]);
    let error = why(&write(&batch, properties()), "k", &["k"]);
    assert!(error.contains("its dictionary has 12 bytes for 2 values of 2 bytes"), "{error}");
    let refused = BatchWriter::new(Vec::new(), Format::Parquet, &batch.schema()).map(drop);
    assert!(refused.unwrap_err().to_string().contains("column `k`: the type Dictionary"));
}

#[test]
fn brotli_is_read() {
    let brotli = Compression::BROTLI(BrotliLevel::default());
    assert_eq!(read(&file(6, |set| set.set_compression(brotli)), "k", &[]).unwrap(), first_rows());
}

#[test]
fn old_timestamps_keep_all_digits_or_are_refused() {
    let time = |day: u32, nanos: u64| {
        let mut value = Int96::new();
        value.set_data(nanos as u32, (nanos >> 32) as u32, day);
        let fields = vec![text("k"), leaf("t", Physical::INT96, None)];
        one_row(fields, &[(Value::Bytes(b"k"), false), (Value::Old(value), false)], Vec::new())
    };
    let epoch = 2_440_588;
    let read_time = |bytes: &[u8]| read(bytes, "k", &["t"]);
    assert_eq!(read_time(&time(epoch, 1_000)).unwrap(), ["k=1970-01-01T00:00:00.000001"]);
    assert_eq!(read_time(&time(epoch + 2_932_896, 0)).unwrap(), ["k=9999-12-31T00:00:00"]);
    let error = read_time(&time(epoch, 1_001)).unwrap_err();
    assert!(error.contains("column `t` of the type ") && error.contains("nanoseconds"), "{error}");
    assert!(read_time(&time(u32::MAX, 0)).unwrap_err().contains("out of range: day 4294967295"));
    // A group without fields, too.
    let mut value = Int96::new();
    value.set_data(0, 0, epoch);
    let fields = vec![group("g", vec![]), text("k"), leaf("t", Physical::INT96, None)];
    let values = [(Value::Bytes(b"k"), false), (Value::Old(value), false)];
    let bytes = one_row(fields, &values, Vec::new());
    assert_eq!(read_time(&bytes).unwrap(), ["k=1970-01-01T00:00:00"]);
}

#[test]
fn damaged_values_name_their_column() {
    let a: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let b: ArrayRef = Arc::new(BinaryArray::from(vec![&b"0123456789"[..]]));
    let inner = StructArray::try_from(vec![("c", b)]).unwrap();
    let plain = WriterProperties::builder().set_dictionary_enabled(false).build();
    let mut bytes = write(&batch(vec![("a", a), ("s", Arc::new(inner))]), plain);
    let at = bytes.windows(6).position(|part| part == b"\0\0\x0001\x32").unwrap();
    bytes[at] = 0x7f;
    let error = why(&bytes, "a", &["s"]);
    assert!(error.contains("column `s` of the type Struct"), "{error}");
}
