//! JSON lines: an object per line. Nested objects become fields named `outer.inner`, arrays of
//! scalars become lists.

use crate::input::read_error;
use crate::parse::dialect::Dialect;
use crate::parse::text_input::TextInput;
use crate::row::{BadRow, Numbered, Position, RawValue, ReadRows, Row, RowResult};
use firndb::Result;
use firndb_arrow::json_number::JsonNumber;
use serde_json::{Map, Number, Value};
use std::collections::HashSet;
use std::io::{BufRead, Read};
use std::sync::Arc;

/// Reads the lines of one input.
pub(crate) struct JsonRows {
    input: TextInput,
    file: Arc<str>,
    dialect: Dialect,
    line: u64,
    buffer: Vec<u8>,
    /// The name of the encoding, if the line is not valid in it.
    malformed: Option<&'static str>,
}

impl JsonRows {
    pub(crate) fn new(input: TextInput, file: Arc<str>, dialect: &Dialect) -> JsonRows {
        let dialect = dialect.clone();
        JsonRows { input, file, dialect, line: 0, buffer: Vec::new(), malformed: None }
    }

    /// Reads the next line that is not blank; false at the end.
    fn next_line(&mut self) -> Result<bool> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let limit = (self.dialect.max_row as u64).saturating_add(1);
            let read = self.input.by_ref().take(limit).read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|e| read_error(&self.file, e))?;
            if read as u64 == limit {
                let position = format!("{}:{}", self.file, self.line);
                let hint = "; JSON lines have an object a line";
                return Err(self.dialect.too_long(&position, hint));
            }
            self.malformed = self.input.malformed();
            if read == 0 || !self.buffer.trim_ascii().is_empty() {
                return Ok(read > 0);
            }
        }
    }

    /// Bytes of the line of the last object.
    pub(crate) fn line_len(&self) -> usize {
        self.buffer.len()
    }

    /// The next object with its line, or the reason why the line is none; `None` at the end.
    pub(crate) fn next_object(&mut self) -> Result<Option<Numbered<Map<String, Value>>>> {
        if !self.next_line()? {
            return Ok(None);
        }
        if let Some(name) = self.malformed {
            return Ok(Some((self.line, Err(format!("the line is not valid {name}")))));
        }
        let text = self.buffer.trim_ascii();
        let object = serde_json::from_slice::<Map<String, Value>>(text).map_err(|e| {
            if text.starts_with(b"[") {
                "the line is an array; write an object a line (`jq -c .[]` does it)".to_string()
            } else if e.is_eof() {
                let end = e.column();
                format!(
                    "the line is not a JSON object: the object does not end on it (column {end}); \
                     write an object a line (`jq -c .` does it)"
                )
            } else {
                format!("the line is not a JSON object: {} (column {})", reason(&e), e.column())
            }
        });
        let object = object.and_then(|object| {
            let kept = object.len() + object.values().map(members).sum::<usize>();
            repeated(text, kept).map_or(Ok(object), |name| Err(duplicate_member(&name)))
        });
        Ok(Some((self.line, object)))
    }
}

impl ReadRows for JsonRows {
    fn next_row(&mut self) -> Result<Option<RowResult>> {
        let Some((line, object)) = self.next_object()? else { return Ok(None) };
        let position = Position { file: self.file.clone(), line };
        let object = match object {
            Ok(object) => object,
            Err(reason) => return Ok(Some(Err(BadRow::whole(position, reason)))),
        };
        let mut cells = Vec::with_capacity(object.len());
        if let Err((column, reason)) = flatten(object, &mut cells) {
            return Ok(Some(Err(BadRow { position, column: Some(column), reason })));
        }
        // The text was parsed, so it is valid UTF-8.
        let json = String::from_utf8_lossy(self.buffer.trim_ascii()).into_owned();
        Ok(Some(Ok(Row { position, cells, json: Some(json) })))
    }
}

/// The parser's message without its line number, which counts within the line.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_string()
}

/// The reason why an object with two members of the same name cannot be used.
pub(crate) fn duplicate_member(name: &str) -> String {
    format!("an object has the member `{name}` twice")
}

/// Number of members of all objects in a value.
pub(crate) fn members(value: &Value) -> usize {
    match value {
        Value::Object(object) => object.len() + object.values().map(members).sum::<usize>(),
        Value::Array(items) => items.iter().map(members).sum(),
        _ => 0,
    }
}

/// A name that two members of an object in a valid text have. `kept` is the number of members that
/// the parser returned: of members of the same name it silently keeps the last.
pub(crate) fn repeated(text: &[u8], kept: usize) -> Option<String> {
    // Each member has a colon. Counting colons is much cheaper than comparing names, and cheapest
    // if those within strings are counted too.
    let colons = || (Marks { text, at: 0 }).filter(|(mark, _)| *mark == b':').count();
    if memchr::memchr_iter(b':', text).count() == kept || colons() == kept {
        return None;
    }
    let (mut open, mut last) = (Vec::new(), &text[..0]);
    for (mark, at) in (Marks { text, at: 0 }) {
        match mark {
            b'{' => open.push(HashSet::new()),
            b'}' => drop(open.pop()),
            b'"' => last = at,
            _ => {
                let name: String = serde_json::from_slice(last).unwrap_or_default();
                if !open.last_mut().is_none_or(|names| names.insert(name.clone())) {
                    return Some(name);
                }
            }
        }
    }
    None
}

/// The braces, colons and strings of a valid JSON text: the first byte of each, and the whole.
struct Marks<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Marks<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let is_mark = |byte: &u8| matches!(byte, b'{' | b'}' | b':' | b'"');
        let start = self.at + self.text.get(self.at..)?.iter().position(is_mark)?;
        self.at = start + 1;
        while self.text[start] == b'"' {
            let end = memchr::memchr2(b'"', b'\\', self.text.get(self.at..)?)? + self.at;
            if self.text[end] == b'"' {
                self.at = end + 1;
                break;
            }
            self.at = end + 2; // An escaped byte does not end the string.
        }
        Some((self.text[start], &self.text[start..self.at]))
    }
}

/// Appends the cells of an object: objects in it become columns named `outer.inner`. The error is
/// a column that two members would be, and the reason.
pub(crate) fn flatten(
    object: Map<String, Value>,
    cells: &mut Vec<(Arc<str>, RawValue)>,
) -> std::result::Result<(), (String, String)> {
    let is_nested = object.values().any(Value::is_object);
    flatten_into("", object, cells);
    let mut names = HashSet::new();
    match cells.iter().find(|(name, _)| is_nested && !names.insert(name)) {
        None => Ok(()),
        Some((name, _)) => Err((name.to_string(), "two members of the object are this".into())),
    }
}

fn flatten_into(prefix: &str, object: Map<String, Value>, cells: &mut Vec<(Arc<str>, RawValue)>) {
    for (key, value) in object {
        let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            Value::Object(inner) => flatten_into(&name, inner, cells),
            Value::Array(items) => {
                let is_scalar = |item: &Value| !item.is_array() && !item.is_object();
                let value = match items.iter().all(is_scalar) {
                    true => {
                        let items = items.into_iter().filter(|item| !item.is_null());
                        RawValue::List(items.filter_map(scalar).collect())
                    }
                    false => RawValue::Nested(Value::Array(items).to_string()),
                };
                cells.push((name.into(), value));
            }
            value => cells.push((name.into(), scalar(value).unwrap_or(RawValue::Missing))),
        }
    }
}

/// A number in the narrowest type that keeps all of its digits.
pub(crate) fn number(number: &Number) -> RawValue {
    match JsonNumber::from(number) {
        JsonNumber::Int(v) => RawValue::Int(v),
        JsonNumber::Uint(v) => RawValue::Uint(v),
        JsonNumber::Float(v) => RawValue::Float(v),
        JsonNumber::NegativeZero => RawValue::NegativeZero,
        JsonNumber::Other(text) => RawValue::Large(text),
    }
}

fn scalar(value: Value) -> Option<RawValue> {
    Some(match value {
        Value::Null => RawValue::Missing,
        Value::Bool(v) => RawValue::Bool(v),
        Value::String(v) => RawValue::Str(v),
        Value::Number(v) => number(&v),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &'static str) -> Vec<RowResult> {
        let dialect = Dialect::default();
        let input = TextInput::new(Box::new(text.as_bytes()), "a.jsonl", &dialect, false).unwrap();
        let mut rows = JsonRows::new(input, "a.jsonl".into(), &dialect);
        std::iter::from_fn(|| rows.next_row().unwrap()).collect()
    }

    #[test]
    fn objects_are_flattened_and_arrays_are_lists() {
        let rows = rows("\n {\"b\":{\"c\":[1,null,\"x\"]},\"a\":18446744073709551615}\n");
        let row = rows[0].as_ref().unwrap();
        assert_eq!(row.position.line, 2);
        assert_eq!(&*row.cells[0].0, "b.c");
        assert_eq!(
            row.cells[0].1,
            RawValue::List(vec![RawValue::Int(1), RawValue::Str("x".into())])
        );
        assert_eq!(row.cells[1].1, RawValue::Uint(u64::MAX));
        assert!(row.json.as_ref().unwrap().starts_with("{\"b\""));
    }

    #[test]
    fn numbers_keep_all_their_digits() {
        let rows = rows(
            "[\n{\"a\":[400159382.06231236,18446744073709551616,1e400,-2,-0,1e-400,0e-400]}\n",
        );
        let large = |text: &str| RawValue::Large(text.to_string());
        let expected = RawValue::List(vec![
            RawValue::Float("400159382.06231236".parse().unwrap()),
            large("18446744073709551616"),
            large("1e+400"),
            RawValue::Int(-2),
            RawValue::NegativeZero,
            large("1e-400"),
            RawValue::Float(0.0),
        ]);
        assert_eq!(rows[1].as_ref().unwrap().cells[0].1, expected);
    }

    #[test]
    fn arrays_with_arrays_or_objects_are_kept_as_json() {
        let rows = rows("{\"a\":[[1.50,2]],\"b\":{\"c\":[{\"d\":1}]},\"e\":[]}\n");
        let cells = &rows[0].as_ref().unwrap().cells;
        assert_eq!(cells[0].1, RawValue::Nested("[[1.50,2]]".to_string()));
        assert_eq!(cells[1], ("b.c".into(), RawValue::Nested("[{\"d\":1}]".to_string())));
        assert_eq!(cells[2].1, RawValue::List(Vec::new()));
    }

    #[test]
    fn duplicate_members_are_refused_at_every_depth() {
        let rows = rows(concat!(
            "{\"a\":1,\"b\":2,\"a\":3}\n",
            "{\"x\":[{\"a\":{\"b\\\":\":1,\"b\\\":\": 2}}]}\n",
            "{\"a\":1,\"\\u0061\" : 2}\n",
            "{\"a\":{\"a\":\"a\\\\\",\"b\":\"{\\\"a\\\":1,\\\"a\\\":\"},\"b\":{\"a\":1}}\n",
        ));
        let text = |i: usize| rows[i].as_ref().unwrap_err().to_string();
        assert_eq!(text(0), "a.jsonl:1: an object has the member `a` twice");
        assert_eq!(text(1), "a.jsonl:2: an object has the member `b\":` twice");
        assert_eq!(text(2), "a.jsonl:3: an object has the member `a` twice");
        assert_eq!(rows[3].as_ref().unwrap().cells.len(), 3);
    }

    #[test]
    fn invalid_lines_are_bad_rows_and_do_not_end_the_input() {
        let rows = rows("{\"a\":}\n[1]\n{\"a\":{\"b\":1},\"a.b\":1}\n{\"a\":1}\n{\n");
        let text = |i: usize| rows[i].as_ref().unwrap_err().to_string();
        assert!(
            text(0).starts_with("a.jsonl:1: the line is not a JSON object: expected"),
            "{}",
            text(0)
        );
        assert!(text(1).contains("an object a line"), "{}", text(1));
        assert!(text(2).starts_with("a.jsonl:3: column `a.b`: two members"), "{}", text(2));
        assert!(rows[3].is_ok());
        assert!(
            text(4).contains("a.jsonl:5: the line is not a JSON object: the object does not end"),
            "{}",
            text(4)
        );
    }
}
