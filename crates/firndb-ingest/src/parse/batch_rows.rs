//! Rows of record batches. Structs and maps become columns named `outer.inner`, as objects of JSON
//! lines do; lists of scalars become lists, and other lists JSON.

use crate::parse::columnar::Batches;
use crate::parse::json_lines::number;
use crate::row::{BadRow, Position, RawValue, ReadRows, Row, RowResult};
use arrow_array::cast::AsArray;
use arrow_array::types as t;
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch};
use arrow_schema::{DataType, Field, TimeUnit};
use firndb::Result;
use firndb::search::timestamp_to_text;
use firndb_arrow::avro::Decoder;
use firndb_arrow::column::{avro_type, encoder};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Rows that are converted at a time.
pub(crate) const BATCH_ROWS: usize = 1024;

/// Reads the rows of one input.
pub(crate) struct BatchRows {
    batches: Batches,
    file: Arc<str>,
    /// The batch, and its next row that was not converted.
    batch: Option<(RecordBatch, usize)>,
    ready: VecDeque<RowResult>,
    rows: u64,
}

/// Appends the cells of a row of a column. The error is the column and the reason.
type Push<'a> = Box<dyn Fn(usize, &mut Vec<Cell>) -> std::result::Result<(), Wrong> + 'a>;
type Cell = (Arc<str>, RawValue);
type Wrong = (String, String);

/// The value of a row of a column, which is not null; the error is the reason.
type Get<'a> = Box<dyn Fn(usize) -> std::result::Result<RawValue, String> + 'a>;

impl BatchRows {
    pub(crate) fn new(batches: Batches, file: Arc<str>) -> BatchRows {
        BatchRows { batches, file, batch: None, ready: VecDeque::new(), rows: 0 }
    }

    /// Converts the next rows; false at the end.
    fn convert(&mut self) -> Result<bool> {
        let (batch, from) = match self.batch.take() {
            Some(batch) => batch,
            None => match self.batches.next() {
                Some(batch) => (batch?, 0),
                None => return Ok(false),
            },
        };
        let rows = batch.slice(from, BATCH_ROWS.min(batch.num_rows() - from));
        let (schema, file) = (rows.schema(), &self.file);
        let columns = rows.columns().iter().zip(schema.fields());
        let columns = columns.map(|(array, field)| push(field.name(), array.as_ref()));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>();
        let columns = columns.map_err(|(column, reason)| {
            firndb::Error::invalid(format!("{file}: column `{column}`: {reason}"))
        })?;
        for row in 0..rows.num_rows() {
            self.rows += 1;
            let position = Position { file: file.clone(), line: self.rows };
            let mut cells = Vec::with_capacity(columns.len());
            let pushed = columns.iter().try_for_each(|push| push(row, &mut cells));
            self.ready.push_back(match pushed {
                Ok(()) => Ok(Row { position, cells, json: None }),
                Err((column, reason)) => Err(BadRow { position, column: Some(column), reason }),
            });
        }
        let next = from + rows.num_rows();
        drop(columns);
        self.batch = (next < batch.num_rows()).then_some((batch, next));
        Ok(true)
    }
}

impl ReadRows for BatchRows {
    fn next_row(&mut self) -> Result<Option<RowResult>> {
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Ok(Some(row));
            }
            if !self.convert()? {
                return Ok(None);
            }
        }
    }
}

fn push<'a>(name: &str, array: &'a dyn Array) -> std::result::Result<Push<'a>, Wrong> {
    let nulls = array.logical_nulls();
    let is_null = move |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    match array.data_type() {
        DataType::Struct(fields) => {
            let values = array.as_struct().columns().iter().zip(fields);
            let columns = values.map(|(array, field)| push(&inner(name, field.name()), array));
            let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
            Ok(Box::new(move |row, cells| match is_null(row) {
                true => Ok(()),
                false => columns.iter().try_for_each(|push| push(row, cells)),
            }))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let fail = |reason: String| (name.to_string(), reason);
            let keys = get(map.keys().as_ref()).map_err(fail)?;
            let values = get(map.values().as_ref()).map_err(fail)?;
            let (nulls, name) = (map.values().logical_nulls(), name.to_string());
            Ok(Box::new(move |row, cells| {
                let range =
                    map.value_offsets()[row] as usize..map.value_offsets()[row + 1] as usize;
                for item in range.filter(|_| !is_null(row)) {
                    let fail = |reason: String| (name.clone(), reason);
                    let RawValue::Str(key) = keys(item).map_err(fail)? else {
                        return Err(fail("the keys of a map must be texts".to_string()));
                    };
                    let value = match nulls.as_ref().is_some_and(|nulls| nulls.is_null(item)) {
                        true => RawValue::Missing,
                        false => values(item).map_err(fail)?,
                    };
                    cells.push((inner(&name, &key).into(), value));
                }
                Ok(())
            }))
        }
        _ => {
            let name: Arc<str> = name.into();
            let get = get(array).map_err(|reason| (name.to_string(), reason))?;
            Ok(Box::new(move |row, cells| {
                let value = match is_null(row) {
                    true => RawValue::Missing,
                    false => get(row).map_err(|reason| (name.to_string(), reason))?,
                };
                cells.push((name.clone(), value));
                Ok(())
            }))
        }
    }
}

/// The name of a member of a struct or a map.
fn inner(outer: &str, inner: &str) -> String {
    format!("{outer}.{inner}")
}

fn get<'a>(array: &'a dyn Array) -> std::result::Result<Get<'a>, String> {
    macro_rules! of {
        ($values:expr, $value:ident => $made:expr) => {{
            let values = $values;
            Box::new(move |row| {
                let $value = values.value(row);
                Ok($made)
            })
        }};
    }
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_| Ok(RawValue::Missing)),
        DataType::Boolean => of!(array.as_boolean(), v => RawValue::Bool(v)),
        DataType::Utf8 => of!(array.as_string::<i32>(), v => RawValue::Str(v.into())),
        DataType::LargeUtf8 => of!(array.as_string::<i64>(), v => RawValue::Str(v.into())),
        DataType::Utf8View => of!(array.as_string_view(), v => RawValue::Str(v.into())),
        DataType::Binary => of!(array.as_binary::<i32>(), v => RawValue::Bytes(v.into())),
        DataType::LargeBinary => of!(array.as_binary::<i64>(), v => RawValue::Bytes(v.into())),
        DataType::BinaryView => of!(array.as_binary_view(), v => RawValue::Bytes(v.into())),
        DataType::FixedSizeBinary(_) => {
            of!(array.as_fixed_size_binary(), v => RawValue::Bytes(v.into()))
        }
        DataType::Float16 => float::<t::Float16Type>(array, |v| v.to_f64()),
        DataType::Float32 => float::<t::Float32Type>(array, f64::from),
        DataType::Float64 => float::<t::Float64Type>(array, |v| v),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                return Ok(Box::new(|_| Err("a dictionary is empty".to_string())));
            }
            let (keys, get) = (dictionary.normalized_keys(), get(dictionary.values().as_ref())?);
            Box::new(move |row| get(keys[row]))
        }
        ty if has_nested(ty) => nested(array)?,
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.value_offsets();
            list(lists.values(), |row| offsets[row] as usize..offsets[row + 1] as usize)?
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let offsets = lists.value_offsets();
            list(lists.values(), |row| offsets[row] as usize..offsets[row + 1] as usize)?
        }
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            list(array.as_fixed_size_list().values(), move |row| row * size..(row + 1) * size)?
        }
        ty if ty.is_temporal() => temporal(array)?,
        _ => numbers(array)?,
    })
}

/// Whether values of a type are more than scalars and lists of scalars.
fn has_nested(ty: &DataType) -> bool {
    match ty {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().is_nested()
        }
        DataType::Struct(_) | DataType::Map(..) => true,
        _ => false,
    }
}

/// Values that no field can hold, as JSON.
fn nested<'a>(array: &'a dyn Array) -> std::result::Result<Get<'a>, String> {
    let ty = array.data_type();
    let column = Field::new("item", ty.clone(), true);
    let avro = avro_type(&column, "Row", &mut vec!["Row".to_string()]);
    let avro = avro.map_err(|_| format!("a field cannot hold the type {ty}"))?;
    let (decoder, write) = (Decoder::new(&avro.to_json().to_string())?, encoder(array, true)?);
    Ok(Box::new(move |row| {
        let mut bytes = Vec::new();
        write(row, &mut bytes)?;
        decoder.json(&bytes).map(|json| RawValue::Nested(json.to_string()))
    }))
}

fn float<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    convert: impl Fn(T::Native) -> f64 + 'a,
) -> Get<'a> {
    let values = array.as_primitive::<T>();
    Box::new(move |row| match convert(values.value(row)) {
        value if value.is_nan() => Ok(RawValue::Missing),
        value => Ok(RawValue::Float(value)),
    })
}

fn list<'a>(
    items: &'a dyn Array,
    range: impl Fn(usize) -> Range<usize> + 'a,
) -> std::result::Result<Get<'a>, String> {
    let (get, nulls) = (get(items)?, items.logical_nulls());
    let is_null = move |item| nulls.as_ref().is_some_and(|nulls| nulls.is_null(item));
    Ok(Box::new(move |row| {
        let items = range(row).filter(|item| !is_null(*item)).map(&get);
        Ok(RawValue::List(items.collect::<std::result::Result<_, _>>()?))
    }))
}

/// A decimal as a number, if that keeps all of its digits.
fn decimal(text: String) -> std::result::Result<RawValue, String> {
    let parsed = text.parse::<serde_json::Number>();
    let parsed = parsed.map_err(|e| format!("the decimal {text}: {e}"))?;
    Ok(match number(&parsed) {
        RawValue::Float(value) => {
            let digits = match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.'),
                false => &text,
            };
            match value.to_string() == digits {
                true => RawValue::Float(value),
                false => RawValue::Large(text),
            }
        }
        value => value,
    })
}

fn numbers<'a>(array: &'a dyn Array) -> std::result::Result<Get<'a>, String> {
    macro_rules! int {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>();
            Box::new(move |row| Ok(RawValue::Int(values.value(row).into())))
        }};
    }
    macro_rules! decimal {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>();
            Box::new(move |row| decimal(values.value_as_string(row)))
        }};
    }
    Ok(match array.data_type() {
        DataType::Int8 => int!(t::Int8Type),
        DataType::Int16 => int!(t::Int16Type),
        DataType::Int32 => int!(t::Int32Type),
        DataType::Int64 => int!(t::Int64Type),
        DataType::UInt8 => int!(t::UInt8Type),
        DataType::UInt16 => int!(t::UInt16Type),
        DataType::UInt32 => int!(t::UInt32Type),
        DataType::UInt64 => {
            let values = array.as_primitive::<t::UInt64Type>();
            Box::new(move |row| {
                let value = values.value(row);
                Ok(i64::try_from(value).map_or(RawValue::Uint(value), RawValue::Int))
            })
        }
        DataType::Decimal32(..) => decimal!(t::Decimal32Type),
        DataType::Decimal64(..) => decimal!(t::Decimal64Type),
        DataType::Decimal128(..) => decimal!(t::Decimal128Type),
        DataType::Decimal256(..) => decimal!(t::Decimal256Type),
        other => return Err(format!("a field cannot hold the type {other}")),
    })
}

/// Dates and timestamps as RFC 3339, times of day and durations as numbers in their own unit.
fn temporal<'a>(array: &'a dyn Array) -> std::result::Result<Get<'a>, String> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    macro_rules! time {
        ($type:ty, $per_second:expr) => {{
            let values = array.as_primitive::<$type>();
            Box::new(move |row| timestamp(values.value(row), $per_second))
        }};
    }
    macro_rules! int {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>();
            Box::new(move |row| Ok(RawValue::Int(values.value(row).into())))
        }};
    }
    Ok(match array.data_type() {
        DataType::Date32 => {
            let values = array.as_primitive::<t::Date32Type>();
            Box::new(move |row| timestamp(i64::from(values.value(row)) * 86_400, 1))
        }
        DataType::Date64 => time!(t::Date64Type, 1_000),
        DataType::Timestamp(Second, _) => time!(t::TimestampSecondType, 1),
        DataType::Timestamp(Millisecond, _) => time!(t::TimestampMillisecondType, 1_000),
        DataType::Timestamp(Microsecond, _) => time!(t::TimestampMicrosecondType, 1_000_000),
        DataType::Timestamp(Nanosecond, _) => time!(t::TimestampNanosecondType, 1_000_000_000),
        DataType::Time32(Second) => int!(t::Time32SecondType),
        DataType::Time32(_) => int!(t::Time32MillisecondType),
        DataType::Time64(Microsecond) => int!(t::Time64MicrosecondType),
        DataType::Time64(_) => int!(t::Time64NanosecondType),
        DataType::Duration(Second) => int!(t::DurationSecondType),
        DataType::Duration(Millisecond) => int!(t::DurationMillisecondType),
        DataType::Duration(Microsecond) => int!(t::DurationMicrosecondType),
        DataType::Duration(Nanosecond) => int!(t::DurationNanosecondType),
        other => return Err(format!("a field cannot hold the type {other}")),
    })
}

/// A time since 1970 as RFC 3339 in UTC. Fields of timestamps have microseconds.
fn timestamp(value: i64, per_second: i64) -> std::result::Result<RawValue, String> {
    let micros = match per_second {
        1_000_000_000 if value % 1_000 != 0 => {
            return Err(format!(
                "the timestamp {value} has nanoseconds, and a field of timestamps microseconds"
            ));
        }
        1_000_000_000 => Some(value / 1_000),
        per_second => value.checked_mul(1_000_000 / per_second),
    };
    let micros = micros.ok_or_else(|| format!("the timestamp {value} is out of range"))?;
    Ok(RawValue::Str(timestamp_to_text(micros)))
}

#[cfg(test)]
mod tests {
    use super::decimal;
    use crate::write::BatchWriter;
    use crate::{Format, RawValue, Row, RowOptions, Rows, infer};
    use arrow_array::builder::{ListBuilder, StringDictionaryBuilder};
    use arrow_array::types::Int32Type;
    use arrow_array::{
        Array, ArrayRef, BinaryArray, Decimal128Array, Float32Array, Int64Array, ListArray,
        RecordBatch, StructArray, TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
    };
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;
    use firndb::search::Type;
    use std::sync::Arc;

    fn batch() -> RecordBatch {
        let mut list = ListBuilder::new(arrow_array::builder::Int64Builder::new());
        list.append_value([Some(1), None, Some(2)]);
        list.append_null();
        let mut texts = StringDictionaryBuilder::<Int32Type>::new();
        texts.extend([Some("a"), None]);
        let x: ArrayRef = Arc::new(Float32Array::from(vec![0.5, f32::NAN]));
        let point = StructArray::try_from(vec![("x", x)]).unwrap();
        let price = Decimal128Array::from(vec![1234, -5]).with_precision_and_scale(9, 2).unwrap();
        let seen = TimestampMicrosecondArray::from(vec![1_500_000, 0]).with_timezone("UTC");
        let columns: [(&str, ArrayRef); 7] = [
            ("id", Arc::new(Int64Array::from(vec![7, 8]))),
            ("list", Arc::new(list.finish())),
            ("text", Arc::new(texts.finish())),
            ("point", Arc::new(point)),
            ("price", Arc::new(price)),
            ("seen", Arc::new(seen)),
            ("bytes", Arc::new(BinaryArray::from(vec![&b"\xff"[..], b""]))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
            .unwrap()
    }

    fn rows(format: Format, batch: &RecordBatch) -> Vec<Row> {
        let name = format!("firndb-rows-{}.{}", std::process::id(), format.name());
        let path = std::env::temp_dir().join(name);
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = BatchWriter::new(file, format, &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
        let rows = Rows::from_path(&path, RowOptions::default());
        let rows = rows.map(|row| row.unwrap().unwrap()).collect();
        std::fs::remove_file(path).unwrap();
        rows
    }

    #[test]
    fn rows_of_every_format_with_types_are_the_same() {
        for format in [Format::Parquet, Format::Arrow, Format::Avro] {
            let rows = rows(format, &batch());
            let expected = [
                ("id", RawValue::Int(7)),
                ("list", RawValue::List(vec![RawValue::Int(1), RawValue::Int(2)])),
                ("text", RawValue::Str("a".into())),
                ("point.x", RawValue::Float(0.5)),
                ("price", RawValue::Float(12.34)),
                ("seen", RawValue::Str("1970-01-01T00:00:01.5Z".into())),
                ("bytes", RawValue::Bytes(vec![0xff])),
            ];
            let cells = rows[0].cells.iter().map(|(name, value)| (&**name, value.clone()));
            assert_eq!(cells.collect::<Vec<_>>(), expected, "{format:?}");
            let missing = ["list", "text", "point.x"];
            assert!(missing.iter().all(|name| rows[1].get(name) == Some(&RawValue::Missing)));
            assert_eq!(rows[1].position.line, 2);
            let schema = infer(rows.iter(), &[], true).unwrap();
            let types: Vec<Type> = schema.fields().iter().map(|field| field.ty).collect();
            let (int, float, time) = (Type::I64, Type::F64, Type::Timestamp);
            let all = [int, int, Type::String, float, float, time, Type::Bytes];
            assert_eq!(types, all, "{format:?}");
        }
    }

    #[test]
    fn decimals_keep_all_digits() {
        let of = |text: &str| decimal(text.to_string()).unwrap();
        for (text, value) in [("12.340", 12.34), ("0.00", 0.0), ("-0.05", -0.05), ("100.0", 100.0)]
        {
            assert_eq!(of(text), RawValue::Float(value), "{text}");
        }
        assert_eq!(of("100"), RawValue::Int(100));
        for text in ["1234567890123456789.12", "0.12345678901234567890", "123456789012345678901"] {
            assert_eq!(of(text), RawValue::Large(text.to_string()), "{text}");
        }
    }

    #[test]
    fn nested_lists_are_json() {
        let inner: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let structs = StructArray::try_from(vec![("x", inner)]).unwrap();
        let item = Arc::new(Field::new("item", structs.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([2, 0]);
        let lists = ListArray::new(item, offsets, Arc::new(structs), None);
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
        let batch = RecordBatch::try_from_iter([("id", ids), ("l", Arc::new(lists) as ArrayRef)]);
        let rows = rows(Format::Parquet, &batch.unwrap());
        assert_eq!(rows[0].get("l"), Some(&RawValue::Nested(r#"[{"x":1},{"x":2}]"#.into())));
        assert_eq!(rows[1].get("l"), Some(&RawValue::Nested("[]".into())));
        let schema = infer(rows.iter(), &[], true).unwrap();
        assert_eq!(schema.fields().len(), 1);
    }

    #[test]
    fn values_that_a_field_would_not_keep_are_refused() {
        let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_000, 1_001]));
        let large: ArrayRef = Arc::new(UInt64Array::from(vec![1, u64::MAX]));
        let batch = RecordBatch::try_from_iter([("t", nanos), ("u", large)]).unwrap();
        let mut writer = BatchWriter::new(Vec::new(), Format::Arrow, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        let bytes = std::io::Cursor::new(writer.finish().unwrap());
        let mut rows = Rows::from_reader("a.arrow", bytes, RowOptions::default());
        let first = rows.next_row().unwrap().unwrap().unwrap();
        assert_eq!(first.get("u"), Some(&RawValue::Int(1)));
        let second = rows.next_row().unwrap().unwrap().unwrap_err().to_string();
        assert!(second.starts_with("a.arrow:2: column `t`: the timestamp 1001 has"), "{second}");
        assert!(rows.next_row().unwrap().is_none());
    }
}
