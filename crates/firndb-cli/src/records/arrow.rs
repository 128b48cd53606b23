//! Arrow's columns in Avro's binary encoding: the types that stand for each other, and a writer for
//! each column of a batch.

use crate::avro::{Field, Record, Type, Unit, encode, free_name};
use arrow_array::cast::AsArray;
use arrow_array::types as t;
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::{DataType, Field as Column, Fields, TimeUnit};
use std::collections::HashSet;

/// The reason why something cannot be done.
pub type Result<T> = std::result::Result<T, String>;

/// Writes the value of a row of a column.
pub type Writer<'a> = Box<dyn Fn(usize, &mut Vec<u8>) -> Result<()> + 'a>;

/// The Avro type of a column. `names` are the names of records so far.
pub fn type_of(column: &Column, record: &str, names: &mut Vec<String>) -> Result<Type> {
    let ty = plain_type(column.data_type(), &format!("{record}_{}", column.name()), names)
        .map_err(|reason| format!("column `{}`: {reason}", column.name()))?;
    Ok(if column.is_nullable() && ty != Type::Null { ty.nullable() } else { ty })
}

fn plain_type(ty: &DataType, path: &str, names: &mut Vec<String>) -> Result<Type> {
    let timestamp = |unit, local| Type::Timestamp { unit, local };
    Ok(match ty {
        DataType::Null => Type::Null,
        DataType::Boolean => Type::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::Int32 => Type::Int,
        DataType::UInt8 | DataType::UInt16 => Type::Int,
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 | DataType::Duration(_) => Type::Long,
        DataType::Float16 | DataType::Float32 => Type::Float,
        DataType::Float64 => Type::Double,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::String,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Type::Bytes,
        DataType::FixedSizeBinary(_) => Type::Bytes,
        DataType::Date32 | DataType::Date64 => Type::Date,
        DataType::Time32(_) => Type::TimeMillis,
        DataType::Time64(TimeUnit::Microsecond) => Type::TimeMicros,
        DataType::Time64(_) => Type::Long,
        DataType::Timestamp(TimeUnit::Microsecond, zone) => timestamp(Unit::Micros, zone.is_none()),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => timestamp(Unit::Nanos, zone.is_none()),
        DataType::Timestamp(_, zone) => timestamp(Unit::Millis, zone.is_none()),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)
            if *scale >= 0 =>
        {
            Type::Decimal { precision: (*precision).into(), scale: scale.unsigned_abs().into() }
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Type::Array(Box::new(type_of(item, path, names)?))
        }
        DataType::Struct(columns) => {
            check_names(columns)?;
            let name = free_name(path, names);
            names.push(name.clone());
            let mut fields = Vec::with_capacity(columns.len());
            for column in columns {
                let ty = type_of(column, &name, names)?;
                fields.push(Field { column: column.name().clone(), ty });
            }
            Type::Record(Record { name, fields })
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 && is_text(pair[0].data_type()) => {
                Type::Map(Box::new(type_of(&pair[1], path, names)?))
            }
            _ => return Err("the keys of a map must be texts".to_string()),
        },
        DataType::Dictionary(_, values) => plain_type(values, path, names)?,
        other => return Err(unsupported(other)),
    })
}

/// Two columns of one name cannot be told apart.
pub fn check_names(columns: &Fields) -> Result<()> {
    let mut seen = HashSet::new();
    match columns.iter().find(|column| !seen.insert(column.name())) {
        Some(twice) => {
            Err(format!("two columns have the name `{}`; rename one of them", twice.name()))
        }
        None => Ok(()),
    }
}

fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn unsupported(ty: &DataType) -> String {
    format!("the type {ty} cannot be kept; name the other columns with --value")
}

/// The writer of a column.
pub fn writer<'a>(array: &'a dyn Array, nullable: bool) -> Result<Writer<'a>> {
    let write = plain_writer(array)?;
    if *array.data_type() == DataType::Null {
        return Ok(write);
    }
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    Ok(match (nullable, nulls) {
        (false, None) => write,
        // Below a list or record that is null, anything may stand.
        (false, Some(nulls)) => Box::new(move |row, out| match nulls.is_null(row) {
            true => Err("a value that cannot be null is null".to_string()),
            false => write(row, out),
        }),
        (true, None) => Box::new(move |row, out| {
            encode::long(1, out);
            write(row, out)
        }),
        (true, Some(nulls)) => Box::new(move |row, out| match nulls.is_null(row) {
            true => {
                encode::long(0, out);
                Ok(())
            }
            false => {
                encode::long(1, out);
                write(row, out)
            }
        }),
    })
}

/// The writer of the numbers of a column, which `convert` makes longs of.
fn longs<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    convert: impl Fn(T::Native) -> Option<i64> + 'a,
) -> Writer<'a> {
    let values: &PrimitiveArray<T> = array.as_primitive();
    Box::new(move |row, out| {
        let value = values.value(row);
        let long = convert(value).ok_or_else(|| format!("{value:?} does not fit 64 bits"))?;
        encode::long(long, out);
        Ok(())
    })
}

/// The writer of what `bytes` gives for each row.
fn bytes<'a>(bytes: impl Fn(usize) -> &'a [u8] + 'a) -> Writer<'a> {
    Box::new(move |row, out| {
        encode::bytes(bytes(row), out);
        Ok(())
    })
}

fn decimals<'a, const N: usize>(bytes: impl Fn(usize) -> [u8; N] + 'a) -> Writer<'a> {
    Box::new(move |row, out| {
        encode::decimal(&bytes(row), out);
        Ok(())
    })
}

fn plain_writer<'a>(array: &'a dyn Array) -> Result<Writer<'a>> {
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_, _| Ok(())),
        DataType::Boolean => {
            let values = array.as_boolean();
            Box::new(move |row, out| {
                out.push(u8::from(values.value(row)));
                Ok(())
            })
        }
        DataType::Float16 => {
            let values = array.as_primitive::<t::Float16Type>();
            Box::new(move |row, out| {
                encode::float(values.value(row).to_f32(), out);
                Ok(())
            })
        }
        DataType::Float32 => {
            let values = array.as_primitive::<t::Float32Type>();
            Box::new(move |row, out| {
                encode::float(values.value(row), out);
                Ok(())
            })
        }
        DataType::Float64 => {
            let values = array.as_primitive::<t::Float64Type>();
            Box::new(move |row, out| {
                encode::double(values.value(row), out);
                Ok(())
            })
        }
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                return Ok(Box::new(|_, _| Err("a dictionary is empty".to_string())));
            }
            let (numbers, write) =
                (dictionary.normalized_keys(), plain_writer(dictionary.values().as_ref())?);
            Box::new(move |row, out| write(numbers[row], out))
        }
        ty => match text_bytes(array) {
            Some(text) => bytes(text),
            None if ty.is_nested() => nested_writer(array)?,
            None if ty.is_temporal() => temporal_writer(array)?,
            None => number_writer(array)?,
        },
    })
}

/// The bytes of the texts or binary values of a column; `None` if it is of another type.
fn text_bytes<'a>(array: &'a dyn Array) -> Option<Box<dyn Fn(usize) -> &'a [u8] + 'a>> {
    macro_rules! of {
        ($values:expr, $row:ident => $bytes:expr) => {{
            let values = $values;
            Some(Box::new(move |$row| {
                let value = values.value($row);
                $bytes(value)
            }))
        }};
    }
    match array.data_type() {
        DataType::Utf8 => of!(array.as_string::<i32>(), row => str::as_bytes),
        DataType::LargeUtf8 => of!(array.as_string::<i64>(), row => str::as_bytes),
        DataType::Utf8View => of!(array.as_string_view(), row => str::as_bytes),
        DataType::Binary => of!(array.as_binary::<i32>(), row => std::convert::identity),
        DataType::LargeBinary => of!(array.as_binary::<i64>(), row => std::convert::identity),
        DataType::BinaryView => of!(array.as_binary_view(), row => std::convert::identity),
        DataType::FixedSizeBinary(_) => {
            of!(array.as_fixed_size_binary(), row => std::convert::identity)
        }
        _ => None,
    }
}

fn number_writer<'a>(array: &'a dyn Array) -> Result<Writer<'a>> {
    Ok(match array.data_type() {
        DataType::Int8 => longs::<t::Int8Type>(array, |v| Some(v.into())),
        DataType::Int16 => longs::<t::Int16Type>(array, |v| Some(v.into())),
        DataType::Int32 => longs::<t::Int32Type>(array, |v| Some(v.into())),
        DataType::Int64 => longs::<t::Int64Type>(array, Some),
        DataType::UInt8 => longs::<t::UInt8Type>(array, |v| Some(v.into())),
        DataType::UInt16 => longs::<t::UInt16Type>(array, |v| Some(v.into())),
        DataType::UInt32 => longs::<t::UInt32Type>(array, |v| Some(v.into())),
        DataType::UInt64 => longs::<t::UInt64Type>(array, |v| i64::try_from(v).ok()),
        DataType::Decimal32(..) => {
            let values = array.as_primitive::<t::Decimal32Type>();
            decimals(move |row| values.value(row).to_be_bytes())
        }
        DataType::Decimal64(..) => {
            let values = array.as_primitive::<t::Decimal64Type>();
            decimals(move |row| values.value(row).to_be_bytes())
        }
        DataType::Decimal128(..) => {
            let values = array.as_primitive::<t::Decimal128Type>();
            decimals(move |row| values.value(row).to_be_bytes())
        }
        DataType::Decimal256(..) => {
            let values = array.as_primitive::<t::Decimal256Type>();
            decimals(move |row| values.value(row).to_be_bytes())
        }
        other => return Err(unsupported(other)),
    })
}

const DAY_MILLIS: i64 = 86_400_000;

fn temporal_writer<'a>(array: &'a dyn Array) -> Result<Writer<'a>> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    Ok(match array.data_type() {
        DataType::Date32 => longs::<t::Date32Type>(array, |v| Some(v.into())),
        DataType::Date64 => longs::<t::Date64Type>(array, |v| {
            i32::try_from(v.div_euclid(DAY_MILLIS)).ok().map(i64::from)
        }),
        DataType::Time32(Second) => {
            longs::<t::Time32SecondType>(array, |v| v.checked_mul(1000).map(i64::from))
        }
        DataType::Time32(_) => longs::<t::Time32MillisecondType>(array, |v| Some(v.into())),
        DataType::Time64(Microsecond) => longs::<t::Time64MicrosecondType>(array, Some),
        DataType::Time64(_) => longs::<t::Time64NanosecondType>(array, Some),
        DataType::Timestamp(Second, _) => {
            longs::<t::TimestampSecondType>(array, |v| v.checked_mul(1000))
        }
        DataType::Timestamp(Millisecond, _) => longs::<t::TimestampMillisecondType>(array, Some),
        DataType::Timestamp(Microsecond, _) => longs::<t::TimestampMicrosecondType>(array, Some),
        DataType::Timestamp(Nanosecond, _) => longs::<t::TimestampNanosecondType>(array, Some),
        DataType::Duration(Second) => longs::<t::DurationSecondType>(array, Some),
        DataType::Duration(Millisecond) => longs::<t::DurationMillisecondType>(array, Some),
        DataType::Duration(Microsecond) => longs::<t::DurationMicrosecondType>(array, Some),
        DataType::Duration(Nanosecond) => longs::<t::DurationNanosecondType>(array, Some),
        other => return Err(unsupported(other)),
    })
}

/// The writer of lists whose items stand where `range` says.
fn list<'a>(write: Writer<'a>, range: impl Fn(usize) -> std::ops::Range<usize> + 'a) -> Writer<'a> {
    Box::new(move |row, out| {
        let items = range(row);
        encode::block(items.len(), out);
        items.into_iter().try_for_each(|item| write(item, out))?;
        encode::end(out);
        Ok(())
    })
}

fn nested_writer<'a>(array: &'a dyn Array) -> Result<Writer<'a>> {
    Ok(match array.data_type() {
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.value_offsets();
            list(writer(lists.values().as_ref(), item.is_nullable())?, move |row| {
                offsets[row] as usize..offsets[row + 1] as usize
            })
        }
        DataType::LargeList(item) => {
            let lists = array.as_list::<i64>();
            let offsets = lists.value_offsets();
            list(writer(lists.values().as_ref(), item.is_nullable())?, move |row| {
                offsets[row] as usize..offsets[row + 1] as usize
            })
        }
        DataType::FixedSizeList(item, size) => {
            let (lists, size) = (array.as_fixed_size_list(), *size as usize);
            list(writer(lists.values().as_ref(), item.is_nullable())?, move |row| {
                row * size..(row + 1) * size
            })
        }
        DataType::Struct(columns) => {
            let values = array.as_struct().columns().iter().zip(columns);
            let writers =
                values.map(|(array, column)| writer(array.as_ref(), column.is_nullable()));
            let writers: Vec<Writer> = writers.collect::<Result<_>>()?;
            Box::new(move |row, out| writers.iter().try_for_each(|write| write(row, out)))
        }
        DataType::Map(entries, _) => {
            let maps = array.as_map();
            let text = text_bytes(maps.keys().as_ref()).ok_or("the keys of a map must be texts")?;
            let nullable = match entries.data_type() {
                DataType::Struct(pair) => pair.get(1).is_some_and(|v| v.is_nullable()),
                _ => true,
            };
            let write = writer(maps.values().as_ref(), nullable)?;
            let offsets = maps.value_offsets();
            let range = move |row| offsets[row] as usize..offsets[row + 1] as usize;
            Box::new(move |row, out| {
                let (items, mut seen) = (range(row), HashSet::new());
                encode::block(items.len(), out);
                for item in items {
                    if !seen.insert(text(item)) {
                        let key = String::from_utf8_lossy(text(item));
                        return Err(format!("a map has the key `{key}` twice"));
                    }
                    encode::bytes(text(item), out);
                    write(item, out)?;
                }
                encode::end(out);
                Ok(())
            })
        }
        other => return Err(unsupported(other)),
    })
}

/// The writer of a key, or of a value that is one column: bytes as they are, numbers and booleans
/// as text.
pub fn raw_writer<'a>(array: &'a dyn Array) -> Result<Writer<'a>> {
    let nulls = array.logical_nulls();
    let write = plain_raw(array)?;
    Ok(Box::new(move |row, out| match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
        true => Err("there is no value".to_string()),
        false => write(row, out),
    }))
}

fn plain_raw<'a>(array: &'a dyn Array) -> Result<Writer<'a>> {
    if let Some(text) = text_bytes(array) {
        return Ok(Box::new(move |row, out| {
            out.extend_from_slice(text(row));
            Ok(())
        }));
    }
    macro_rules! shown {
        ($values:expr) => {{
            let values = $values;
            Box::new(move |row, out: &mut Vec<u8>| {
                out.extend_from_slice(values.value(row).to_string().as_bytes());
                Ok(())
            })
        }};
    }
    Ok(match array.data_type() {
        DataType::Boolean => shown!(array.as_boolean()),
        DataType::Int8 => shown!(array.as_primitive::<t::Int8Type>()),
        DataType::Int16 => shown!(array.as_primitive::<t::Int16Type>()),
        DataType::Int32 => shown!(array.as_primitive::<t::Int32Type>()),
        DataType::Int64 => shown!(array.as_primitive::<t::Int64Type>()),
        DataType::UInt8 => shown!(array.as_primitive::<t::UInt8Type>()),
        DataType::UInt16 => shown!(array.as_primitive::<t::UInt16Type>()),
        DataType::UInt32 => shown!(array.as_primitive::<t::UInt32Type>()),
        DataType::UInt64 => shown!(array.as_primitive::<t::UInt64Type>()),
        DataType::Float32 => shown!(array.as_primitive::<t::Float32Type>()),
        DataType::Float64 => shown!(array.as_primitive::<t::Float64Type>()),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                return Ok(Box::new(|_, _| Err("a dictionary is empty".to_string())));
            }
            let (numbers, write) =
                (dictionary.normalized_keys(), plain_raw(dictionary.values().as_ref())?);
            Box::new(move |row, out| write(numbers[row], out))
        }
        other => {
            return Err(format!(
                "the type {other} is neither bytes nor a number; use --record for a value of it"
            ));
        }
    })
}
