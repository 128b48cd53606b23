//! Values of documents as text and JSON, and back.

use firndb::search::{Type, Value, timestamp_from_text, timestamp_to_text};
use firndb::{Error, Result};
use firndb_arrow::json_number::parse_f64;
use serde_json::{Map, Value as Json};

/// A value as text without quotes, as CSV has it: timestamps as RFC 3339, bytes as hexadecimal
/// digits.
pub fn to_text(value: &Value) -> String {
    match value {
        Value::Str(v) => v.clone(),
        Value::Timestamp(v) => timestamp_to_text(*v),
        Value::Bytes(v) => hex::encode(v),
        value => value.to_string(),
    }
}

/// A value as JSON: timestamps as RFC 3339 text, bytes as hexadecimal digits, infinities as text.
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Bool(v) => Json::from(*v),
        Value::I64(v) => Json::from(*v),
        Value::U64(v) => Json::from(*v),
        Value::F64(v) if v.is_finite() => Json::from(*v),
        value => Json::from(to_text(value)),
    }
}

/// Parses a value of type `ty`; `None` if the text is not one.
pub fn parse(ty: Type, text: &str) -> Option<Value> {
    Some(match ty {
        Type::Bool if text.eq_ignore_ascii_case("true") => Value::Bool(true),
        Type::Bool if text.eq_ignore_ascii_case("false") => Value::Bool(false),
        Type::Bool => return None,
        Type::I64 => Value::I64(text.trim().parse().ok()?),
        Type::U64 => Value::U64(text.trim().parse().ok()?),
        Type::F64 => Value::F64(parse_f64(text)?),
        // A quick check: the timestamp parser is slow to refuse, and accepts forms without dashes.
        Type::Timestamp if text.as_bytes().get(4) != Some(&b'-') => return None,
        Type::Timestamp => Value::Timestamp(timestamp_from_text(text)?),
        Type::String => Value::Str(text.to_string()),
        Type::Bytes => Value::Bytes(text.as_bytes().to_vec()),
    })
}

/// The bytes of hexadecimal digits of either case. White space around them is ignored.
///
/// # Errors
///
/// `InvalidArgument` for anything else.
pub fn from_hex(text: &str) -> Result<Vec<u8>> {
    hex::decode(text.trim()).map_err(|_| {
        let shown: String = text.trim().chars().take(60).collect();
        Error::invalid(format!("`{shown}` is not hexadecimal digits, two a byte"))
    })
}

/// Adds bytes to a JSON object: as text under `name`, or as hexadecimal digits under `name_hex` if
/// they are not UTF-8.
pub fn put_bytes(object: &mut Map<String, Json>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_string(), Json::from(text)),
        Err(_) => object.insert(format!("{name}_hex"), Json::from(hex::encode(bytes))),
    };
}

/// A key for a message: in backquotes, or as hexadecimal digits if it is not printable. At most 80
/// bytes of it.
pub fn shown_key(key: &[u8]) -> String {
    let cut = &key[..key.len().min(80)];
    let dots = if cut.len() < key.len() { "..." } else { "" };
    match std::str::from_utf8(cut) {
        Ok(text) if !text.contains(char::is_control) => format!("`{text}{dots}`"),
        _ => format!("0x{}{dots}", hex::encode(cut)),
    }
}

/// Words for "no value" in columns of numbers, booleans and timestamps.
pub(crate) fn is_missing_word(text: &str) -> bool {
    matches!(text, "NA" | "N/A" | "NaN" | "nan" | "null" | "NULL" | "None" | "\\N" | "-")
}

/// Whether a text is an integer beyond 2^53, which an f64 may not hold exactly.
pub(crate) fn is_rounded(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
    let whole = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
    whole && digits.parse::<u64>().map_or(true, |v| v > 1 << 53)
}

/// Follows a message about an integer that [`is_rounded`].
pub(crate) const ROUNDED: &str =
    ", which would round this whole number; with `.0` behind it, it is rounded";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shortened_in_messages() {
        assert_eq!(shown_key(b"abc"), "`abc`");
        assert_eq!(shown_key(b"a\xff"), "0x61ff");
        assert!(shown_key(&[b'x'; 100]).ends_with("x...`"));
    }

    #[test]
    fn hexadecimal_digits_are_decoded() {
        assert_eq!(from_hex("00fF\n").unwrap(), [0, 255]);
        assert!(
            from_hex("0").is_err() && from_hex("0g").is_err() && from_hex("").unwrap().is_empty()
        );
    }
}
