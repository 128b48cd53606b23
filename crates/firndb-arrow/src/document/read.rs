//! Documents from record batches.

use arrow_array::cast::AsArray;
use arrow_array::types as t;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use firndb::search::{Document, Field, Schema, Type, Value};

/// The error is the reason why a row cannot be a document.
type Result<T> = std::result::Result<T, String>;

/// The value of a row of a column, which is not null.
type Get<'a> = Box<dyn Fn(usize) -> Result<Value> + 'a>;

/// The range of the items of a row in a column of lists.
type ItemRange<'a> = Box<dyn Fn(usize) -> std::ops::Range<usize> + 'a>;

/// Reads the rows of a record batch as documents of a schema. Columns that are not fields are
/// ignored. NaN is a missing value, because no field can hold it.
pub struct DocumentReader<'a> {
    columns: Vec<Column<'a>>,
    missing: Option<&'a Field>,
    rows: usize,
}

struct Column<'a> {
    field: &'a Field,
    array: &'a dyn Array,
    list: Option<ItemRange<'a>>,
    /// Which items are null: of the lists, or of the column itself. In a dictionary, a null value
    /// makes null items, too.
    nulls: Option<NullBuffer>,
    get: Get<'a>,
}

impl<'a> DocumentReader<'a> {
    /// A reader of the rows of `batch`.
    ///
    /// # Errors
    ///
    /// The reason, if the type of a column does not fit that of its field.
    pub fn new(batch: &'a RecordBatch, schema: &'a Schema) -> Result<DocumentReader<'a>> {
        let (mut columns, mut missing) = (Vec::new(), None);
        for field in schema.fields() {
            let Some(array) = batch.column_by_name(&field.name) else {
                missing = missing.or(Some(field).filter(|field| !field.nullable));
                continue;
            };
            let column = Column::new(field, array.as_ref());
            columns.push(column.map_err(|reason| format!("column `{}`: {reason}", field.name))?);
        }
        Ok(DocumentReader { columns, missing, rows: batch.num_rows() })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The document of a row, without a payload.
    ///
    /// # Errors
    ///
    /// The reason, if a field that is not nullable has no value, or a value does not fit its field.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn document(&self, row: usize) -> Result<Document> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        if let Some(field) = self.missing {
            return Err(format!("field `{}` has no value", field.name));
        }
        let mut document = Document::new();
        for column in &self.columns {
            let name = &column.field.name;
            let before = document.fields().count();
            let range = match &column.list {
                _ if column.array.is_null(row) => 0..0,
                Some(range) => range(row),
                None => row..row + 1,
            };
            for item in range.filter(|item| column.has_item(*item)) {
                let value = (column.get)(item).map_err(|e| format!("field `{name}`: {e}"))?;
                if !matches!(value, Value::F64(number) if number.is_nan()) {
                    document.push(name, value);
                }
            }
            if !column.field.nullable && document.fields().count() == before {
                return Err(format!("field `{name}` has no value"));
            }
        }
        Ok(document)
    }
}

impl std::fmt::Debug for DocumentReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DocumentReader").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl<'a> Column<'a> {
    fn new(field: &'a Field, array: &'a dyn Array) -> Result<Column<'a>> {
        let (items, list): (&dyn Array, Option<ItemRange<'a>>) = match array.data_type() {
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                let offsets = lists.value_offsets();
                let range = move |row| offsets[row] as usize..offsets[row + 1] as usize;
                (lists.values().as_ref(), Some(Box::new(range)))
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                let offsets = lists.value_offsets();
                let range = move |row| offsets[row] as usize..offsets[row + 1] as usize;
                (lists.values().as_ref(), Some(Box::new(range)))
            }
            DataType::FixedSizeList(_, size) => {
                let size = *size as usize;
                let range = move |row| row * size..(row + 1) * size;
                (array.as_fixed_size_list().values().as_ref(), Some(Box::new(range)))
            }
            _ => (array, None),
        };
        if list.is_some() && !field.multi {
            return Err("a list in a single-valued field".to_string());
        }
        let (nulls, get) = (items.logical_nulls(), getter(field.ty, items)?);
        Ok(Column { field, array, list, nulls, get })
    }

    fn has_item(&self, item: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(item))
    }
}

/// Reads the values of an array as values of type `ty`.
fn getter<'a>(ty: Type, array: &'a dyn Array) -> Result<Get<'a>> {
    let mismatch = || Err(format!("the type {} is not that of a {}", array.data_type(), ty.name()));
    macro_rules! integers {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>();
            Box::new(move |row| integer(ty, values.value(row).into()))
        }};
    }
    macro_rules! of {
        ($values:expr, $value:ident => $made:expr) => {{
            let values = $values;
            Box::new(move |row| {
                let $value = values.value(row);
                Ok($made)
            })
        }};
    }
    Ok(match (array.data_type(), ty) {
        (DataType::Boolean, Type::Bool) => of!(array.as_boolean(), v => Value::Bool(v)),
        (DataType::Int8, Type::I64 | Type::U64 | Type::F64) => integers!(t::Int8Type),
        (DataType::Int16, Type::I64 | Type::U64 | Type::F64) => integers!(t::Int16Type),
        (DataType::Int32, Type::I64 | Type::U64 | Type::F64) => integers!(t::Int32Type),
        (DataType::Int64, Type::I64 | Type::U64 | Type::F64) => integers!(t::Int64Type),
        (DataType::UInt8, Type::I64 | Type::U64 | Type::F64) => integers!(t::UInt8Type),
        (DataType::UInt16, Type::I64 | Type::U64 | Type::F64) => integers!(t::UInt16Type),
        (DataType::UInt32, Type::I64 | Type::U64 | Type::F64) => integers!(t::UInt32Type),
        (DataType::UInt64, Type::I64 | Type::U64 | Type::F64) => integers!(t::UInt64Type),
        (DataType::Float16, Type::F64) => {
            of!(array.as_primitive::<t::Float16Type>(), v => Value::F64(v.to_f64()))
        }
        (DataType::Float32, Type::F64) => {
            of!(array.as_primitive::<t::Float32Type>(), v => Value::F64(v.into()))
        }
        (DataType::Float64, Type::F64) => {
            of!(array.as_primitive::<t::Float64Type>(), v => Value::F64(v))
        }
        (DataType::Utf8, Type::String) => of!(array.as_string::<i32>(), v => Value::from(v)),
        (DataType::LargeUtf8, Type::String) => of!(array.as_string::<i64>(), v => Value::from(v)),
        (DataType::Utf8View, Type::String) => of!(array.as_string_view(), v => Value::from(v)),
        (DataType::Binary, Type::Bytes) => {
            of!(array.as_binary::<i32>(), v => Value::Bytes(v.to_vec()))
        }
        (DataType::LargeBinary, Type::Bytes) => {
            of!(array.as_binary::<i64>(), v => Value::Bytes(v.to_vec()))
        }
        (DataType::BinaryView, Type::Bytes) => {
            of!(array.as_binary_view(), v => Value::Bytes(v.to_vec()))
        }
        (DataType::FixedSizeBinary(_), Type::Bytes) => {
            of!(array.as_fixed_size_binary(), v => Value::Bytes(v.to_vec()))
        }
        (DataType::Null, _) => Box::new(|_| Err("there is no value".to_string())),
        (DataType::Dictionary(..), _) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                return Ok(Box::new(|_| Err("a dictionary is empty".to_string())));
            }
            let values = getter(ty, dictionary.values().as_ref())?;
            let keys = dictionary.normalized_keys();
            Box::new(move |row| values(keys[row]))
        }
        (_, Type::Timestamp) => match timestamps(array) {
            Some(get) => get,
            None => return mismatch(),
        },
        _ => return mismatch(),
    })
}

/// An integer as a value of a type of numbers that holds it exactly.
fn integer(ty: Type, value: i128) -> Result<Value> {
    let made = match ty {
        Type::U64 => u64::try_from(value).ok().map(Value::U64),
        Type::F64 if value.unsigned_abs() <= 1 << 53 => Some(Value::F64(value as f64)),
        Type::F64 => None,
        _ => i64::try_from(value).ok().map(Value::I64),
    };
    made.ok_or_else(|| format!("{value} does not fit the type {}", ty.name()))
}

/// Reads dates and timestamps.
fn timestamps<'a>(array: &'a dyn Array) -> Option<Get<'a>> {
    macro_rules! micros {
        ($type:ty, $value:ident => $micros:expr) => {{
            let values = array.as_primitive::<$type>();
            Box::new(move |row| {
                let $value = i64::from(values.value(row));
                let micros: Option<i64> = $micros;
                micros.map(Value::Timestamp).ok_or_else(|| {
                    format!("the timestamp {} cannot be kept in microseconds", $value)
                })
            })
        }};
    }
    Some(match array.data_type() {
        DataType::Date32 => micros!(t::Date32Type, v => v.checked_mul(86_400_000_000)),
        DataType::Date64 => micros!(t::Date64Type, v => v.checked_mul(1_000)),
        DataType::Timestamp(TimeUnit::Second, _) => {
            micros!(t::TimestampSecondType, v => v.checked_mul(1_000_000))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            micros!(t::TimestampMillisecondType, v => v.checked_mul(1_000))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            micros!(t::TimestampMicrosecondType, v => Some(v))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            micros!(t::TimestampNanosecondType, v => (v % 1_000 == 0).then_some(v / 1_000))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::StringDictionaryBuilder;
    use arrow_array::{ArrayRef, Date64Array, Float64Array, NullArray, TimestampNanosecondArray};
    use firndb::search::Roles;
    use std::sync::Arc;

    #[test]
    fn times_keep_all_digits_or_are_refused() {
        let columns: [(&str, ArrayRef); 2] = [
            ("nanos", Arc::new(TimestampNanosecondArray::from(vec![-1_000, 1_001]))),
            ("day", Arc::new(Date64Array::from(vec![86_400_000, i64::MAX]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let field = |name| Field::new(name, Type::Timestamp, Roles::FULL);
        let read = |name, row| {
            let schema = Schema::new([field(name)]).unwrap();
            let reader = DocumentReader::new(&batch, &schema).unwrap();
            reader.document(row)
        };
        let micros = |name, micros| Ok(Document::new().set(name, Value::Timestamp(micros)));
        assert_eq!(read("nanos", 0), micros("nanos", -1));
        assert_eq!(read("day", 0), micros("day", 86_400_000_000));
        let lost = "field `nanos`: the timestamp 1001 cannot be kept in microseconds";
        assert_eq!(read("nanos", 1), Err(lost.to_string()));
        assert!(read("day", 1).is_err());
    }

    #[test]
    fn dictionaries_are_read_and_nulls_and_nan_are_missing_values() {
        let mut texts = StringDictionaryBuilder::<t::Int8Type>::new();
        texts.extend([Some("a"), None, Some("a")]);
        let columns: [(&str, ArrayRef); 3] = [
            ("s", Arc::new(texts.finish())),
            ("f", Arc::new(Float64Array::from(vec![1.5, f64::NAN, f64::INFINITY]))),
            ("n", Arc::new(NullArray::new(3))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let field = |name, ty| Field::new(name, ty, Roles::FULL).nullable();
        let schema = Schema::new([
            field("s", Type::String),
            field("f", Type::F64),
            field("n", Type::String),
        ])
        .unwrap();
        let reader = DocumentReader::new(&batch, &schema).unwrap();
        let first = Document::new().set("s", "a").set("f", 1.5);
        assert_eq!(reader.document(0), Ok(first));
        assert_eq!(reader.document(1), Ok(Document::new()));
        assert_eq!(reader.document(2).unwrap().fields().count(), 2);
    }
}
