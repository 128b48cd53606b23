//! The key of a row: the values of some of its columns as one text.
//!
//! The encoding is injective: different values give different keys. A number is written in its
//! digits. A text is written unchanged, with two exceptions: the characters U+001D to U+001F are
//! escaped, and a text that looks like a number, a time, `true` or `false` is prefixed with U+001E.
//! U+001F separates the values.
//!
//! In JSON the syntax decides what is a number, in CSV the schema: columns of numbers, booleans or
//! times give values of that type, text columns give text. A CSV column that is not in the schema
//! gives a number if its text is one.

use crate::output::to_text;
use firndb::search::{Schema, Type, timestamp_from_text};
use firndb::{Error, Result};
use firndb_ingest::value::parse;
use firndb_ingest::{RawValue, Row};

/// Separates the values.
const SEPARATOR: char = '\u{1f}';
/// Prefix of a text that looks like another type.
const TEXT: char = '\u{1e}';
/// First character of an escape; the escaped character follows, shifted by 32.
const ESCAPE: char = '\u{1d}';

/// Returns the key of a row: the values of these columns.
pub fn key_of(row: &Row, columns: &[String], schema: &Schema) -> Result<String> {
    let mut key = String::new();
    for (n, column) in columns.iter().enumerate() {
        if n > 0 {
            key.push(SEPARATOR);
        }
        match row.get(column) {
            Some(RawValue::Text(text)) => {
                let ty = schema.field(column).map(|(_, field)| field.ty);
                match number_of(text, ty) {
                    Some(number) => key += &number,
                    None => push_text(&mut key, text),
                }
            }
            Some(RawValue::Str(text)) => push_text(&mut key, text),
            Some(RawValue::Large(text)) => key += text,
            Some(RawValue::Int(v)) => key += &v.to_string(),
            Some(RawValue::Uint(v)) => key += &v.to_string(),
            Some(RawValue::NegativeZero) => key += "-0",
            Some(RawValue::Bool(v)) => key += &v.to_string(),
            Some(RawValue::Missing) | None => {
                let names: Vec<&str> = row.cells.iter().map(|(name, _)| &**name).collect();
                let names = names.join(", ");
                let message = format!("column `{column}` of the key is missing; there are {names}");
                return Err(Error::invalid(message));
            }
            Some(_) => {
                let message =
                    format!("column `{column}` cannot be a key: it is a fraction or a list");
                return Err(Error::invalid(message));
            }
        }
    }
    Ok(key)
}

/// Returns the text of the number, bool or time that a CSV cell holds.
fn number_of(text: &str, ty: Option<Type>) -> Option<String> {
    match ty {
        Some(Type::String | Type::Bytes) => None,
        Some(ty) => parse(ty, text).map(|value| to_text(&value)),
        None => {
            let is_own = |number: Option<String>| number.is_some_and(|number| number == text);
            let is_number = is_own(text.parse().ok().map(|v: i64| v.to_string()))
                || is_own(text.parse().ok().map(|v: u64| v.to_string()))
                || matches!(text, "true" | "false");
            is_number.then(|| text.to_string())
        }
    }
}

fn push_text(key: &mut String, text: &str) {
    let looks_else = text.trim().parse::<f64>().is_ok()
        || matches!(text, "true" | "false")
        || timestamp_from_text(text).is_some();
    if looks_else {
        key.push(TEXT);
    }
    for c in text.chars() {
        match c {
            ESCAPE | TEXT | SEPARATOR => {
                key.push(ESCAPE);
                key.push(char::from(c as u8 + 32));
            }
            c => key.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firndb_ingest::Position;
    use std::collections::BTreeMap;

    fn key(cells: &[RawValue], schema: &str) -> String {
        let names = ["a", "b", "c"];
        let cells = cells.iter().zip(names).map(|(raw, name)| (name.into(), raw.clone()));
        let position = Position { file: "rows".into(), line: 1 };
        let row = Row { position, cells: cells.collect(), json: None };
        let columns: Vec<String> = names[..row.cells.len()].iter().map(|n| n.to_string()).collect();
        key_of(&row, &columns, &Schema::from_toml(schema).unwrap()).unwrap()
    }

    const OTHER: &str = "[fields]\nz = \"u64 full\"\n";

    #[test]
    fn different_values_have_different_keys() {
        let texts = [
            "",
            "a",
            "1",
            "01",
            "-1",
            "1.5",
            "true",
            "1e3",
            "inf",
            " 1",
            "\u{1d}",
            "\u{1e}",
            "\u{1f}",
            "\u{1e}1",
            "\u{1d}>",
            "a\u{1f}",
            "\u{1f}a",
            "=",
            ">",
            "?",
            "2024-05-01",
            "2024-05-01T00:00:00Z",
            "\u{1d}\u{1f}",
            "1\u{1f}1",
        ];
        let mut values: Vec<RawValue> =
            texts.iter().map(|text| RawValue::Str(text.to_string())).collect();
        values.extend([
            RawValue::Int(1),
            RawValue::Int(-1),
            RawValue::Uint(u64::MAX),
            RawValue::NegativeZero,
        ]);
        values.extend([RawValue::Bool(true), RawValue::Large("1e999".to_string())]);
        let mut seen: BTreeMap<String, Vec<RawValue>> = BTreeMap::new();
        let pairs = values.iter().flat_map(|a| values.iter().map(move |b| vec![a, b]));
        for cells in values.iter().map(|a| vec![a]).chain(pairs) {
            let cells: Vec<RawValue> = cells.into_iter().cloned().collect();
            let key = key(&cells, OTHER);
            if let Some(other) = seen.insert(key.clone(), cells.clone()) {
                // Keys of one and of two columns never occur in the same index.
                assert_ne!(other.len(), cells.len(), "{other:?} and {cells:?} are {key:?}");
            }
        }
    }

    #[test]
    fn a_value_has_the_same_key_in_every_format() {
        let text = |text: &str| RawValue::Text(text.to_string());
        let string = |text: &str| RawValue::Str(text.to_string());
        for schema in [OTHER, "[fields]\na = \"u64 full\"\n"] {
            assert_eq!(key(&[text("17")], schema), "17");
            assert_eq!(key(&[RawValue::Int(17)], schema), "17");
            assert_eq!(key(&[string("17")], schema), "\u{1e}17");
        }
        assert_eq!(key(&[text(" 017")], "[fields]\na = \"u64 full\"\n"), "17");
        assert_eq!(key(&[text("017")], OTHER), key(&[string("017")], OTHER));
        let texts = "[fields]\na = \"string full\"\n";
        assert_eq!(key(&[text("17")], texts), key(&[string("17")], texts));
        assert_eq!(key(&[text("UA-17"), text("b c")], OTHER), "UA-17\u{1f}b c");
    }
}
