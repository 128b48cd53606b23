//! Encodes cells of rows of CSV and JSON lines.

use crate::infer::is_as_written;
use crate::parse::json_lines::{duplicate_member, members, number, repeated};
use crate::records::options::ColumnType;
use crate::row::RawValue;
use crate::value::{ROUNDED, is_missing_word, is_rounded};
use firndb::search::Type;
use firndb_arrow::avro::encode;
use firndb_arrow::json_number::parse_f64;
use serde_json::Value as Json;

/// The error is the reason why a cell cannot be used.
type Outcome = Result<(), String>;

/// A cell of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    /// Nothing between two delimiters of CSV, or no member of JSON.
    Missing,
    /// A cell of CSV. The empty text was in quotes.
    Text(&'a [u8]),
    Json(&'a Json),
}

/// How the values of a column are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnRule {
    pub(crate) ty: ColumnType,
    /// The type was inferred, so values that inference would not accept for it are refused.
    pub(crate) inferred: bool,
}

/// Appends the bytes of a value of one column.
pub(crate) fn raw(cell: Cell, out: &mut Vec<u8>) -> Outcome {
    match cell {
        Cell::Missing | Cell::Json(Json::Null) => return Err("there is no value".to_string()),
        Cell::Text(text) => out.extend_from_slice(text),
        Cell::Json(Json::String(text)) => out.extend_from_slice(text.as_bytes()),
        Cell::Json(json) => out.extend_from_slice(json.to_string().as_bytes()),
    }
    Ok(())
}

/// Appends the bytes of a key, or of a part of one.
pub(crate) fn key(cell: Cell, out: &mut Vec<u8>) -> Outcome {
    match cell {
        Cell::Json(Json::Array(_) | Json::Object(_)) => {
            Err("a key is a text, a number or a boolean".to_string())
        }
        cell => raw(cell, out),
    }
}

/// Appends a field of a record.
pub(crate) fn field(rule: ColumnRule, cell: Cell, out: &mut Vec<u8>) -> Outcome {
    match cell {
        Cell::Missing | Cell::Json(Json::Null) => {
            encode::long(0, out);
            Ok(())
        }
        Cell::Json(json) if rule.ty == ColumnType::Json => {
            encode::any(json, out);
            Ok(())
        }
        Cell::Json(json) => typed(rule, json, out).ok_or_else(|| wrong(rule.ty, &json.to_string())),
        Cell::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => of_text(rule, text, out),
            Err(_) => Err("the value is not valid UTF-8; name its encoding with --encoding".into()),
        },
    }
}

fn wrong(kind: ColumnType, shown: &str) -> String {
    let shown: String = shown.chars().take(60).collect();
    format!("`{shown}` is not a {}; name the type, for example --value NAME:string", kind.name())
}

fn of_text(rule: ColumnRule, text: &str, out: &mut Vec<u8>) -> Outcome {
    let lost = |ty| rule.inferred && !is_as_written(ty, text);
    let json = match rule.ty {
        ColumnType::String | ColumnType::NumberText => {
            encode::long(1, out);
            encode::bytes(text.as_bytes(), out);
            return Ok(());
        }
        _ if text.is_empty() || is_missing_word(text) => Some(Json::Null),
        ColumnType::Boolean if text.eq_ignore_ascii_case("true") => Some(Json::Bool(true)),
        ColumnType::Boolean if text.eq_ignore_ascii_case("false") => Some(Json::Bool(false)),
        ColumnType::Boolean => None,
        ColumnType::Long if lost(Type::I64) => None,
        ColumnType::Long => text.trim().parse::<i64>().ok().map(Json::from),
        ColumnType::Double if is_rounded(text) => {
            return Err(format!("`{text}` is not a double{ROUNDED}"));
        }
        ColumnType::Double => match parse_f64(text).filter(|_| !lost(Type::F64)) {
            Some(parsed) => {
                encode::long(1, out);
                encode::double(parsed, out);
                return Ok(());
            }
            None => None,
        },
        ColumnType::Json => match serde_json::from_str(text) {
            Ok(json) => match repeated(text.as_bytes(), members(&json)) {
                Some(name) => return Err(duplicate_member(&name)),
                None => Some(json),
            },
            Err(e) => return Err(format!("the value is not JSON: {e}")),
        },
    };
    let json = json.ok_or_else(|| wrong(rule.ty, text))?;
    field(rule, Cell::Json(&json), out)
}

/// Appends a JSON value as a field of this type. `None` if it is of another type.
fn typed(rule: ColumnRule, json: &Json, out: &mut Vec<u8>) -> Option<()> {
    match (rule.ty, json) {
        (ColumnType::Boolean, json) => {
            let v = json.as_bool()?;
            encode::long(1, out);
            out.push(u8::from(v));
        }
        (ColumnType::Long, json) => {
            let v = match number(json.as_number()?) {
                RawValue::Int(v) => v,
                RawValue::NegativeZero if !rule.inferred => 0,
                _ => return None,
            };
            encode::long(1, out);
            encode::long(v, out);
        }
        (ColumnType::Double, json) => {
            let v = match number(json.as_number()?) {
                RawValue::Int(v) if v.unsigned_abs() <= 1 << 53 => v as f64,
                RawValue::Float(v) => v,
                RawValue::NegativeZero => -0.0,
                _ => return None,
            };
            encode::long(1, out);
            encode::double(v, out);
        }
        (ColumnType::String, Json::String(text)) => {
            encode::long(1, out);
            encode::bytes(text.as_bytes(), out);
        }
        // A column that was declared as a string holds the text of any value. In a column whose
        // type was inferred, the number 1 and the string "1" could not be distinguished.
        (ColumnType::String, json) if !rule.inferred => {
            encode::long(1, out);
            encode::bytes(json.to_string().as_bytes(), out);
        }
        (ColumnType::NumberText, Json::Number(number)) => {
            encode::long(1, out);
            encode::bytes(number.to_string().as_bytes(), out);
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The bytes under a type that was declared.
    fn declared(kind: ColumnType, cell: Cell) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        field(ColumnRule { ty: kind, inferred: false }, cell, &mut out).map(|()| out)
    }

    /// The bytes under a type that was inferred.
    fn inferred(kind: ColumnType, cell: Cell) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        field(ColumnRule { ty: kind, inferred: true }, cell, &mut out).map(|()| out)
    }

    #[test]
    fn fields_are_encoded_as_a_union_with_null() {
        for bytes in [declared, inferred] {
            assert_eq!(bytes(ColumnType::Long, Cell::Text(b"-3")), Ok(vec![2, 5]));
            assert_eq!(bytes(ColumnType::Long, Cell::Text(b"NA")), Ok(vec![0]));
            assert_eq!(bytes(ColumnType::String, Cell::Text(b"NA")), Ok(vec![2, 4, b'N', b'A']));
            assert_eq!(bytes(ColumnType::String, Cell::Missing), Ok(vec![0]));
            assert_eq!(bytes(ColumnType::String, Cell::Text(b"")), Ok(vec![2, 0]));
            assert_eq!(bytes(ColumnType::Long, Cell::Text(b"")), Ok(vec![0]));
            assert_eq!(bytes(ColumnType::Boolean, Cell::Text(b"True")), Ok(vec![2, 1]));
            assert_eq!(bytes(ColumnType::Json, Cell::Json(&json!(7))), Ok(vec![4, 14]));
            assert_eq!(bytes(ColumnType::Json, Cell::Text(b"[7]")), Ok(vec![10, 2, 4, 14, 0]));
            assert_eq!(bytes(ColumnType::NumberText, Cell::Json(&json!(7))), Ok(vec![2, 2, b'7']));
            let wrong = bytes(ColumnType::Long, Cell::Text(b"1.5")).unwrap_err();
            assert!(wrong.contains("`1.5` is not a long"), "{wrong}");
            assert!(bytes(ColumnType::Long, Cell::Json(&json!("1"))).is_err());
            assert!(bytes(ColumnType::Double, Cell::Json(&json!(i64::MAX))).is_err());
            assert!(bytes(ColumnType::NumberText, Cell::Json(&json!("7"))).is_err());
            assert!(bytes(ColumnType::String, Cell::Text(b"\xff")).unwrap_err().contains("UTF-8"));
            assert!(
                bytes(ColumnType::Json, Cell::Text(b"[7")).unwrap_err().contains("not JSON: EOF")
            );
            let twice = bytes(ColumnType::Json, Cell::Text(b"[{\"a\":1,\"a\":2}]")).unwrap_err();
            assert_eq!(twice, "an object has the member `a` twice");
        }
    }

    #[test]
    fn inferred_types_accept_only_values_that_they_keep_exactly() {
        for text in [&b"007"[..], b"+5", b" 9", b"9 ", b"-0"] {
            assert!(
                declared(ColumnType::Long, Cell::Text(text)).is_ok(),
                "{}",
                text.escape_ascii()
            );
            assert!(
                inferred(ColumnType::Long, Cell::Text(text)).is_err(),
                "{}",
                text.escape_ascii()
            );
        }
        assert!(inferred(ColumnType::Double, Cell::Text(b"+0.5")).is_err());
        assert_eq!(
            inferred(ColumnType::Double, Cell::Text(b"-0")),
            declared(ColumnType::Double, Cell::Text(b"-0.0"))
        );
        for bytes in [declared, inferred] {
            let rounded = bytes(ColumnType::Double, Cell::Text(b"9007199254740993")).unwrap_err();
            assert!(rounded.contains("would round"), "{rounded}");
            assert!(bytes(ColumnType::Double, Cell::Text(b"1e-400")).is_err());
            assert!(bytes(ColumnType::Double, Cell::Text(b"0e-400")).is_ok());
        }
        let (zero, tiny) = ("-0".parse().unwrap(), "1e-400".parse().unwrap());
        let minus_zero = declared(ColumnType::Double, Cell::Text(b"-0"));
        for bytes in [declared, inferred] {
            assert_eq!(bytes(ColumnType::Double, Cell::Json(&zero)), minus_zero);
            assert!(bytes(ColumnType::Double, Cell::Json(&tiny)).is_err());
            assert!(bytes(ColumnType::Json, Cell::Json(&tiny)).is_ok());
        }
        assert_eq!(
            declared(ColumnType::Long, Cell::Json(&zero)),
            declared(ColumnType::Long, Cell::Text(b"-0"))
        );
        assert!(inferred(ColumnType::Long, Cell::Json(&zero)).is_err());
        for value in [json!(7), json!(true), json!([1]), json!({ "a": 1 })] {
            assert!(declared(ColumnType::String, Cell::Json(&value)).is_ok(), "{value}");
            assert!(inferred(ColumnType::String, Cell::Json(&value)).is_err(), "{value}");
        }
    }
}
