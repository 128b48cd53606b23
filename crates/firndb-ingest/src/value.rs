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
        Type::Timestamp => Value::Timestamp(parse_timestamp(text)?),
        Type::String => Value::Str(text.to_string()),
        Type::Bytes => Value::Bytes(text.as_bytes().to_vec()),
    })
}

/// A timestamp as [`to_text`] writes it, or a time or date that begins with four digits and a dash.
/// Digits beyond microseconds would be lost, so they must be zeros.
fn parse_timestamp(text: &str) -> Option<i64> {
    // A quick check: the parser is slow to refuse, and accepts forms without dashes.
    let (sign, digits) = match text.split_at_checked(1) {
        Some((sign @ ("-" | "+"), digits)) => (sign, digits),
        _ => ("", text),
    };
    let has_dash = digits.as_bytes().get(if sign.is_empty() { 4 } else { 6 }) == Some(&b'-');
    // Years beyond four digits are written as a number.
    let is_number = sign != "+" && digits.len() >= 18 && digits.bytes().all(|c| c.is_ascii_digit());
    if !has_dash && !is_number {
        return None;
    }
    let fraction = digits.split_once(['.', ',']).map_or("", |(_, fraction)| fraction);
    let beyond = fraction.bytes().take_while(u8::is_ascii_digit).skip(6);
    let is_whole = beyond.into_iter().all(|digit| digit == b'0');
    timestamp_from_text(text).filter(|_| is_whole)
}

/// The bytes of hexadecimal digits of either case. White space around them is ignored.
///
/// # Errors
///
/// `InvalidArgument` for anything else.
pub fn from_hex(text: &str) -> Result<Vec<u8>> {
    hex::decode(text.trim()).map_err(|_| {
        let shown: String = text.trim().chars().take(60).collect();
        Error::invalid(format!("`{shown}` is not hexadecimal digits, two per byte"))
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
    fn every_timestamp_comes_back_from_its_text() {
        let parse = |text: &str| match parse(Type::Timestamp, text) {
            Some(Value::Timestamp(micros)) => Some(micros),
            _ => None,
        };
        let first = -377_705_116_800_000_000; // The year -9999.
        let last = 253_402_300_799_999_999;
        for micros in [i64::MIN, first - 1, first, -1, 0, 1, last, last + 1, i64::MAX] {
            let text = to_text(&Value::Timestamp(micros));
            assert_eq!(parse(&text), Some(micros), "{text}");
        }
        assert_eq!(parse("1970-01-01T00:00:00.000001000Z"), Some(1));
        assert_eq!(parse("1970-01-01 00:00:00.000001"), Some(1));
        for lost in ["1970-01-01T00:00:00.0000011Z", "1970-01-01T00:00:00.123456789+02:00"] {
            assert_eq!(parse(lost), None, "{lost}");
        }
        for other in ["20240101", "12", "-1", "", "+", "\u{e9}", "1700000000000000"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn hexadecimal_digits_are_decoded() {
        assert_eq!(from_hex("00fF\n").unwrap(), [0, 255]);
        assert!(
            from_hex("0").is_err() && from_hex("0g").is_err() && from_hex("").unwrap().is_empty()
        );
    }
}
