//! Decodes rows in Avro's binary encoding into the columns of record batches.

use crate::avro::{MAX_DEPTH, MAX_EMPTY_ITEMS, Reader, Record, Type, Unit, named_types};
use crate::column::Result;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Decimal256Type, DecimalType,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float32Type, Float64Type, Int32Type, Int64Type, Time32MillisecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, ListArray, MapArray, NullArray, PrimitiveArray,
    RecordBatch, RecordBatchOptions, StringArray, StructArray,
};
use arrow_buffer::{NullBuffer, NullBufferBuilder, OffsetBuffer, i256};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of columns of a schema, with nested ones. References to types are followed, so a
/// short schema can stand for many columns.
const MAX_COLUMNS: usize = 10_000;

/// Decodes rows of an Avro record type, and returns them as record batches.
///
/// Enums become strings, fixed types binary values, decimals up to 76 digits decimals, and
/// [`Type::any`] JSON text. A union must be of one type, or of one type and null.
///
/// ```
/// use firndb_arrow::avro::Type;
/// use firndb_arrow::column::RowDecoder;
///
/// let schema = r#"{"type": "record", "name": "test", "fields": [
///     {"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}]}"#;
/// let mut rows = RowDecoder::new(&Type::parse(schema)?)?;
/// let rest = rows.decode(&[0x36, 0x02, 0x06, b'f', b'o', b'o', 0x02, 0x00])?;
/// assert!(rows.decode(rest)?.is_empty());
/// let batch = rows.finish()?;
/// assert_eq!((batch.num_rows(), batch.column(1).null_count()), (2, 1));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct RowDecoder {
    schema: SchemaRef,
    named: HashMap<String, Type>,
    columns: Vec<Column>,
    rows: usize,
    size: usize,
}

impl RowDecoder {
    /// A decoder of rows of this type.
    ///
    /// # Errors
    ///
    /// The reason, if the type is not a record, or a field cannot be a column: its type refers to
    /// itself, or is a union of several types.
    pub fn new(ty: &Type) -> Result<RowDecoder> {
        let Type::Record(record) = ty else {
            return Err("the schema is not a record, so there are no columns".to_string());
        };
        let named = named_types(ty);
        let mut builder = ColumnBuilder { named: &named, open: Vec::new(), left: MAX_COLUMNS };
        let (fields, columns) = builder.record(record)?;
        Ok(RowDecoder { schema: Arc::new(Schema::new(fields)), named, columns, rows: 0, size: 0 })
    }

    /// Makes all columns nullable, for [`RowDecoder::push_null`].
    pub fn nullable(mut self) -> RowDecoder {
        let nullable = |field: &Arc<Field>| Arc::new(Field::clone(field).with_nullable(true));
        let fields: Fields = self.schema.fields().iter().map(nullable).collect();
        self.schema = Arc::new(Schema::new(fields));
        self
    }

    /// Adds a row in which all columns are null. Only a [`RowDecoder::nullable`] decoder can finish
    /// a batch with such a row.
    ///
    /// ```
    /// use firndb_arrow::avro::Type;
    /// use firndb_arrow::column::RowDecoder;
    ///
    /// let schema = r#"{"type": "record", "name": "test", "fields": [
    ///     {"name": "a", "type": "long"}]}"#;
    /// let mut rows = RowDecoder::new(&Type::parse(schema)?)?.nullable();
    /// rows.decode(&[0x36])?;
    /// rows.push_null();
    /// let batch = rows.finish()?;
    /// assert_eq!((batch.num_rows(), batch.column(0).null_count()), (2, 1));
    /// # Ok::<(), String>(())
    /// ```
    pub fn push_null(&mut self) {
        self.columns.iter_mut().for_each(Column::push_null);
        self.size += 8 * self.columns.len();
        self.rows += 1;
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Number of rows since the last batch.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows since the last batch.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// About how many bytes the rows take since the last batch.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Decodes the row that `bytes` starts with. Returns the bytes after it.
    ///
    /// # Errors
    ///
    /// The reason, if the bytes do not start with a row. The columns then have different lengths,
    /// and the decoder cannot be used any more.
    pub fn decode<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8]> {
        let mut reader = Reader::new(bytes, &self.named);
        for (column, field) in self.columns.iter_mut().zip(self.schema.fields()) {
            column
                .decode(&mut reader)
                .map_err(|why| format!("column `{}`: {why}", field.name()))?;
        }
        let empty = MAX_EMPTY_ITEMS - reader.empty_left;
        let used = bytes.len() - reader.rest.len();
        self.size += used + 8 * (empty + self.columns.len());
        self.rows += 1;
        Ok(&bytes[used..])
    }

    /// The rows since the last batch.
    ///
    /// # Errors
    ///
    /// The reason, after a failed [`RowDecoder::decode`].
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let columns = self.columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.size) = (0, 0);
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|e| e.to_string())
    }
}

/// A column that is being built.
#[derive(Debug)]
struct Column {
    union: Option<Union>,
    validity: NullBufferBuilder,
    values: Values,
}

/// The numbers of the types of a union.
#[derive(Debug)]
struct Union {
    null: Option<i64>,
    value: i64,
}

/// The values of a column. Those of nulls are zero or empty.
#[derive(Debug)]
enum Values {
    Null(usize),
    Boolean(Vec<bool>),
    Int(Vec<i32>, DataType),
    Long(Vec<i64>, DataType),
    Float(Vec<f32>),
    Double(Vec<f64>),
    /// Decimals and binary values have a fixed size in bytes, or a length before each.
    Decimal128(Vec<i128>, DataType, Option<usize>),
    Decimal256(Vec<i256>, DataType, Option<usize>),
    Binary(Bytes, Option<usize>),
    Text(Bytes),
    Enum(Bytes, Vec<String>),
    /// Any JSON value, as its text.
    Json(Bytes, Type),
    List(Vec<i32>, Arc<Field>, Box<Column>),
    Map(Vec<i32>, Arc<Field>, Bytes, Box<Column>),
    Record(usize, Fields, Vec<Column>),
}

/// Strings or binary values.
#[derive(Debug)]
struct Bytes {
    data: Vec<u8>,
    ends: Vec<i32>,
}

/// Makes the columns of a schema.
struct ColumnBuilder<'a> {
    named: &'a HashMap<String, Type>,
    /// Names of the records that enclose the current type.
    open: Vec<&'a str>,
    /// Columns that may still follow.
    left: usize,
}

impl<'a> ColumnBuilder<'a> {
    fn record(&mut self, record: &'a Record) -> Result<(Fields, Vec<Column>)> {
        if self.open.contains(&record.name.as_str()) {
            return Err(format!("the type `{}` contains itself", record.name));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err("the schema is nested too deeply".to_string());
        }
        self.open.push(&record.name);
        let mut fields: Vec<Field> = Vec::with_capacity(record.fields.len());
        let mut columns = Vec::with_capacity(record.fields.len());
        for field in &record.fields {
            let made = self.column(&field.column, &field.ty);
            let (made, column) = made.map_err(|why| match why.strip_prefix("column `") {
                Some(inner) => format!("column `{}.{inner}", field.column),
                None => format!("column `{}`: {why}", field.column),
            })?;
            fields.push(made);
            columns.push(column);
        }
        self.open.pop();
        Ok((fields.into(), columns))
    }

    fn column(&mut self, name: &str, ty: &'a Type) -> Result<(Field, Column)> {
        self.left = self.left.checked_sub(1).ok_or("the schema has too many columns")?;
        let (ty, union) = match ty {
            Type::Union(types) => {
                let null = types.iter().position(|ty| *ty == Type::Null);
                let mut others = types.iter().enumerate().filter(|(_, ty)| **ty != Type::Null);
                match (null, others.next(), others.next()) {
                    (null, Some((value, ty)), None) => {
                        let null = null.map(|null| null as i64);
                        (ty, Some(Union { null, value: value as i64 }))
                    }
                    (Some(null), None, None) => {
                        (&Type::Null, Some(Union { null: None, value: null as i64 }))
                    }
                    _ => return Err("its type is a union of several types".to_string()),
                }
            }
            ty => (ty, None),
        };
        let values = self.values(ty)?;
        let nullable = union.as_ref().is_some_and(|u| u.null.is_some()) || *ty == Type::Null;
        let field = Field::new(name, values.data_type(), nullable);
        Ok((field, Column { union, validity: NullBufferBuilder::new(0), values }))
    }

    fn values(&mut self, ty: &'a Type) -> Result<Values> {
        Ok(match ty {
            ty if ty.is_any() => Values::Json(Bytes::new(), ty.clone()),
            Type::Null => Values::Null(0),
            Type::Boolean => Values::Boolean(Vec::new()),
            Type::Int => Values::Int(Vec::new(), DataType::Int32),
            Type::Date => Values::Int(Vec::new(), DataType::Date32),
            Type::TimeMillis => Values::Int(Vec::new(), DataType::Time32(TimeUnit::Millisecond)),
            Type::Long => Values::Long(Vec::new(), DataType::Int64),
            Type::TimeMicros => Values::Long(Vec::new(), DataType::Time64(TimeUnit::Microsecond)),
            Type::TimeNanos => Values::Long(Vec::new(), DataType::Time64(TimeUnit::Nanosecond)),
            Type::Duration(unit) => Values::Long(Vec::new(), DataType::Duration(time_unit(*unit))),
            Type::Timestamp { unit, local } => {
                let zone = (!local).then(|| "UTC".into());
                Values::Long(Vec::new(), DataType::Timestamp(time_unit(*unit), zone))
            }
            Type::Float => Values::Float(Vec::new()),
            Type::Double => Values::Double(Vec::new()),
            Type::Decimal { precision, scale } => decimals(*precision, *scale, None)?,
            Type::Fixed { size, decimal: Some((precision, scale)), .. } => {
                decimals(*precision, *scale, Some(*size))?
            }
            Type::Bytes => Values::Binary(Bytes::new(), None),
            Type::Fixed { size, decimal: None, .. } => Values::Binary(Bytes::new(), Some(*size)),
            Type::String => Values::Text(Bytes::new()),
            Type::Enum { symbols, .. } => Values::Enum(Bytes::new(), symbols.clone()),
            Type::Array(items) => {
                let (field, items) = self.column("item", items)?;
                Values::List(vec![0], Arc::new(field), Box::new(items))
            }
            Type::Map(values) => {
                let (field, values) = self.column("value", values)?;
                let pair = Fields::from(vec![Field::new("key", DataType::Utf8, false), field]);
                let entries = Field::new("entries", DataType::Struct(pair), false);
                Values::Map(vec![0], Arc::new(entries), Bytes::new(), Box::new(values))
            }
            Type::Record(record) => {
                let (fields, columns) = self.record(record)?;
                Values::Record(0, fields, columns)
            }
            Type::Named(name) => {
                let ty = self.named.get(name).ok_or_else(|| format!("there is no type {name}"))?;
                self.values(ty)?
            }
            Type::Union(_) => return Err("a union directly in a union".to_string()),
        })
    }
}

fn time_unit(unit: Unit) -> TimeUnit {
    match unit {
        Unit::Seconds => TimeUnit::Second,
        Unit::Millis => TimeUnit::Millisecond,
        Unit::Micros => TimeUnit::Microsecond,
        Unit::Nanos => TimeUnit::Nanosecond,
    }
}

fn decimals(precision: u32, scale: u32, size: Option<usize>) -> Result<Values> {
    let scale = i8::try_from(scale).ok().filter(|_| scale <= precision);
    Ok(match (u8::try_from(precision), scale) {
        (Ok(digits @ 1..=38), Some(scale)) => {
            Values::Decimal128(Vec::new(), DataType::Decimal128(digits, scale), size)
        }
        (Ok(digits @ 39..=76), Some(scale)) => {
            Values::Decimal256(Vec::new(), DataType::Decimal256(digits, scale), size)
        }
        _ => return Err("a decimal must have 1 to 76 digits, all of the scale among them".into()),
    })
}

impl Column {
    fn decode(&mut self, reader: &mut Reader) -> Result<()> {
        if let Some(union) = &self.union {
            match reader.long()? {
                number if number == union.value => {}
                number if Some(number) == union.null => {
                    self.push_null();
                    return Ok(());
                }
                number => return Err(format!("a union has no type {number}")),
            }
        }
        self.validity.append_non_null();
        self.values.decode(reader)
    }

    fn push_null(&mut self) {
        self.validity.append_null();
        self.values.push_default();
    }

    /// Adds a value that a null parent hides.
    fn push_hidden(&mut self) {
        match &self.union {
            Some(Union { null: Some(_), .. }) => self.push_null(),
            _ => {
                self.validity.append_non_null();
                self.values.push_default();
            }
        }
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let nulls = self.validity.finish();
        self.values.finish(nulls)
    }
}

impl Values {
    fn data_type(&self) -> DataType {
        match self {
            Values::Null(_) => DataType::Null,
            Values::Boolean(_) => DataType::Boolean,
            Values::Int(_, ty) | Values::Long(_, ty) => ty.clone(),
            Values::Decimal128(_, ty, _) | Values::Decimal256(_, ty, _) => ty.clone(),
            Values::Float(_) => DataType::Float32,
            Values::Double(_) => DataType::Float64,
            Values::Binary(..) => DataType::Binary,
            Values::Text(_) | Values::Enum(..) | Values::Json(..) => DataType::Utf8,
            Values::List(_, item, _) => DataType::List(item.clone()),
            Values::Map(_, entries, ..) => DataType::Map(entries.clone(), false),
            Values::Record(_, fields, _) => DataType::Struct(fields.clone()),
        }
    }

    fn decode(&mut self, reader: &mut Reader) -> Result<()> {
        match self {
            Values::Null(len) => *len += 1,
            Values::Boolean(values) => values.push(reader.boolean()?),
            Values::Int(values, _) => values.push(reader.int()?),
            Values::Long(values, _) => values.push(reader.long()?),
            Values::Float(values) => values.push(f32::from_le_bytes(reader.array()?)),
            Values::Double(values) => values.push(f64::from_le_bytes(reader.array()?)),
            Values::Decimal128(values, ty, size) => {
                let value = unscaled::<16>(sized(reader, *size)?).map(i128::from_be_bytes);
                values.push(value.filter(|v| fits_128(*v, ty)).ok_or_else(too_many_digits)?);
            }
            Values::Decimal256(values, ty, size) => {
                let value = unscaled::<32>(sized(reader, *size)?).map(i256::from_be_bytes);
                values.push(value.filter(|v| fits_256(*v, ty)).ok_or_else(too_many_digits)?);
            }
            Values::Binary(values, size) => values.push(sized(reader, *size)?)?,
            Values::Text(values) => values.push(reader.text()?.as_bytes())?,
            Values::Enum(values, symbols) => {
                values.push(reader.symbol(symbols)?.as_bytes())?;
            }
            Values::Json(values, ty) => {
                let json = reader.value(ty, 0)?;
                values.push(json.to_string().as_bytes())?;
            }
            Values::List(ends, _, items) => {
                let len = items_of(reader, |reader| items.decode(reader))?;
                push_end(ends, len)?;
            }
            Values::Map(ends, _, keys, values) => {
                let len = items_of(reader, |reader| {
                    keys.push(reader.text()?.as_bytes())?;
                    values.decode(reader)
                })?;
                push_end(ends, len)?;
            }
            Values::Record(len, fields, columns) => {
                for (column, field) in columns.iter_mut().zip(fields.iter()) {
                    let decoded = reader.counting_empty(|reader| column.decode(reader));
                    decoded.map_err(|why| format!("`{}`: {why}", field.name()))?;
                }
                *len += 1;
            }
        }
        Ok(())
    }

    fn push_default(&mut self) {
        match self {
            Values::Null(len) => *len += 1,
            Values::Boolean(values) => values.push(false),
            Values::Int(values, _) => values.push(0),
            Values::Long(values, _) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Decimal128(values, ..) => values.push(0),
            Values::Decimal256(values, ..) => values.push(i256::ZERO),
            Values::Binary(values, _)
            | Values::Text(values)
            | Values::Enum(values, _)
            | Values::Json(values, _) => values.push_empty(),
            Values::List(ends, ..) | Values::Map(ends, ..) => ends.extend(ends.last().copied()),
            Values::Record(len, _, columns) => {
                columns.iter_mut().for_each(Column::push_hidden);
                *len += 1;
            }
        }
    }

    fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        Ok(match self {
            Values::Null(len) => Arc::new(NullArray::new(std::mem::take(len))),
            Values::Boolean(values) => {
                Arc::new(BooleanArray::new(std::mem::take(values).into(), nulls))
            }
            Values::Int(values, ty) => match ty {
                DataType::Date32 => primitive::<Date32Type>(values, ty, nulls),
                DataType::Time32(_) => primitive::<Time32MillisecondType>(values, ty, nulls),
                _ => primitive::<Int32Type>(values, ty, nulls),
            },
            Values::Long(values, ty) => longs(values, ty, nulls),
            Values::Float(values) => primitive::<Float32Type>(values, &DataType::Float32, nulls),
            Values::Double(values) => primitive::<Float64Type>(values, &DataType::Float64, nulls),
            Values::Decimal128(values, ty, _) => primitive::<Decimal128Type>(values, ty, nulls),
            Values::Decimal256(values, ty, _) => primitive::<Decimal256Type>(values, ty, nulls),
            Values::Binary(values, _) => {
                let (ends, data) = values.take();
                Arc::new(BinaryArray::try_new(ends, data.into(), nulls).map_err(text)?)
            }
            Values::Text(values) | Values::Enum(values, _) | Values::Json(values, _) => {
                Arc::new(strings(values, nulls)?)
            }
            Values::List(ends, item, items) => {
                let (ends, items) = (offsets(ends), items.finish()?);
                Arc::new(ListArray::try_new(item.clone(), ends, items, nulls).map_err(text)?)
            }
            Values::Map(ends, entries, keys, values) => {
                let DataType::Struct(pair) = entries.data_type() else {
                    return Err("the entries of a map are not pairs".to_string());
                };
                let columns: Vec<ArrayRef> = vec![Arc::new(strings(keys, None)?), values.finish()?];
                let pairs = StructArray::try_new(pair.clone(), columns, None).map_err(text)?;
                let ends = offsets(ends);
                let map = MapArray::try_new(entries.clone(), ends, pairs, nulls, false);
                Arc::new(map.map_err(text)?)
            }
            Values::Record(len, fields, columns) => {
                let columns = columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>>>()?;
                let (fields, len) = (fields.clone(), std::mem::take(len));
                let made = StructArray::try_new_with_length(fields, columns, nulls, len);
                Arc::new(made.map_err(text)?)
            }
        })
    }
}

fn text(error: arrow_schema::ArrowError) -> String {
    error.to_string()
}

/// Numbers of 64 bits, which can be times.
fn longs(values: &mut Vec<i64>, ty: &DataType, nulls: Option<NullBuffer>) -> ArrayRef {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    match ty {
        DataType::Time64(Microsecond) => primitive::<Time64MicrosecondType>(values, ty, nulls),
        DataType::Time64(_) => primitive::<Time64NanosecondType>(values, ty, nulls),
        DataType::Timestamp(Millisecond, _) => {
            primitive::<TimestampMillisecondType>(values, ty, nulls)
        }
        DataType::Timestamp(Microsecond, _) => {
            primitive::<TimestampMicrosecondType>(values, ty, nulls)
        }
        DataType::Timestamp(_, _) => primitive::<TimestampNanosecondType>(values, ty, nulls),
        DataType::Duration(Second) => primitive::<DurationSecondType>(values, ty, nulls),
        DataType::Duration(Millisecond) => primitive::<DurationMillisecondType>(values, ty, nulls),
        DataType::Duration(Microsecond) => primitive::<DurationMicrosecondType>(values, ty, nulls),
        DataType::Duration(Nanosecond) => primitive::<DurationNanosecondType>(values, ty, nulls),
        _ => primitive::<Int64Type>(values, ty, nulls),
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: &mut Vec<T::Native>,
    ty: &DataType,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let array = PrimitiveArray::<T>::new(std::mem::take(values).into(), nulls);
    Arc::new(array.with_data_type(ty.clone()))
}

fn strings(values: &mut Bytes, nulls: Option<NullBuffer>) -> Result<StringArray> {
    let (ends, data) = values.take();
    StringArray::try_new(ends, data.into(), nulls).map_err(text)
}

/// The bytes of a value of a fixed size, or of one after its length.
fn sized<'a>(reader: &mut Reader<'a>, size: Option<usize>) -> Result<&'a [u8]> {
    match size {
        Some(size) => reader.take(size),
        None => reader.bytes(),
    }
}

/// Decodes the items of an array or a map. Returns their number.
fn items_of(reader: &mut Reader, mut item: impl FnMut(&mut Reader) -> Result<()>) -> Result<usize> {
    let mut len = 0;
    loop {
        let count = reader.block()?;
        if count == 0 {
            return Ok(len);
        }
        for _ in 0..count {
            reader.counting_empty(&mut item)?;
            len += 1;
        }
    }
}

/// The offsets of a column, and a new start.
fn offsets(ends: &mut Vec<i32>) -> OffsetBuffer<i32> {
    // The ends start with 0 and grow, as `OffsetBuffer` demands.
    OffsetBuffer::new(std::mem::replace(ends, vec![0]).into())
}

fn push_end(ends: &mut Vec<i32>, len: usize) -> Result<()> {
    let last = ends.last().copied().unwrap_or_default();
    let end = i32::try_from(len).ok().and_then(|len| last.checked_add(len));
    ends.push(end.ok_or("a batch cannot hold as many items")?);
    Ok(())
}

impl Bytes {
    fn new() -> Bytes {
        Bytes { data: Vec::new(), ends: vec![0] }
    }

    fn push(&mut self, value: &[u8]) -> Result<()> {
        push_end(&mut self.ends, value.len())?;
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn push_empty(&mut self) {
        self.ends.extend(self.ends.last().copied());
    }

    fn take(&mut self) -> (OffsetBuffer<i32>, Vec<u8>) {
        (offsets(&mut self.ends), std::mem::take(&mut self.data))
    }
}

/// The integer in two's complement, most significant byte first, in `N` bytes; `None` if it does
/// not fit. No bytes are zero.
fn unscaled<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let sign = if bytes.first().is_some_and(|first| *first >= 0x80) { 0xff } else { 0 };
    let (extra, kept) = bytes.split_at(bytes.len().saturating_sub(N));
    let mut out = [sign; N];
    out[N - kept.len()..].copy_from_slice(kept);
    let is_whole = extra.iter().all(|byte| *byte == sign) && (out[0] >= 0x80) == (sign != 0);
    is_whole.then_some(out)
}

fn fits_128(value: i128, ty: &DataType) -> bool {
    match ty {
        DataType::Decimal128(digits, _) => {
            Decimal128Type::validate_decimal_precision(value, *digits, 0).is_ok()
        }
        _ => false,
    }
}

fn fits_256(value: i256, ty: &DataType) -> bool {
    match ty {
        DataType::Decimal256(digits, _) => {
            Decimal256Type::validate_decimal_precision(value, *digits, 0).is_ok()
        }
        _ => false,
    }
}

fn too_many_digits() -> String {
    "a decimal has more digits than its type".to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avro::encode;
    use crate::column::{avro_type, encoder};
    use arrow_array::cast::AsArray;
    use arrow_array::{Array, Decimal128Array};

    fn decoder(fields: &str) -> Result<RowDecoder> {
        let schema = format!(r#"{{"type": "record", "name": "R", "fields": [{fields}]}}"#);
        RowDecoder::new(&Type::parse(&schema)?)
    }

    fn why(fields: &str) -> String {
        decoder(fields).unwrap_err()
    }

    /// Encodes the rows of a batch, decodes them, and encodes them again.
    fn round_trip(batch: &RecordBatch) -> RecordBatch {
        let mut names = vec!["Row".to_string()];
        let fields = batch.schema().fields().clone();
        let types = fields.iter().map(|field| avro_type(field, "Row", &mut names).unwrap());
        let fields = fields
            .iter()
            .zip(types)
            .map(|(field, ty)| crate::avro::Field { column: field.name().clone(), ty });
        let record = Record { name: "Row".to_string(), fields: fields.collect() };
        let ty = Type::parse(&Type::Record(record).to_json().to_string()).unwrap();
        let mut rows = RowDecoder::new(&ty).unwrap();
        let bytes = encoded(batch);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            rest = rows.decode(rest).unwrap();
        }
        let decoded = rows.finish().unwrap();
        assert_eq!(encoded(&decoded), bytes);
        assert!(rows.is_empty() && rows.size() == 0);
        decoded
    }

    fn encoded(batch: &RecordBatch) -> Vec<u8> {
        let (schema, mut out) = (batch.schema(), Vec::new());
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(array, field)| encoder(array, field.is_nullable()).unwrap());
        let columns: Vec<_> = columns.collect();
        for row in 0..batch.num_rows() {
            columns.iter().for_each(|write| write(row, &mut out).unwrap());
        }
        out
    }

    #[test]
    fn nested_columns_round_trip() {
        let schema = r#"
            {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
            {"name": "map", "type": ["null", {"type": "map", "values": "boolean"}]},
            {"name": "record", "type": ["null", {"type": "record", "name": "S", "fields": [
                {"name": "x", "type": "double"}, {"name": "y", "type": ["string", "null"]}]}]},
            {"name": "enum", "type": {"type": "enum", "name": "E", "symbols": ["a", "b"]}},
            {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 2}},
            {"name": "again", "type": ["null", "F"]},
            {"name": "price", "type": {"type": "fixed", "name": "P", "size": 3,
                "logicalType": "decimal", "precision": 6, "scale": 2}},
            {"name": "nothing", "type": "null"}"#;
        let mut rows = decoder(schema).unwrap();
        let mut bytes = vec![4, 0, 2, 14, 0]; // [null, 7]
        bytes.extend([2, 2, 2, b'k', 1, 0]); // {"k": true}
        bytes.push(2);
        encode::double(1.5, &mut bytes);
        bytes.extend([0, 2, b'z']); // {"x": 1.5, "y": "z"}
        bytes.extend([2, b'1', b'2', 2, b'3', b'4', 0xff, 0xff, 0x85]); // b, 12, 34, -1.23
        let second = [0, 0, 0, 0, b'5', b'6', 0, 0, 1, 0]; // [], null, null, a, 56, null, 2.56
        let both = [&bytes[..], &second].concat();
        let rest = rows.decode(&both).unwrap();
        assert!(rows.decode(rest).unwrap().is_empty());
        let batch = rows.finish().unwrap();
        let lists = batch.column(0).as_list::<i32>();
        assert_eq!((lists.value_length(0), lists.value_length(1)), (2, 0));
        assert!(lists.value(0).is_null(0));
        assert!(batch.column(1).is_null(1) && batch.column(2).is_null(1));
        let texts = batch.column(3).as_string::<i32>();
        assert_eq!((texts.value(0), texts.value(1)), ("b", "a"));
        assert_eq!(batch.column(5).as_binary::<i32>().value(0), b"34");
        let prices = batch.column(6).as_primitive::<Decimal128Type>();
        assert_eq!(
            (prices.value_as_string(0), prices.value_as_string(1)),
            ("-1.23".into(), "2.56".into())
        );
        assert_eq!(batch.column(7).len(), 2);
        let text =
            format!("{:?}", batch.column(2).as_struct().column(1).as_string::<i32>().value(0));
        assert_eq!(text, "\"z\"");
        let again = round_trip(&batch);
        assert_eq!(again.num_rows(), 2);
        assert_eq!(again.column(6), batch.column(6));
    }

    #[test]
    fn decimals_keep_all_digits_or_are_refused() {
        let digits = 10_i128.pow(38) - 1;
        let values = [0, 1, -1, 127, 128, -128, -129, digits, -digits];
        let array = Decimal128Array::from(values.to_vec()).with_precision_and_scale(38, 4).unwrap();
        let batch = RecordBatch::try_from_iter([("d", Arc::new(array) as ArrayRef)]).unwrap();
        assert_eq!(round_trip(&batch).column(0), batch.column(0));
        let mut rows = decoder(
            r#"{"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 2}}"#,
        );
        let rows = rows.as_mut().unwrap();
        assert!(rows.decode(&[2, 100]).unwrap_err().contains("more digits"));
        assert!(rows.decode(&[&[40][..], &[0x7f; 20]].concat()).unwrap_err().contains("digits"));
        assert_eq!(unscaled::<2>(&[0, 0, 0x80]), Some([0, 0x80]));
        assert_eq!(unscaled::<2>(&[0, 0x80, 0]), None);
        assert_eq!(unscaled::<2>(&[0xff, 0x7f, 0]), None);
        assert_eq!(unscaled::<2>(&[]), Some([0, 0]));
    }

    #[test]
    fn types_that_are_no_columns_are_refused_with_their_place() {
        let union = why(r#"{"name": "a", "type": ["long", "string"]}"#);
        assert_eq!(union, "column `a`: its type is a union of several types");
        let inner = r#"{"name": "s", "type": {"type": "record", "name": "S", "fields": [
            {"name": "next", "type": ["null", "S"]}]}}"#;
        assert_eq!(why(inner), "column `s.next`: the type `S` contains itself");
        assert!(RowDecoder::new(&Type::Long).unwrap_err().contains("not a record"));
        // Each record has two of the record before it: 2^40 columns.
        let mut fields =
            r#"{"name": "f", "type": {"type": "record", "name": "R0", "fields": []}}"#.to_string();
        for i in 1..40 {
            let before = i - 1;
            fields += &format!(
                r#", {{"name": "f{i}", "type": {{"type": "record", "name": "R{i}", "fields": [
                {{"name": "a", "type": "R{before}"}}, {{"name": "b", "type": "R{before}"}}]}}}}"#
            );
        }
        assert!(why(&fields).contains("too many columns"), "{}", why(&fields));
    }

    #[test]
    fn hostile_rows_are_refused() {
        let mut nulls =
            decoder(r#"{"name": "a", "type": {"type": "array", "items": "null"}}"#).unwrap();
        let mut many = Vec::new();
        encode::long(i64::MAX, &mut many);
        assert!(nulls.decode(&many).unwrap_err().contains("too many"));
        let mut texts = decoder(r#"{"name": "a", "type": "string"}"#).unwrap();
        assert_eq!(texts.decode(&[4, b'a']).unwrap_err(), "column `a`: it is cut off");
        assert!(texts.decode(&[2, 0xff]).unwrap_err().contains("UTF-8"));
        assert!(texts.decode(&many).unwrap_err().contains("cut off"));
        let mut either = decoder(r#"{"name": "a", "type": ["null", "long"]}"#).unwrap();
        assert!(either.decode(&[4, 0]).unwrap_err().contains("no type 2"));
    }
}
