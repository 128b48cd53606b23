//! Field values, and the order-preserving keys under which they are stored.
//!
//! Keys compare as their values do, so that dictionaries, ranges and sorting need not know types:
//!
//! | type | key | rule |
//! |---|---|---|
//! | bool | u64 | false = 0, true = 1 |
//! | u64 | u64 | the value |
//! | i64, timestamp | u64 | the value with its sign bit flipped |
//! | f64 | u64 | IEEE 754 bits: sign bit set if positive, all bits flipped if negative |
//! | string, bytes | bytes | UTF-8 or the bytes as given, compared as unsigned bytes |
//!
//! The f64 value -0.0 is stored as 0.0, infinities are ordinary values, and NaN is rejected. The
//! f64 rule comes from "Radix Tricks" (Herf, 2001); Lucene's `NumericUtils` uses it, too.

use crate::search::model::types::Type;
use crate::{Error, Result};
use jiff::SignedDuration;
use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use std::fmt;

/// A value of a field, or a literal in a query.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A signed 64-bit integer.
    I64(i64),
    /// An unsigned 64-bit integer.
    U64(u64),
    /// A double-precision number; NaN is rejected.
    F64(f64),
    /// Microseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    /// Text.
    Str(String),
    /// Arbitrary bytes, compared as unsigned bytes.
    Bytes(Vec<u8>),
}

impl Value {
    /// The type of this value.
    pub fn ty(&self) -> Type {
        match self {
            Value::Bool(_) => Type::Bool,
            Value::I64(_) => Type::I64,
            Value::U64(_) => Type::U64,
            Value::F64(_) => Type::F64,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Str(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
        }
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident as $to:ty),* $(,)?) => {$(
        impl From<$from> for Value {
            fn from(v: $from) -> Value {
                Value::$variant(<$to>::from(v))
            }
        }
    )*};
}

value_from! {
    bool => Bool as bool, i8 => I64 as i64, i16 => I64 as i64, i32 => I64 as i64, i64 => I64 as i64,
    u8 => U64 as u64, u16 => U64 as u64, u32 => U64 as u64, u64 => U64 as u64,
    f32 => F64 as f64, f64 => F64 as f64,
    &str => Str as String, String => Str as String,
    &[u8] => Bytes as Vec<u8>, Vec<u8> => Bytes as Vec<u8>,
}

impl fmt::Display for Value {
    /// The literal in the query language.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(v) => write!(f, "{v}"),
            Value::I64(v) => write!(f, "{v}"),
            Value::U64(v) => write!(f, "{v}"),
            Value::F64(v) if v.is_infinite() => write!(f, "{}inf", if *v < 0.0 { "-" } else { "" }),
            Value::F64(v) => write!(f, "{v:?}"),
            Value::Timestamp(v) => write!(f, "timestamp '{}'", timestamp_to_text(*v)),
            Value::Str(v) => write!(f, "'{}'", v.replace('\'', "''")),
            Value::Bytes(v) => {
                write!(f, "x'")?;
                v.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
                write!(f, "'")
            }
        }
    }
}

/// Formats microseconds since the epoch as RFC 3339 in UTC, for example `2013-01-01T05:15:00Z`.
/// Outside the years -9999..=9999 it writes the number itself.
pub fn timestamp_to_text(micros: i64) -> String {
    // A civil time, because `jiff::Timestamp` ends on 9999-12-30.
    match EPOCH.checked_add(SignedDuration::from_micros(micros)) {
        Ok(time) => format!("{time}Z"),
        Err(_) => micros.to_string(),
    }
}

/// Parses a time as microseconds since the epoch; `None` if the text is none. Accepted are RFC 3339
/// with any offset (`2013-01-01T05:15:00Z`), a date and time without offset (taken as UTC), and a
/// date alone (midnight UTC). Outside the years -9999..=9999, the number that [`timestamp_to_text`]
/// writes is accepted. Fractions of a microsecond are rounded down.
pub fn timestamp_from_text(text: &str) -> Option<i64> {
    // Appending `Z` makes only texts without an offset valid. An unsupported offset or time zone
    // thus stays an error instead of being taken for UTC.
    let forms = [text.to_string(), format!("{text}Z"), format!("{text}T00:00Z")];
    if let Some(time) = forms.iter().find_map(|form| form.parse::<jiff::Timestamp>().ok()) {
        return i64::try_from(time.as_nanosecond().div_euclid(1000)).ok();
    }
    if let Some(micros) = civil_from_text(text) {
        return Some(micros);
    }
    let micros = text.parse().ok()?;
    EPOCH.checked_add(SignedDuration::from_micros(micros)).is_err().then_some(micros)
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Parses times of the first and last days of the range, which `jiff::Timestamp` does not cover.
fn civil_from_text(text: &str) -> Option<i64> {
    let pieces = Pieces::parse(text).ok()?;
    if pieces.time_zone_annotation().is_some() || pieces.date().year().abs() < 9999 {
        return None;
    }
    let offset = pieces.offset().map_or(Some(0), |offset| match offset {
        PiecesOffset::Zulu => Some(0),
        PiecesOffset::Numeric(offset) => Some(offset.offset().seconds()),
        _ => None,
    })?;
    let time = pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight()));
    let nanos = time.duration_since(EPOCH).as_nanos() - i128::from(offset) * 1_000_000_000;
    i64::try_from(nanos.div_euclid(1000)).ok()
}

/// The order-preserving form of a value: see the table in the module documentation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Fixed(u64),
    Bytes(Vec<u8>),
}

const SIGN: u64 = 1 << 63;

pub(crate) fn i64_to_key(v: i64) -> u64 {
    v as u64 ^ SIGN
}

pub(crate) fn key_to_i64(key: u64) -> i64 {
    (key ^ SIGN) as i64
}

/// `None` for NaN, which has no order.
pub(crate) fn f64_to_key(v: f64) -> Option<u64> {
    if v.is_nan() {
        return None;
    }
    let bits = if v == 0.0 { 0 } else { v.to_bits() };
    Some(if bits & SIGN == 0 { bits | SIGN } else { !bits })
}

pub(crate) fn key_to_f64(key: u64) -> f64 {
    f64::from_bits(if key & SIGN != 0 { key & !SIGN } else { !key })
}

/// The key of `value` in a field of type `ty`. Numbers are converted if no information is lost;
/// otherwise, and for other type mismatches, the error is `InvalidArgument`.
pub(crate) fn encode(ty: Type, value: &Value) -> Result<Key> {
    let wrong = || Error::invalid(format!("a value of type {} cannot hold {value}", ty.name()));
    Ok(match (ty, value) {
        (Type::Bool, Value::Bool(v)) => Key::Fixed(u64::from(*v)),
        (Type::I64, v) => Key::Fixed(i64_to_key(as_i64(v).ok_or_else(wrong)?)),
        (Type::U64, v) => Key::Fixed(as_u64(v).ok_or_else(wrong)?),
        (Type::F64, v) => {
            let number = as_f64(v).ok_or_else(wrong)?;
            let nan = || {
                Error::invalid(
                    "NaN cannot be stored: it has no place in an order; leave the field out",
                )
            };
            Key::Fixed(f64_to_key(number).ok_or_else(nan)?)
        }
        (Type::Timestamp, Value::Timestamp(v)) => Key::Fixed(i64_to_key(*v)),
        (Type::Timestamp, Value::Str(v)) => {
            Key::Fixed(i64_to_key(timestamp_from_text(v).ok_or_else(wrong)?))
        }
        (Type::String, Value::Str(v)) => Key::Bytes(v.clone().into_bytes()),
        (Type::Bytes, Value::Bytes(v)) => Key::Bytes(v.clone()),
        (Type::Bytes, Value::Str(v)) => Key::Bytes(v.clone().into_bytes()),
        _ => return Err(wrong()),
    })
}

/// The value of a 64-bit key of a field of type `ty`.
pub(crate) fn decode_fixed(ty: Type, key: u64) -> Value {
    match ty {
        Type::Bool => Value::Bool(key != 0),
        Type::U64 => Value::U64(key),
        Type::F64 => Value::F64(key_to_f64(key)),
        Type::Timestamp => Value::Timestamp(key_to_i64(key)),
        _ => Value::I64(key_to_i64(key)),
    }
}

/// The value of a key of a field of type `ty`.
pub(crate) fn decode_key(ty: Type, key: &Key) -> Result<Value> {
    match key {
        Key::Fixed(key) => Ok(decode_fixed(ty, *key)),
        Key::Bytes(key) => decode_bytes(ty, key),
    }
}

/// The value of a key of a string or bytes field. `Corrupt` if a string is not UTF-8.
pub(crate) fn decode_bytes(ty: Type, key: &[u8]) -> Result<Value> {
    if ty != Type::String {
        return Ok(Value::Bytes(key.to_vec()));
    }
    let text =
        std::str::from_utf8(key).map_err(|_| Error::corrupt("a string is not valid UTF-8"))?;
    Ok(Value::Str(text.to_string()))
}

fn as_i64(value: &Value) -> Option<i64> {
    match value {
        Value::I64(v) => Some(*v),
        Value::U64(v) => i64::try_from(*v).ok(),
        Value::F64(v) if *v == v.trunc() && (-(2f64.powi(63))..2f64.powi(63)).contains(v) => {
            Some(*v as i64)
        }
        _ => None,
    }
}

fn as_u64(value: &Value) -> Option<u64> {
    match value {
        Value::U64(v) => Some(*v),
        Value::I64(v) => u64::try_from(*v).ok(),
        Value::F64(v) if *v == v.trunc() && (0.0..2f64.powi(64)).contains(v) => Some(*v as u64),
        _ => None,
    }
}

fn as_f64(value: &Value) -> Option<f64> {
    match value {
        Value::F64(v) => Some(*v),
        Value::I64(v) if (*v as f64) as i128 == i128::from(*v) => Some(*v as f64),
        Value::U64(v) if (*v as f64) as u128 == u128::from(*v) => Some(*v as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
