//! Values of fields, packed: the code of the type as a byte, then 8 bytes, or bytes after their
//! length. Code 0 is no value.

use crate::convert::{Pack, Unpack};
use crate::error::Result;
use firndb::Error;
use firndb::search::Value;

/// Adds a value, or that there is none.
pub fn pack(packed: &mut Pack, value: Option<&Value>) {
    let Some(value) = value else { return packed.byte(0) };
    packed.byte(value.ty() as u8);
    match value {
        Value::Bool(value) => packed.long(i64::from(*value)),
        Value::I64(value) | Value::Timestamp(value) => packed.long(*value),
        Value::U64(value) => packed.long(value.cast_signed()),
        Value::F64(value) => packed.long(value.to_bits().cast_signed()),
        Value::Str(text) => packed.bytes(text.as_bytes()),
        Value::Bytes(bytes) => packed.bytes(bytes),
    }
}

/// Reads a value, or `None` if there is none.
pub fn unpack(unpack: &mut Unpack<'_>) -> Result<Option<Value>> {
    Ok(Some(match unpack.byte()? {
        0 => return Ok(None),
        1 => Value::Bool(unpack.long()? != 0),
        2 => Value::I64(unpack.long()?),
        3 => Value::U64(unpack.long()?.cast_unsigned()),
        4 => Value::F64(f64::from_bits(unpack.long()?.cast_unsigned())),
        5 => Value::Timestamp(unpack.long()?),
        6 => Value::Str(unpack.text()?.to_string()),
        7 => Value::from(unpack.bytes()?),
        code => return Err(Error::invalid(format!("a packed value has type {code}")).into()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_unpacked_as_they_were() {
        let values = [
            None,
            Some(Value::Bool(true)),
            Some(Value::I64(i64::MIN)),
            Some(Value::U64(u64::MAX)),
            Some(Value::F64(-0.5)),
            Some(Value::Timestamp(-1)),
            Some(Value::from("caf\u{e9}")),
            Some(Value::from(&[0_u8, 255][..])),
        ];
        let mut packed = Pack::default();
        values.iter().for_each(|value| pack(&mut packed, value.as_ref()));
        let mut from = Unpack(&packed.0);
        for value in values {
            assert_eq!(unpack(&mut from).ok(), Some(value));
        }
        assert!(from.0.is_empty());
        assert!(unpack(&mut Unpack(&[8])).is_err());
        assert!(unpack(&mut Unpack(&[6, 1, 0, 0, 0, 255])).is_err());
    }
}
