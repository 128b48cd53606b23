//! Appends values in Avro's binary encoding to a buffer.

use crate::json_number::JsonNumber;
use serde_json::Value as Json;

/// Appends an int or a long: zigzag, then seven bits per byte, the lowest first.
pub fn long(value: i64, out: &mut Vec<u8>) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a float.
pub fn float(value: f32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a double.
pub fn double(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends bytes, or the UTF-8 of a string, after their length.
pub fn bytes(value: &[u8], out: &mut Vec<u8>) {
    long(value.len() as i64, out);
    out.extend_from_slice(value);
}

/// Appends the unscaled integer of a decimal, given in two's complement, most significant byte
/// first. Redundant leading bytes are omitted.
pub fn decimal(big_endian: &[u8], out: &mut Vec<u8>) {
    let mut rest = big_endian;
    while let [first, second, ..] = rest
        && (*first == 0 && *second < 0x80 || *first == 0xff && *second >= 0x80)
    {
        rest = &rest[1..];
    }
    bytes(rest, out);
}

/// Starts a block of `items` items of an array or a map. Appends nothing if `items` is 0: an empty
/// block is the [`end`].
pub fn block(items: usize, out: &mut Vec<u8>) {
    if items > 0 {
        long(items as i64, out);
    }
}

/// Ends an array or a map.
pub fn end(out: &mut Vec<u8>) {
    out.push(0);
}

/// Appends a JSON value as a [`Type::any`](crate::avro::Type::any).
pub fn any(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null => long(0, out),
        Json::Bool(v) => {
            long(1, out);
            out.push(u8::from(*v));
        }
        Json::Number(v) => match JsonNumber::from(v) {
            JsonNumber::Int(v) => {
                long(2, out);
                long(v, out);
            }
            JsonNumber::Float(float) if shown(float) == v.as_str() => {
                long(3, out);
                double(float, out);
            }
            JsonNumber::NegativeZero => {
                long(3, out);
                double(-0.0, out);
            }
            _ => {
                long(7, out);
                bytes(v.as_str().as_bytes(), out);
            }
        },
        Json::String(v) => {
            long(4, out);
            bytes(v.as_bytes(), out);
        }
        Json::Array(items) => {
            long(5, out);
            block(items.len(), out);
            items.iter().for_each(|item| any(item, out));
            end(out);
        }
        Json::Object(fields) => {
            long(6, out);
            block(fields.len(), out);
            for (name, value) in fields {
                bytes(name.as_bytes(), out);
                any(value, out);
            }
            end(out);
        }
    }
}

/// The text of a double in JSON.
fn shown(v: f64) -> String {
    Json::from(v).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(write: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    /// Examples of the specification, and boundary values.
    #[test]
    fn bytes_match_the_specification() {
        let long = |v: i64| of(|out| long(v, out));
        for (value, bytes) in [
            (0, &[0][..]),
            (-1, &[1]),
            (1, &[2]),
            (-2, &[3]),
            (2, &[4]),
            (-64, &[0x7f]),
            (64, &[0x80, 1]),
            (i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            (i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ] {
            assert_eq!(long(value), bytes, "{value}");
        }
        assert_eq!(of(|out| bytes(b"foo", out)), [6, b'f', b'o', b'o']);
        assert_eq!(of(|out| double(1.0, out)), [0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        assert_eq!(of(|out| float(-2.0, out)), [0, 0, 0, 0xc0]);
        assert_eq!(of(|out| decimal(&[0, 0, 0x80], out)), [4, 0, 0x80]);
        assert_eq!(of(|out| decimal(&[0xff, 0xff, 0x7f], out)), [4, 0xff, 0x7f]);
        assert_eq!(of(|out| decimal(&[0, 0], out)), [2, 0]);
        let list: Json = serde_json::from_str(r#"[1, null]"#).unwrap();
        assert_eq!(of(|out| any(&list, out)), [10, 4, 4, 2, 0, 0]);
        let text = of(|out| any(&"1.50".parse().unwrap(), out));
        assert_eq!(text, [14, 8, b'1', b'.', b'5', b'0']);
        let zero = of(|out| any(&"-0".parse().unwrap(), out));
        assert_eq!(zero, [6, 0, 0, 0, 0, 0, 0, 0, 0x80]);
    }
}
