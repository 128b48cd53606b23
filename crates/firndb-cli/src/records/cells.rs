//! Cells of rows of CSV and JSON lines, and the bytes that they become.

use super::shape::{Kind, Rule};
use crate::ingest::Raw;
use crate::ingest::infer::is_as_written;
use crate::ingest::jsonl::{members, number, repeated, twice};
use crate::ingest::typed::{ROUNDED, is_missing_word, is_rounded, parse_f64};
use firndb::search::Type;
use firndb_arrow::avro::encode;
use serde_json::Value as Json;

/// The reason why a cell cannot be used.
type Outcome = Result<(), String>;

/// A cell of a row.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    Missing,
    /// A cell of CSV.
    Text(&'a [u8]),
    Json(&'a Json),
}

/// The bytes of a key, or of a value that is one column.
pub fn raw(cell: Cell, out: &mut Vec<u8>) -> Outcome {
    match cell {
        Cell::Missing | Cell::Json(Json::Null) => return Err("there is no value".to_string()),
        Cell::Text(text) => out.extend_from_slice(text),
        Cell::Json(Json::String(text)) => out.extend_from_slice(text.as_bytes()),
        Cell::Json(json) => out.extend_from_slice(json.to_string().as_bytes()),
    }
    Ok(())
}

/// The bytes of a field.
pub fn field(rule: Rule, cell: Cell, out: &mut Vec<u8>) -> Outcome {
    match cell {
        Cell::Missing | Cell::Json(Json::Null) | Cell::Text(b"") => {
            encode::long(0, out);
            Ok(())
        }
        Cell::Json(json) if rule.kind == Kind::Json => encode::any(json, out),
        Cell::Json(json) => {
            typed(rule, json, out).ok_or_else(|| wrong(rule.kind, &json.to_string()))
        }
        Cell::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => of_text(rule, text, out),
            Err(_) => Err("the value is not valid UTF-8; name its encoding with -e".to_string()),
        },
    }
}

fn wrong(kind: Kind, shown: &str) -> String {
    let shown: String = shown.chars().take(60).collect();
    format!("`{shown}` is no {}; name the type, for example --value NAME:string", kind.name())
}

fn of_text(rule: Rule, text: &str, out: &mut Vec<u8>) -> Outcome {
    let lost = |ty| rule.found && !is_as_written(ty, text);
    let json = match rule.kind {
        Kind::String | Kind::Digits => {
            encode::long(1, out);
            encode::bytes(text.as_bytes(), out);
            return Ok(());
        }
        _ if is_missing_word(text) => Some(Json::Null),
        Kind::Boolean if text.eq_ignore_ascii_case("true") => Some(Json::Bool(true)),
        Kind::Boolean if text.eq_ignore_ascii_case("false") => Some(Json::Bool(false)),
        Kind::Boolean => None,
        Kind::Long if lost(Type::I64) => None,
        Kind::Long => text.trim().parse::<i64>().ok().map(Json::from),
        Kind::Double if is_rounded(text) => return Err(format!("`{text}` is no double{ROUNDED}")),
        Kind::Double => match parse_f64(text).filter(|_| !lost(Type::F64)) {
            Some(parsed) => {
                encode::long(1, out);
                encode::double(parsed, out);
                return Ok(());
            }
            None => None,
        },
        Kind::Json => match serde_json::from_str(text) {
            Ok(json) => match repeated(text.as_bytes(), members(&json)) {
                Some(name) => return Err(twice(&name)),
                None => Some(json),
            },
            Err(e) => return Err(format!("the value is no JSON: {e}")),
        },
    };
    let json = json.ok_or_else(|| wrong(rule.kind, text))?;
    field(rule, Cell::Json(&json), out)
}

/// A JSON value as a field of a type that it has; `None` if it has not.
fn typed(rule: Rule, json: &Json, out: &mut Vec<u8>) -> Option<()> {
    match (rule.kind, json) {
        (Kind::Boolean, json) => {
            let v = json.as_bool()?;
            encode::long(1, out);
            out.push(u8::from(v));
        }
        (Kind::Long, json) => {
            let v = match number(json.as_number()?) {
                Raw::Int(v) => v,
                Raw::MinusZero if !rule.found => 0,
                _ => return None,
            };
            encode::long(1, out);
            encode::long(v, out);
        }
        (Kind::Double, json) => {
            let v = match number(json.as_number()?) {
                Raw::Int(v) if v.unsigned_abs() <= 1 << 53 => v as f64,
                Raw::Float(v) => v,
                Raw::MinusZero => -0.0,
                _ => return None,
            };
            encode::long(1, out);
            encode::double(v, out);
        }
        (Kind::String, Json::String(text)) => {
            encode::long(1, out);
            encode::bytes(text.as_bytes(), out);
        }
        // Whoever asked for text gets text. Among texts, nothing would tell 1 from "1".
        (Kind::String, json) if !rule.found => {
            encode::long(1, out);
            encode::bytes(json.to_string().as_bytes(), out);
        }
        (Kind::Digits, Json::Number(number)) => {
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

    /// The bytes under a type that was asked for.
    fn asked(kind: Kind, cell: Cell) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        field(Rule { kind, found: false }, cell, &mut out).map(|()| out)
    }

    /// The bytes under a type that the first rows have.
    fn found(kind: Kind, cell: Cell) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        field(Rule { kind, found: true }, cell, &mut out).map(|()| out)
    }

    #[test]
    fn fields_have_the_bytes_of_a_union_with_null() {
        for bytes in [asked, found] {
            assert_eq!(bytes(Kind::Long, Cell::Text(b"-3")), Ok(vec![2, 5]));
            assert_eq!(bytes(Kind::Long, Cell::Text(b"NA")), Ok(vec![0]));
            assert_eq!(bytes(Kind::String, Cell::Text(b"NA")), Ok(vec![2, 4, b'N', b'A']));
            assert_eq!(bytes(Kind::String, Cell::Text(b"")), Ok(vec![0]));
            assert_eq!(bytes(Kind::Boolean, Cell::Text(b"True")), Ok(vec![2, 1]));
            assert_eq!(bytes(Kind::Json, Cell::Json(&json!(7))), Ok(vec![4, 14]));
            assert_eq!(bytes(Kind::Json, Cell::Text(b"[7]")), Ok(vec![10, 2, 4, 14, 0]));
            assert_eq!(bytes(Kind::Digits, Cell::Json(&json!(7))), Ok(vec![2, 2, b'7']));
            let wrong = bytes(Kind::Long, Cell::Text(b"1.5")).unwrap_err();
            assert!(wrong.contains("`1.5` is no long"), "{wrong}");
            assert!(bytes(Kind::Long, Cell::Json(&json!("1"))).is_err());
            assert!(bytes(Kind::Double, Cell::Json(&json!(i64::MAX))).is_err());
            assert!(bytes(Kind::Digits, Cell::Json(&json!("7"))).is_err());
            assert!(bytes(Kind::String, Cell::Text(b"\xff")).unwrap_err().contains("UTF-8"));
            assert!(bytes(Kind::Json, Cell::Text(b"[7")).unwrap_err().contains("no JSON: EOF"));
            let twice = bytes(Kind::Json, Cell::Text(b"[{\"a\":1,\"a\":2}]")).unwrap_err();
            assert_eq!(twice, "an object has the member `a` twice");
        }
    }

    #[test]
    fn types_that_were_found_take_what_is_written_as_they_are() {
        for text in [&b"007"[..], b"+5", b" 9", b"9 ", b"-0"] {
            assert!(asked(Kind::Long, Cell::Text(text)).is_ok(), "{}", text.escape_ascii());
            assert!(found(Kind::Long, Cell::Text(text)).is_err(), "{}", text.escape_ascii());
        }
        assert!(found(Kind::Double, Cell::Text(b"+0.5")).is_err());
        assert_eq!(
            found(Kind::Double, Cell::Text(b"-0")),
            asked(Kind::Double, Cell::Text(b"-0.0"))
        );
        for bytes in [asked, found] {
            let rounded = bytes(Kind::Double, Cell::Text(b"9007199254740993")).unwrap_err();
            assert!(rounded.contains("would round"), "{rounded}");
            assert!(bytes(Kind::Double, Cell::Text(b"1e-400")).is_err());
            assert!(bytes(Kind::Double, Cell::Text(b"0e-400")).is_ok());
        }
        let (zero, tiny) = ("-0".parse().unwrap(), "1e-400".parse().unwrap());
        let minus_zero = asked(Kind::Double, Cell::Text(b"-0"));
        for bytes in [asked, found] {
            assert_eq!(bytes(Kind::Double, Cell::Json(&zero)), minus_zero);
            assert!(bytes(Kind::Double, Cell::Json(&tiny)).is_err());
            assert!(bytes(Kind::Json, Cell::Json(&tiny)).is_err());
        }
        assert_eq!(asked(Kind::Long, Cell::Json(&zero)), asked(Kind::Long, Cell::Text(b"-0")));
        assert!(found(Kind::Long, Cell::Json(&zero)).is_err());
        for value in [json!(7), json!(true), json!([1]), json!({ "a": 1 })] {
            assert!(asked(Kind::String, Cell::Json(&value)).is_ok(), "{value}");
            assert!(found(Kind::String, Cell::Json(&value)).is_err(), "{value}");
        }
    }
}
