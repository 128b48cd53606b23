//! JSON lines: an object a line. Nested objects become fields named `outer.inner`, arrays of
//! scalars become lists.

use super::typed::parse_f64;
use super::{BadRow, Numbered, Place, Raw, ReadRows, Row, RowResult};
use firndb::{Error, Result};
use serde_json::{Map, Number, Value};
use std::collections::HashSet;
use std::io::{BufRead, Read};
use std::rc::Rc;

/// A longer line is taken for an input that is not JSON lines.
const MAX_LINE: u64 = 256 << 20;

/// Reads the lines of one input.
pub struct JsonRows {
    reader: Box<dyn BufRead>,
    file: Rc<str>,
    line: u64,
    buffer: Vec<u8>,
}

impl JsonRows {
    pub fn new(reader: Box<dyn BufRead>, file: Rc<str>) -> JsonRows {
        JsonRows { reader, file, line: 0, buffer: Vec::new() }
    }

    /// Reads the next line that is not blank; false at the end.
    fn next_line(&mut self) -> Result<bool> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let read = self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|e| Error::io("read", self.file.as_ref().as_ref(), e))?;
            if read as u64 == MAX_LINE {
                return Err(Error::invalid(format!(
                    "{}:{}: the line is longer than 256 MiB; JSON lines have an object a line",
                    self.file, self.line
                )));
            }
            if self.line == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
                self.buffer.drain(..3);
            }
            if read == 0 || !self.buffer.trim_ascii().is_empty() {
                return Ok(read > 0);
            }
        }
    }
}

impl JsonRows {
    /// Bytes of the line of the last object.
    pub fn line_len(&self) -> usize {
        self.buffer.len()
    }

    /// The next object with its line, or the reason why the line is none; `None` at the end.
    pub fn next_object(&mut self) -> Result<Option<Numbered<Map<String, Value>>>> {
        if !self.next_line()? {
            return Ok(None);
        }
        let text = self.buffer.trim_ascii();
        let object = serde_json::from_slice::<Map<String, Value>>(text).map_err(|e| {
            if text.starts_with(b"[") {
                "the line is an array; write an object a line (`jq -c .[]` does it)".to_string()
            } else {
                format!("the line is not a JSON object: {} (column {})", reason(&e), e.column())
            }
        });
        let object = object.and_then(|object| {
            let kept = object.len() + object.values().map(members).sum::<usize>();
            repeated(text, kept).map_or(Ok(object), |name| Err(twice(&name)))
        });
        Ok(Some((self.line, object)))
    }
}

impl ReadRows for JsonRows {
    fn next_row(&mut self) -> Result<Option<RowResult>> {
        let Some((line, object)) = self.next_object()? else { return Ok(None) };
        let place = Place { file: self.file.clone(), line };
        let object = match object {
            Ok(object) => object,
            Err(reason) => return Ok(Some(Err(BadRow::whole(place, reason)))),
        };
        let mut cells = Vec::with_capacity(object.len());
        if let Err((column, reason)) = flatten("", object, &mut cells) {
            return Ok(Some(Err(BadRow { place, column: Some(column), reason })));
        }
        // The text was parsed above, so it is valid UTF-8.
        let json = String::from_utf8_lossy(self.buffer.trim_ascii()).into_owned();
        Ok(Some(Ok(Row { place, cells, json: Some(json) })))
    }
}

/// The parser's message without its own idea of the line number.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_string()
}

/// Why an object with two members of one name cannot be used.
pub fn twice(name: &str) -> String {
    format!("an object has the member `{name}` twice")
}

/// Members of all objects in a value.
pub fn members(value: &Value) -> usize {
    match value {
        Value::Object(object) => object.len() + object.values().map(members).sum::<usize>(),
        Value::Array(items) => items.iter().map(members).sum(),
        _ => 0,
    }
}

/// A name that an object of a valid text has twice, if the parser kept so many members: of two it
/// keeps the last without a word.
pub fn repeated(text: &[u8], kept: usize) -> Option<String> {
    // Each member has a colon: counting them is much cheaper than looking at names, and cheaper
    // still with those that stand in strings.
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

/// The braces, colons and strings of a valid JSON text: the byte that each begins with, and it.
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
            self.at = end + 2; // The byte behind a backslash ends nothing.
        }
        Some((self.text[start], &self.text[start..self.at]))
    }
}

fn flatten(
    prefix: &str,
    object: Map<String, Value>,
    cells: &mut Vec<(Rc<str>, Raw)>,
) -> std::result::Result<(), (String, String)> {
    for (key, value) in object {
        let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            Value::Object(inner) => flatten(&name, inner, cells)?,
            Value::Array(items) => {
                let list = items.into_iter().filter(|item| !item.is_null()).map(scalar);
                match list.collect::<Option<Vec<Raw>>>() {
                    Some(list) => cells.push((name.into(), Raw::List(list))),
                    None => {
                        let reason = "an array may hold strings, numbers and booleans only";
                        return Err((name, reason.to_string()));
                    }
                }
            }
            value => cells.push((name.into(), scalar(value).unwrap_or(Raw::Missing))),
        }
    }
    Ok(())
}

/// A number in the narrowest form that has all of its digits.
pub fn number(number: &Number) -> Raw {
    let text = number.as_str();
    match (number.as_i64(), number.as_u64()) {
        (Some(0), _) if text == "-0" => Raw::MinusZero,
        (Some(v), _) => Raw::Int(v),
        (_, Some(v)) => Raw::Uint(v),
        _ => match parse_f64(text).filter(|_| number.is_f64()) {
            Some(v) => Raw::Float(v),
            None => Raw::Large(text.to_string()),
        },
    }
}

fn scalar(value: Value) -> Option<Raw> {
    Some(match value {
        Value::Null => Raw::Missing,
        Value::Bool(v) => Raw::Bool(v),
        Value::String(v) => Raw::Str(v),
        Value::Number(v) => number(&v),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &'static str) -> Vec<RowResult> {
        let mut rows = JsonRows::new(Box::new(text.as_bytes()), "a.jsonl".into());
        std::iter::from_fn(|| rows.next_row().unwrap()).collect()
    }

    #[test]
    fn objects_are_flattened_and_arrays_are_lists() {
        let rows = rows("\n {\"b\":{\"c\":[1,null,\"x\"]},\"a\":18446744073709551615}\n");
        let row = rows[0].as_ref().unwrap();
        assert_eq!(row.place.line, 2);
        assert_eq!(&*row.cells[0].0, "b.c");
        assert_eq!(row.cells[0].1, Raw::List(vec![Raw::Int(1), Raw::Str("x".into())]));
        assert_eq!(row.cells[1].1, Raw::Uint(u64::MAX));
        assert!(row.json.as_ref().unwrap().starts_with("{\"b\""));
    }

    #[test]
    fn numbers_keep_all_their_digits() {
        let rows = rows(
            "[\n{\"a\":[400159382.06231236,18446744073709551616,1e400,-2,-0,1e-400,0e-400]}\n",
        );
        let large = |text: &str| Raw::Large(text.to_string());
        let expected = Raw::List(vec![
            Raw::Float("400159382.06231236".parse().unwrap()),
            large("18446744073709551616"),
            large("1e+400"),
            Raw::Int(-2),
            Raw::MinusZero,
            large("1e-400"),
            Raw::Float(0.0),
        ]);
        assert_eq!(rows[1].as_ref().unwrap().cells[0].1, expected);
    }

    #[test]
    fn a_member_that_comes_twice_is_refused_at_every_depth() {
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
    fn wrong_lines_say_why_and_do_not_end_the_input() {
        let rows = rows("{\"a\":}\n[1]\n{\"a\":[[1]]}\n{\"a\":1}\n");
        let text = |i: usize| rows[i].as_ref().unwrap_err().to_string();
        assert!(
            text(0).starts_with("a.jsonl:1: the line is not a JSON object: expected"),
            "{}",
            text(0)
        );
        assert!(text(1).contains("an object a line"), "{}", text(1));
        assert!(text(2).starts_with("a.jsonl:3: column `a`: an array"), "{}", text(2));
        assert!(rows[3].is_ok());
    }
}
