//! Appends the values of Arrow columns to buffers, in Avro's binary encoding or as raw bytes.

use crate::avro::{Unit, encode, text};
use crate::column::types::unsupported;
use crate::column::{Encoder, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{self as t, DecimalType};
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};
use std::collections::HashSet;

/// An encoder of the values of a column in the type that [`avro_type`](crate::column::avro_type)
/// gives: in a union with null if the column is nullable.
///
/// # Errors
///
/// The reason, for a type that Avro cannot express.
pub fn encoder<'a>(array: &'a dyn Array, nullable: bool) -> Result<Encoder<'a>> {
    let write = plain_encoder(array)?;
    if *array.data_type() == DataType::Null {
        return Ok(write);
    }
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    Ok(match (nullable, nulls) {
        (false, None) => write,
        // A null parent can have null children in columns that are not nullable.
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

/// Encodes the numbers of a column as longs, by `convert`.
fn longs<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    convert: impl Fn(T::Native) -> Option<i64> + 'a,
) -> Encoder<'a> {
    let values: &PrimitiveArray<T> = array.as_primitive();
    Box::new(move |row, out| {
        let value = values.value(row);
        let long = convert(value).ok_or_else(|| format!("{value:?} does not fit 64 bits"))?;
        encode::long(long, out);
        Ok(())
    })
}

/// Encodes the bytes that `bytes` returns for each row.
fn bytes<'a>(bytes: impl Fn(usize) -> &'a [u8] + 'a) -> Encoder<'a> {
    Box::new(move |row, out| {
        encode::bytes(bytes(row), out);
        Ok(())
    })
}

fn decimals<'a, const N: usize>(bytes: impl Fn(usize) -> [u8; N] + 'a) -> Encoder<'a> {
    Box::new(move |row, out| {
        encode::decimal(&bytes(row), out);
        Ok(())
    })
}

fn plain_encoder<'a>(array: &'a dyn Array) -> Result<Encoder<'a>> {
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
                (dictionary.normalized_keys(), plain_encoder(dictionary.values().as_ref())?);
            Box::new(move |row, out| write(numbers[row], out))
        }
        ty => match text_bytes(array) {
            Some(text) => bytes(text),
            None if ty.is_nested() => nested_encoder(array)?,
            None if ty.is_temporal() => temporal_encoder(array)?,
            None => number_encoder(array)?,
        },
    })
}

/// Access to the bytes of a column of strings or binary values; `None` for other types.
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

fn number_encoder<'a>(array: &'a dyn Array) -> Result<Encoder<'a>> {
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

/// The days of a date in milliseconds.
fn whole_days(millis: i64) -> Result<i32> {
    match i32::try_from(millis.div_euclid(DAY_MILLIS)) {
        Ok(days) if millis % DAY_MILLIS == 0 => Ok(days),
        Ok(_) => Err(format!("the date {millis} (milliseconds) has a time of day")),
        Err(_) => Err(format!("the date {millis} (milliseconds) is out of range")),
    }
}

fn temporal_encoder<'a>(array: &'a dyn Array) -> Result<Encoder<'a>> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    Ok(match array.data_type() {
        DataType::Date32 => longs::<t::Date32Type>(array, |v| Some(v.into())),
        DataType::Date64 => {
            let days = array.as_primitive::<t::Date64Type>();
            Box::new(move |row, out| {
                encode::long(whole_days(days.value(row))?.into(), out);
                Ok(())
            })
        }
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

/// Encodes lists. `range` returns the range of the items of a row.
fn list<'a>(
    write: Encoder<'a>,
    range: impl Fn(usize) -> std::ops::Range<usize> + 'a,
) -> Encoder<'a> {
    Box::new(move |row, out| {
        let items = range(row);
        encode::block(items.len(), out);
        items.into_iter().try_for_each(|item| write(item, out))?;
        encode::end(out);
        Ok(())
    })
}

fn nested_encoder<'a>(array: &'a dyn Array) -> Result<Encoder<'a>> {
    Ok(match array.data_type() {
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.value_offsets();
            list(encoder(lists.values().as_ref(), item.is_nullable())?, move |row| {
                offsets[row] as usize..offsets[row + 1] as usize
            })
        }
        DataType::LargeList(item) => {
            let lists = array.as_list::<i64>();
            let offsets = lists.value_offsets();
            list(encoder(lists.values().as_ref(), item.is_nullable())?, move |row| {
                offsets[row] as usize..offsets[row + 1] as usize
            })
        }
        DataType::FixedSizeList(item, size) => {
            let (lists, size) = (array.as_fixed_size_list(), *size as usize);
            list(encoder(lists.values().as_ref(), item.is_nullable())?, move |row| {
                row * size..(row + 1) * size
            })
        }
        DataType::Struct(columns) => {
            let values = array.as_struct().columns().iter().zip(columns);
            let encoders =
                values.map(|(array, column)| encoder(array.as_ref(), column.is_nullable()));
            let encoders: Vec<Encoder> = encoders.collect::<Result<_>>()?;
            Box::new(move |row, out| encoders.iter().try_for_each(|write| write(row, out)))
        }
        DataType::Map(entries, _) => {
            let maps = array.as_map();
            let text = text_bytes(maps.keys().as_ref()).ok_or("the keys of a map must be texts")?;
            let nullable = match entries.data_type() {
                DataType::Struct(pair) => pair.get(1).is_some_and(|v| v.is_nullable()),
                _ => true,
            };
            let write = encoder(maps.values().as_ref(), nullable)?;
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

/// An encoder of the values of a column as keys, or as table values of a single column: strings and
/// binary values as their bytes; numbers, booleans, dates, times and decimals as text. Dates and
/// timestamps must be in the years -9999 to 9999.
///
/// # Errors
///
/// The reason, for any other type.
pub fn raw_encoder<'a>(array: &'a dyn Array) -> Result<Encoder<'a>> {
    let nulls = array.logical_nulls();
    let write = plain_raw(array)?;
    Ok(Box::new(move |row, out| match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
        true => Err("there is no value".to_string()),
        false => write(row, out),
    }))
}

fn plain_raw<'a>(array: &'a dyn Array) -> Result<Encoder<'a>> {
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
        DataType::Float16 => shown!(array.as_primitive::<t::Float16Type>()),
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
        ty if ty.is_temporal() => times(array)?,
        DataType::Decimal32(..) => decimal_texts::<t::Decimal32Type>(array),
        DataType::Decimal64(..) => decimal_texts::<t::Decimal64Type>(array),
        DataType::Decimal128(..) => decimal_texts::<t::Decimal128Type>(array),
        DataType::Decimal256(..) => decimal_texts::<t::Decimal256Type>(array),
        other => {
            return Err(format!(
                "the type {other} is neither bytes nor a number or time: it cannot be a key, and \
                 is a value only as a part of a record (--record)"
            ));
        }
    })
}

fn decimal_texts<'a, T: DecimalType + ArrowPrimitiveType>(array: &'a dyn Array) -> Encoder<'a> {
    let values = array.as_primitive::<T>();
    Box::new(move |row, out| {
        out.extend_from_slice(values.value_as_string(row).as_bytes());
        Ok(())
    })
}

/// Encodes times as the texts that records have in JSON.
fn times<'a>(array: &'a dyn Array) -> Result<Encoder<'a>> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    macro_rules! texts {
        ($type:ty, $text:expr) => {{
            let (values, show) = (array.as_primitive::<$type>(), $text);
            Box::new(move |row, out: &mut Vec<u8>| {
                let value = i64::from(values.value(row));
                let text: Option<String> = show(value);
                let text =
                    text.ok_or_else(|| format!("{value} is outside of the years -9999 to 9999"))?;
                out.extend_from_slice(text.as_bytes());
                Ok(())
            })
        }};
    }
    let time = |unit| move |value| Some(text::time(value, unit));
    let duration = |unit| move |value| Some(text::duration(value, unit));
    let at = |unit, local| move |value| text::timestamp(value, unit, local);
    Ok(match array.data_type() {
        DataType::Date32 => texts!(t::Date32Type, text::date),
        DataType::Date64 => {
            let days = array.as_primitive::<t::Date64Type>();
            Box::new(move |row, out: &mut Vec<u8>| {
                let text = text::date(whole_days(days.value(row))?.into());
                let text = text.ok_or("a date is outside of the years -9999 to 9999")?;
                out.extend_from_slice(text.as_bytes());
                Ok(())
            })
        }
        DataType::Time32(Second) => texts!(t::Time32SecondType, time(Unit::Seconds)),
        DataType::Time32(_) => texts!(t::Time32MillisecondType, time(Unit::Millis)),
        DataType::Time64(Microsecond) => texts!(t::Time64MicrosecondType, time(Unit::Micros)),
        DataType::Time64(_) => texts!(t::Time64NanosecondType, time(Unit::Nanos)),
        DataType::Timestamp(unit, zone) => {
            let local = zone.is_none();
            match unit {
                Second => texts!(t::TimestampSecondType, at(Unit::Seconds, local)),
                Millisecond => texts!(t::TimestampMillisecondType, at(Unit::Millis, local)),
                Microsecond => texts!(t::TimestampMicrosecondType, at(Unit::Micros, local)),
                Nanosecond => texts!(t::TimestampNanosecondType, at(Unit::Nanos, local)),
            }
        }
        DataType::Duration(Second) => texts!(t::DurationSecondType, duration(Unit::Seconds)),
        DataType::Duration(Millisecond) => {
            texts!(t::DurationMillisecondType, duration(Unit::Millis))
        }
        DataType::Duration(Microsecond) => {
            texts!(t::DurationMicrosecondType, duration(Unit::Micros))
        }
        DataType::Duration(Nanosecond) => texts!(t::DurationNanosecondType, duration(Unit::Nanos)),
        other => {
            return Err(format!("the type {other} is neither bytes nor a number or time"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal32Array,
        Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray, DurationNanosecondArray,
        DurationSecondArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array,
        Int64Array, LargeStringArray, StringArray, StringViewArray, Time32MillisecondArray,
        Time32SecondArray, Time64MicrosecondArray, Time64NanosecondArray,
        TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray,
    };
    use arrow_buffer::i256;
    use std::sync::Arc;

    /// Arrays of two values, and the texts of the values as keys.
    fn arrays() -> Vec<(ArrayRef, [&'static str; 2])> {
        let utc = TimestampMicrosecondArray::from(vec![-1, 1_500_000]).with_timezone("UTC");
        let fixed = FixedSizeBinaryArray::try_from_iter([b"ab", b"cd"].into_iter()).unwrap();
        vec![
            (Arc::new(StringArray::from(vec!["a", ""])), ["a", ""]),
            (Arc::new(LargeStringArray::from(vec!["a", ""])), ["a", ""]),
            (Arc::new(StringViewArray::from(vec!["a", ""])), ["a", ""]),
            (Arc::new(BinaryArray::from(vec![&b"a"[..], b""])), ["a", ""]),
            (Arc::new(fixed), ["ab", "cd"]),
            (Arc::new(BooleanArray::from(vec![true, false])), ["true", "false"]),
            (Arc::new(Int8Array::from(vec![-128, 127])), ["-128", "127"]),
            (Arc::new(Int64Array::from(vec![i64::MIN, 7])), ["-9223372036854775808", "7"]),
            (Arc::new(Float32Array::from(vec![0.5, -0.0])), ["0.5", "-0"]),
            (Arc::new(Float64Array::from(vec![1e300, 5e-324])), ["", ""]),
            (Arc::new(Date32Array::from(vec![0, -719_163])), ["1970-01-01", "0000-12-31"]),
            (Arc::new(Date64Array::from(vec![0, 86_400_000])), ["1970-01-01", "1970-01-02"]),
            (Arc::new(Time32SecondArray::from(vec![1, 3_600])), ["00:00:01", "01:00:00"]),
            (Arc::new(Time32MillisecondArray::from(vec![1, 0])), ["00:00:00.001", "00:00:00"]),
            (Arc::new(Time64MicrosecondArray::from(vec![1, 0])), ["00:00:00.000001", "00:00:00"]),
            (Arc::new(Time64NanosecondArray::from(vec![1, 0])), ["00:00:00.000000001", "00:00:00"]),
            (Arc::new(utc), ["1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:01.5Z"]),
            (
                Arc::new(TimestampNanosecondArray::from(vec![1, i64::MAX])),
                ["1970-01-01T00:00:00.000000001", "2262-04-11T23:47:16.854775807"],
            ),
            (
                Arc::new(TimestampSecondArray::from(vec![0, 253_402_300_799])),
                ["1970-01-01T00:00:00", "9999-12-31T23:59:59"],
            ),
            (Arc::new(DurationSecondArray::from(vec![-5, 0])), ["-PT5S", "PT0S"]),
            (Arc::new(DurationNanosecondArray::from(vec![-5, 0])), ["-PT0.000000005S", "PT0S"]),
            (
                Arc::new(
                    Decimal32Array::from(vec![-5, 12]).with_precision_and_scale(4, 2).unwrap(),
                ),
                ["-0.05", "0.12"],
            ),
            (
                Arc::new(
                    Decimal64Array::from(vec![-5, 12]).with_precision_and_scale(4, 0).unwrap(),
                ),
                ["-5", "12"],
            ),
            (
                Arc::new(
                    Decimal128Array::from(vec![-5, 1]).with_precision_and_scale(4, 2).unwrap(),
                ),
                ["-0.05", "0.01"],
            ),
            (
                Arc::new(
                    Decimal256Array::from(vec![i256::from(-5), i256::ONE])
                        .with_precision_and_scale(60, 3)
                        .unwrap(),
                ),
                ["-0.005", "0.001"],
            ),
        ]
    }

    fn all(encoder: &Encoder, rows: usize) -> Vec<u8> {
        let mut out = Vec::new();
        (0..rows).for_each(|row| encoder(row, &mut out).unwrap());
        out
    }

    #[test]
    fn keys_of_every_type_are_texts() {
        for (array, texts) in arrays() {
            let encode = raw_encoder(array.as_ref()).unwrap();
            for (row, text) in texts.into_iter().enumerate() {
                let mut out = Vec::new();
                encode(row, &mut out).unwrap();
                let out = String::from_utf8(out).unwrap();
                let is_float = *array.data_type() == DataType::Float64;
                match is_float {
                    true => assert_eq!(out.parse::<f64>().unwrap(), [1e300, 5e-324][row]),
                    false => assert_eq!(out, text, "{}", array.data_type()),
                }
            }
        }
    }

    #[test]
    fn dictionaries_of_every_type_are_their_values() {
        for (values, _) in arrays() {
            let keys = Int8Array::from(vec![Some(1), Some(0), None, Some(1)]);
            let dictionary = DictionaryArray::try_new(keys, values.clone()).unwrap();
            let plain = [values.slice(1, 1), values.slice(0, 1), values.slice(1, 1)];
            let (mut expected, mut raw) = (Vec::new(), Vec::new());
            for (at, value) in plain.iter().enumerate() {
                if at == 2 {
                    expected.push(0);
                }
                expected.extend(all(&encoder(value.as_ref(), true).unwrap(), 1));
                raw.push(all(&raw_encoder(value.as_ref()).unwrap(), 1));
            }
            assert_eq!(all(&encoder(&dictionary, true).unwrap(), 4), expected);
            let encode = raw_encoder(&dictionary).unwrap();
            for (row, expected) in [(0, &raw[0]), (1, &raw[1]), (3, &raw[2])] {
                let mut out = Vec::new();
                encode(row, &mut out).unwrap();
                assert_eq!(out, *expected, "{}", values.data_type());
            }
            assert!(encode(2, &mut Vec::new()).is_err(), "null");
        }
    }

    #[test]
    fn times_that_would_lose_something_are_refused() {
        let half = Date64Array::from(vec![43_200_000, -1, i64::MAX]);
        for encode in [encoder(&half, false).unwrap(), raw_encoder(&half).unwrap()] {
            assert!(encode(0, &mut Vec::new()).unwrap_err().contains("has a time of day"));
            assert!(encode(1, &mut Vec::new()).unwrap_err().contains("has a time of day"));
            assert!(encode(2, &mut Vec::new()).unwrap_err().contains("out of range"));
        }
        let far = TimestampSecondArray::from(vec![253_402_300_800]);
        let error = raw_encoder(&far).unwrap()(0, &mut Vec::new()).unwrap_err();
        assert!(error.contains("outside of the years"), "{error}");
    }
}
