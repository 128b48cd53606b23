//! Translates a condition on a field into bounds of its keys.
//!
//! A literal need not be a value of the field's type: `i64 < 10.5`, `u64 > -1`, `f64 =
//! 9007199254740993`. Rounding it would give wrong answers. So the exact [`Neighbors`] of the
//! literal are computed first: the greatest key that is not above it and the smallest that is not
//! below it. The bounds of every operator follow from these two.

use crate::search::model::names::shorten;
use crate::search::model::query::Op;
use crate::search::model::schema::Field;
use crate::search::model::types::Type;
use crate::search::model::value::{Key, Value, f64_to_key, i64_to_key, timestamp_from_text};
use crate::{Error, Result};
use std::ops::Bound::{self, Excluded, Included, Unbounded};

/// A non-empty range of keys.
///
/// Bounds of 64-bit keys are `Included` or `Unbounded`, never `Excluded`. A bound that excludes no
/// value of the type is `Unbounded`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub low: Bound<Key>,
    pub high: Bound<Key>,
}

impl Interval {
    /// The interval in its canonical form; `None` if no key of the type lies between the bounds.
    fn new(ty: Type, low: Bound<Key>, high: Bound<Key>) -> Option<Interval> {
        if !ty.is_fixed() {
            return Interval::of_bytes(low, high);
        }
        let (min, max) = key_domain(ty);
        let low = match low {
            Included(Key::Fixed(key)) => key,
            Excluded(Key::Fixed(key)) => key.checked_add(1)?,
            _ => min,
        };
        let high = match high {
            Included(Key::Fixed(key)) => key,
            Excluded(Key::Fixed(key)) => key.checked_sub(1)?,
            _ => max,
        };
        let bound = |key, end| if key == end { Unbounded } else { Included(Key::Fixed(key)) };
        let within = min <= low && low <= high && high <= max;
        within.then(|| Interval { low: bound(low, min), high: bound(high, max) })
    }

    fn of_bytes(low: Bound<Key>, high: Bound<Key>) -> Option<Interval> {
        let empty = Key::Bytes(Vec::new());
        let low = if low == Included(empty.clone()) { Unbounded } else { low };
        let is_empty = match (&low, &high) {
            (Included(low), Included(high)) => low > high,
            _ => high == Excluded(empty),
        };
        (!is_empty).then_some(Interval { low, high })
    }
}

/// The keys that satisfy `field op value`; `None` if no value can.
pub(crate) fn interval(field: &Field, op: Op, value: &Value) -> Result<Option<Interval>> {
    let Neighbors { floor, ceil } = Neighbors::of(field, value)?;
    let exact = floor == ceil;
    let bounds = match op {
        Op::Eq if exact => ceil.map(Included).zip(floor.map(Included)),
        Op::Eq => None,
        Op::Lt if exact => Some(Unbounded).zip(floor.map(Excluded)),
        Op::Lt | Op::Lte => Some(Unbounded).zip(floor.map(Included)),
        Op::Gt if exact => ceil.map(Excluded).zip(Some(Unbounded)),
        Op::Gt | Op::Gte => ceil.map(Included).zip(Some(Unbounded)),
    };
    Ok(bounds.and_then(|(low, high)| Interval::new(field.ty, low, high)))
}

/// The keys that satisfy `low <= field <= high`; `None` if no value can.
pub(crate) fn between(field: &Field, low: &Value, high: &Value) -> Result<Option<Interval>> {
    let bounds = Neighbors::of(field, low)?.ceil.zip(Neighbors::of(field, high)?.floor);
    Ok(bounds.and_then(|(low, high)| Interval::new(field.ty, Included(low), Included(high))))
}

/// The keys of a string or bytes field that start with `value`. `InvalidArgument` for other types
/// of fields or values.
pub(crate) fn prefix_interval(field: &Field, value: &Value) -> Result<Interval> {
    if field.ty.is_fixed() {
        return Err(Error::invalid(format!(
            "field `{}` is of type {}; only fields of type string or bytes have prefixes",
            field.name,
            field.ty.name()
        )));
    }
    let Some(Key::Bytes(start)) = key_of(field, value)? else {
        return Err(wrong_type(field, value));
    };
    // The upper bound is the smallest key above all keys with the prefix: trailing 0xFF bytes are
    // cut off and the last remaining byte is incremented.
    let kept = start.iter().rposition(|&byte| byte != u8::MAX).map_or(0, |i| i + 1);
    let mut end = start[..kept].to_vec();
    let high = match end.last_mut() {
        Some(byte) => {
            *byte += 1;
            Excluded(Key::Bytes(end))
        }
        None => Unbounded,
    };
    let low = if start.is_empty() { Unbounded } else { Included(Key::Bytes(start)) };
    Ok(Interval { low, high })
}

/// The key of a literal in this field; `None` if the type cannot represent the literal, so that no
/// value equals it.
pub(crate) fn key_of(field: &Field, value: &Value) -> Result<Option<Key>> {
    if let Some(bytes) = key_bytes(field, value) {
        return Ok(Some(Key::Bytes(bytes.to_vec())));
    }
    // A fast path for the most frequent case.
    if let (Type::I64, Value::I64(number)) = (field.ty, value) {
        return Ok(Some(Key::Fixed(i64_to_key(*number))));
    }
    let Neighbors { floor, ceil } = Neighbors::of(field, value)?;
    Ok(if floor == ceil { floor } else { None })
}

/// The key of a string or bytes literal, without a copy; `None` for other fields or literals.
pub(crate) fn key_bytes<'a>(field: &Field, value: &'a Value) -> Option<&'a [u8]> {
    match (field.ty, value) {
        (Type::String | Type::Bytes, Value::Str(text)) => Some(text.as_bytes()),
        (Type::Bytes, Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

impl Field {
    /// The literal of a condition on this field: a text becomes a time or bytes, if the field is of
    /// such a type. The text form of queries does this with every literal.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, with the name of the field, if values of the field cannot be compared
    /// with the literal.
    pub fn literal(&self, value: Value) -> Result<Value> {
        key_of(self, &value)?;
        Ok(self.coerce(value))
    }

    /// Like [`Field::literal`], for a literal that values of this field begin with.
    ///
    /// # Errors
    ///
    /// Also `InvalidArgument` if the field has neither texts nor bytes.
    pub fn prefix_literal(&self, value: Value) -> Result<Value> {
        prefix_interval(self, &value)?;
        Ok(self.coerce(value))
    }

    /// Converts a text for a field of times or bytes; returns any other value unchanged.
    fn coerce(&self, value: Value) -> Value {
        match (self.ty, value) {
            (Type::Timestamp, Value::Str(text)) => {
                timestamp_from_text(&text).map_or(Value::Str(text), Value::Timestamp)
            }
            (Type::Bytes, Value::Str(text)) => Value::Bytes(text.into_bytes()),
            (_, value) => value,
        }
    }
}

/// The keys of a type next to a literal. Both are the same key if the type can represent the
/// literal.
struct Neighbors {
    /// The greatest key that is not above the literal.
    floor: Option<Key>,
    /// The smallest key that is not below the literal.
    ceil: Option<Key>,
}

impl Neighbors {
    fn of(field: &Field, value: &Value) -> Result<Neighbors> {
        if matches!(value, Value::F64(v) if v.is_nan()) {
            return Err(Error::invalid(format!(
                "field `{}` cannot be compared with NaN: it has no place in an order",
                field.name
            )));
        }
        let neighbors = match (field.ty, value) {
            (Type::I64, _) => integer_range(value).map(|range| {
                let key = |v| i64::try_from(v).ok().map(i64_to_key);
                Neighbors::integers(range, i64::MIN.into(), i64::MAX.into(), key)
            }),
            (Type::U64, _) => integer_range(value).map(|range| {
                Neighbors::integers(range, 0, u64::MAX.into(), |v| u64::try_from(v).ok())
            }),
            (Type::F64, Value::F64(v)) => Some(Neighbors::fixed(f64_to_key(*v), f64_to_key(*v))),
            (Type::F64, Value::I64(v)) => Some(Neighbors::floats((*v).into())),
            (Type::F64, Value::U64(v)) => Some(Neighbors::floats((*v).into())),
            (Type::Bool, Value::Bool(v)) => Some(Neighbors::exact(Key::Fixed((*v).into()))),
            (Type::Timestamp, Value::Timestamp(v)) => {
                Some(Neighbors::exact(Key::Fixed(i64_to_key(*v))))
            }
            (Type::Timestamp, Value::Str(v)) => {
                let micros = timestamp_from_text(v).ok_or_else(|| not_a_timestamp(field, v))?;
                Some(Neighbors::exact(Key::Fixed(i64_to_key(micros))))
            }
            _ => key_bytes(field, value).map(|bytes| Neighbors::exact(Key::Bytes(bytes.to_vec()))),
        };
        neighbors.ok_or_else(|| wrong_type(field, value))
    }

    fn exact(key: Key) -> Neighbors {
        Neighbors { floor: Some(key.clone()), ceil: Some(key) }
    }

    fn fixed(floor: Option<u64>, ceil: Option<u64>) -> Neighbors {
        Neighbors { floor: floor.map(Key::Fixed), ceil: ceil.map(Key::Fixed) }
    }

    /// The neighbors among the integers `min..=max` of a type. `floor` and `ceil` are the integers
    /// next to the literal and may lie outside this range.
    fn integers(
        (floor, ceil): (i128, i128),
        min: i128,
        max: i128,
        key: impl Fn(i128) -> Option<u64>,
    ) -> Neighbors {
        Neighbors::fixed(key(floor.min(max)), key(ceil.max(min)))
    }

    /// The neighbors of a 64-bit integer among the double-precision numbers.
    fn floats(integer: i128) -> Neighbors {
        let nearest = integer as f64;
        let (floor, ceil) = match (nearest as i128).cmp(&integer) {
            std::cmp::Ordering::Equal => (nearest, nearest),
            std::cmp::Ordering::Less => (nearest, nearest.next_up()),
            std::cmp::Ordering::Greater => (nearest.next_down(), nearest),
        };
        Neighbors::fixed(f64_to_key(floor), f64_to_key(ceil))
    }
}

/// The greatest integer not above a number and the smallest not below it. Casts of huge floats
/// saturate at values far outside 64 bits, which is exact enough.
fn integer_range(value: &Value) -> Option<(i128, i128)> {
    match *value {
        Value::I64(v) => Some((v.into(), v.into())),
        Value::U64(v) => Some((v.into(), v.into())),
        Value::F64(v) => Some((v.floor() as i128, v.ceil() as i128)),
        _ => None,
    }
}

/// The smallest and the greatest key of a type with 64-bit keys.
fn key_domain(ty: Type) -> (u64, u64) {
    let float = |v| f64_to_key(v).unwrap_or_default();
    match ty {
        Type::Bool => (0, 1),
        Type::F64 => (float(f64::NEG_INFINITY), float(f64::INFINITY)),
        _ => (0, u64::MAX),
    }
}

fn wrong_type(field: &Field, value: &Value) -> Error {
    Error::invalid(format!(
        "field `{}` is of type {}; it cannot be compared with {value}, which is of type {}",
        field.name,
        field.ty.name(),
        value.ty().name(),
        value = shorten(&value.to_string())
    ))
}

fn not_a_timestamp(field: &Field, text: &str) -> Error {
    Error::invalid(format!(
        "field `{}` is of type timestamp; '{text}' is not a time \
         (2013-01-01T05:15:00Z, 2013-01-01)",
        field.name,
        text = shorten(text)
    ))
}

#[cfg(test)]
mod tests;
