//! Values and payloads of matches.

use crate::convert::{
    BATCH_BYTES, Pack, Part, Unpack, array_length, bytes_of, longs_of, new_array, new_longs,
    with_text,
};
use crate::error::{Failure, Result};
use crate::log::Packed;
use crate::lookup::copy_value;
use crate::search::reader::{hit, with};
use crate::search::value;
use firndb::Error;
use firndb::search::{Hit, Type, Value};
use jni::objects::{JByteArray, JLongArray, JString};
use jni::strings::JNIString;
use jni::sys::{jdouble, jint, jlong};
use jni::{Env, jni_str};

/// Hits whose payloads are read before the size of the result is looked at.
const PAYLOADS: usize = 32;
/// Hits whose values are packed field by field.
const BLOCK: usize = 1024;

/// The value of a field of a match, packed, or null.
pub fn value<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    number: jlong,
    field: &JString<'_>,
) -> Result<JByteArray<'l>> {
    let Some(value) = value_of(env, handle, number, field)? else {
        return Ok(JByteArray::default());
    };
    let mut packed = Pack::default();
    value::pack(&mut packed, Some(&value));
    packed.finish(env)
}

fn value_of(
    env: &mut Env<'_>,
    handle: jlong,
    number: jlong,
    field: &JString<'_>,
) -> Result<Option<Value>> {
    with_text(env, field, |field| with(handle, |reader| Ok(reader.value(hit(number), field)?)))
}

/// All values of a field of a match, after their number.
pub fn values<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    number: jlong,
    field: &JString<'_>,
) -> Result<JByteArray<'l>> {
    let values = with_text(env, field, |field| {
        with(handle, |reader| Ok(reader.values(hit(number), field)?))
    })?;
    let mut packed = Pack::default();
    pack_list(&mut packed, &values);
    packed.finish(env)
}

fn pack_list(packed: &mut Pack, values: &[Value]) {
    packed.int(values.len() as u32);
    values.iter().for_each(|value| value::pack(packed, Some(value)));
}

pub fn long_value(
    env: &mut Env<'_>,
    handle: jlong,
    number: jlong,
    field: &JString<'_>,
) -> Result<jlong> {
    match value_of(env, handle, number, field)? {
        Some(Value::I64(value) | Value::Timestamp(value)) => Ok(value),
        Some(Value::U64(value)) => Ok(fits_long(value)?),
        other => Err(no_such(env, field, other.as_ref(), "i64, u64 or timestamp")),
    }
}

pub fn double_value(
    env: &mut Env<'_>,
    handle: jlong,
    number: jlong,
    field: &JString<'_>,
) -> Result<jdouble> {
    match value_of(env, handle, number, field)? {
        Some(Value::F64(value)) => Ok(value),
        other => Err(no_such(env, field, other.as_ref(), "f64")),
    }
}

pub fn boolean_value(
    env: &mut Env<'_>,
    handle: jlong,
    number: jlong,
    field: &JString<'_>,
) -> Result<bool> {
    match value_of(env, handle, number, field)? {
        Some(Value::Bool(value)) => Ok(value),
        other => Err(no_such(env, field, other.as_ref(), "bool")),
    }
}

fn fits_long(value: u64) -> firndb::Result<jlong> {
    let message = || Error::invalid(format!("{value} does not fit a long: read it by `value`"));
    jlong::try_from(value).map_err(|_| message())
}

/// The failure for a value of another type, and a `NoSuchElementException` if there is no value.
fn no_such(env: &mut Env<'_>, field: &JString<'_>, value: Option<&Value>, wanted: &str) -> Failure {
    let field = match field.try_to_string(env) {
        Ok(field) => field,
        Err(error) => return error.into(),
    };
    if let Some(value) = value {
        let ty = value.ty().name();
        let message = format!("field `{field}` is of type {ty}, not {wanted}: read it by `value`");
        return Error::invalid(message).into();
    }
    let message = JNIString::from(format!("the document has no value of field `{field}`"));
    match env.throw_new(jni_str!("java/util/NoSuchElementException"), &*message) {
        Ok(()) => Failure::Pending,
        Err(error) => error.into(),
    }
}

pub fn payload<'l>(env: &mut Env<'l>, handle: jlong, number: jlong) -> Result<JByteArray<'l>> {
    with(handle, |reader| new_array(env, &reader.payload(hit(number))?))
}

/// Copies a payload to `to` if it fits, and returns its length.
pub fn payload_into(
    env: &mut Env<'_>,
    handle: jlong,
    number: jlong,
    to: &Part<'_>,
) -> Result<jint> {
    with(handle, |reader| copy_value(env, &reader.payload(hit(number))?, to))
}

/// Some hits of an array of Java.
pub struct Numbers<'l> {
    pub array: JLongArray<'l>,
    pub from: jint,
    pub count: jint,
}

impl Numbers<'_> {
    fn hits(&self, env: &Env<'_>) -> Result<Vec<Hit>> {
        let numbers = longs_of(env, &self.array, self.from, self.count)?;
        Ok(numbers.into_iter().map(hit).collect())
    }
}

/// The payloads of the first hits, as many as are enough for one call.
pub fn payloads<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    numbers: &Numbers<'_>,
) -> Result<JByteArray<'l>> {
    let hits = numbers.hits(env)?;
    let mut packed = Pack::default();
    with(handle, |reader| {
        for some in hits.chunks(PAYLOADS) {
            for payload in reader.payloads(some)? {
                array_length(payload.len())?;
                if !packed.0.is_empty() && packed.0.len() + payload.len() > BATCH_BYTES {
                    return Ok(());
                }
                packed.bytes(&payload);
            }
        }
        Ok(())
    })?;
    packed.finish(env)
}

/// The values of fields of the first hits, in blocks: the number of hits, then for each field
/// whether it is multi-valued, and the value or the values of each hit.
pub fn columns<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    numbers: &Numbers<'_>,
    names: &Packed<'_>,
) -> Result<JByteArray<'l>> {
    let names = bytes_of(env, &names.bytes, names.length)?;
    let names = Unpack(&names).texts()?;
    let hits = numbers.hits(env)?;
    let mut packed = Pack::default();
    with(handle, |reader| {
        let mut fields = Vec::with_capacity(names.len());
        for name in names {
            let field = reader.field(name)?;
            let is_multi = reader.schema().field(name).is_some_and(|(_, field)| field.multi);
            fields.push((is_multi, field));
        }
        for block in hits.chunks(BLOCK) {
            packed.int(block.len() as u32);
            for (is_multi, field) in &mut fields {
                packed.byte(u8::from(*is_multi));
                if *is_multi {
                    field.each_list(block, |values| pack_list(&mut packed, values))?;
                    continue;
                }
                for hit in block {
                    value::pack(&mut packed, field.value(*hit)?.as_ref());
                }
            }
            if packed.0.len() > BATCH_BYTES {
                break;
            }
        }
        Ok(())
    })?;
    packed.finish(env)
}

/// The numbers of a field of hits, the bits of floats if `are_floats`; `absent` for hits without a
/// value.
pub fn numbers<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    numbers: &Numbers<'_>,
    field: &JString<'_>,
    are_floats: bool,
    absent: jlong,
) -> Result<JLongArray<'l>> {
    let hits = numbers.hits(env)?;
    let mut found = Vec::with_capacity(hits.len());
    with_text(env, field, |name| {
        with(handle, |reader| {
            let mut field = reader.field(name)?;
            if are_floats {
                let bits = |value: f64| value.to_bits().cast_signed();
                return Ok(field.each_f64(&hits, |v| found.push(v.map_or(absent, bits)))?);
            }
            if reader.schema().field(name).is_none_or(|(_, field)| field.ty != Type::U64) {
                return Ok(field.each_i64(&hits, |v| found.push(v.unwrap_or(absent)))?);
            }
            let mut failed = None;
            field.each_u64(&hits, |value| match value.map_or(Ok(absent), fits_long) {
                Ok(value) => found.push(value),
                Err(error) => failed = Some(error),
            })?;
            failed.map_or(Ok(()), |error| Err(error.into()))
        })
    })?;
    new_longs(env, &found)
}
