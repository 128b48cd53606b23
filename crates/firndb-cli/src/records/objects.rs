//! JSON lines for stores without a schema: an object a line, whose columns may differ from line to
//! line.
//!
//! Without a key column a line is `{"key": ..., "value": ...}`; `key_hex` and `value_hex` stand for
//! bytes that are not text, and `expires_at` says when the record expires, in milliseconds since
//! 1970: so `firn log dump` writes them. With one the value is an object of the other columns; or
//! of the columns that are named; or, if only one is named, that column as it is. Then `expires_at`
//! is a column like any other.

use super::cells::{self, Cell};
use super::feed::Wanted;
use super::shape::Shape;
use super::{Batch, Records, origin};
use crate::ingest::jsonl::JsonRows;
use crate::output::from_hex;
use firndb::Result;
use serde_json::{Map, Value as Json};
use std::io::BufRead;

/// The member that says when a record expires.
pub const EXPIRES_AT: &str = "expires_at";

/// Reads the objects of one input.
pub struct ObjectRecords {
    rows: JsonRows,
    input: usize,
    name: String,
    key: Option<String>,
    values: Vec<String>,
    record: bool,
}

impl ObjectRecords {
    pub fn new(
        reader: Box<dyn BufRead>,
        (input, name): (usize, String),
        wanted: &Wanted,
    ) -> ObjectRecords {
        ObjectRecords {
            rows: JsonRows::new(reader, name.as_str().into()),
            input,
            name,
            key: wanted.key.clone(),
            values: wanted.values.iter().map(|asked| asked.name.clone()).collect(),
            record: wanted.record,
        }
    }

    /// Puts key and value of an object into `out`; returns when the record expires.
    fn record(
        &self,
        object: Map<String, Json>,
        out: &mut (Vec<u8>, Vec<u8>),
    ) -> Outcome<Option<u64>> {
        let (key, value) = out;
        key.clear();
        value.clear();
        let Some(name) = &self.key else {
            let columns =
                [named_bytes(&object, "key", key)?, named_bytes(&object, "value", value)?];
            let known = |name: &str| columns.contains(&name) || name == EXPIRES_AT;
            return match object.keys().find(|name| !known(name)) {
                None => object.get(EXPIRES_AT).map_or(Ok(None), time),
                Some(name) => Err(format!(
                    "column `{name}` is not expected beside key and value; say which column is \
                     the key with --key"
                )),
            };
        };
        match object.get(name) {
            None => return Err(format!("there is no column `{name}`")),
            Some(Json::Array(_) | Json::Object(_)) => {
                return Err(format!("column `{name}`: a key is a text, a number or a boolean"));
            }
            Some(json) => scalar(name, json, key)?,
        }
        match &self.values[..] {
            [] => {
                let mut object = object;
                object.shift_remove(name);
                value.extend_from_slice(Json::Object(object).to_string().as_bytes());
            }
            [column] if !self.record => match object.get(column) {
                None => return Err(format!("there is no column `{column}`")),
                Some(json) => scalar(column, json, value)?,
            },
            columns => {
                let cell = |c: &String| Some((c.clone(), object.get(c)?.clone()));
                let object: Map<String, Json> = columns.iter().filter_map(cell).collect();
                value.extend_from_slice(Json::Object(object).to_string().as_bytes());
            }
        }
        Ok(None)
    }
}

/// The error is the reason why a line cannot be used.
type Outcome<T> = std::result::Result<T, String>;

/// The time of a member [`EXPIRES_AT`], in milliseconds since 1970. One before 1970 has passed just
/// as well as 1970 has.
fn time(json: &Json) -> Outcome<Option<u64>> {
    match json {
        Json::Null => Ok(None),
        json if json.as_i64().is_some_and(|time| time < 0) => Ok(Some(0)),
        json => json.as_u64().map(Some).ok_or_else(|| {
            let shown: String = json.to_string().chars().take(60).collect();
            format!(
                "column `{EXPIRES_AT}`: `{shown}` is not a time; write milliseconds since 1970, or \
                 say which column is the key with --key: then `{EXPIRES_AT}` is a part of the value"
            )
        }),
    }
}

fn scalar(name: &str, json: &Json, out: &mut Vec<u8>) -> Outcome<()> {
    cells::raw(Cell::Json(json), out).map_err(|reason| format!("column `{name}`: {reason}"))
}

/// Takes the bytes of the column `name`, or of `name_hex`, and says which one it was.
fn named_bytes<'a>(
    object: &'a Map<String, Json>,
    name: &str,
    out: &mut Vec<u8>,
) -> Outcome<&'a str> {
    let hexed = format!("{name}_hex");
    if let Some((column, json)) = object.get_key_value(name) {
        scalar(name, json, out)?;
        return Ok(column);
    }
    match object.get_key_value(&hexed) {
        Some((column, Json::String(digits))) => {
            out.extend(from_hex(digits).map_err(|e| format!("column `{hexed}`: {}", e.message()))?);
            Ok(column)
        }
        Some(_) => Err(format!("column `{hexed}` is not a text of hexadecimal digits")),
        None => Err(format!(
            "there is no column `{name}` or `{hexed}`; say which columns to take with --key and \
             --value"
        )),
    }
}

impl Records for ObjectRecords {
    fn shape(&mut self, _: &Wanted) -> Result<Option<Shape>> {
        Ok(Some(Shape::default()))
    }

    fn follow(&mut self, _: &Shape, _: &Wanted) -> Result<()> {
        Ok(())
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool> {
        let mut record = (Vec::new(), Vec::new());
        while !batch.is_full() {
            let Some((line, object)) = self.rows.next_object()? else { return Ok(false) };
            match object.and_then(|object| self.record(object, &mut record)) {
                Ok(expires) => {
                    let place = origin(self.input, line);
                    batch.push_expiring(place, &record.0, &record.1, expires);
                }
                Err(reason) => batch.bad.push(format!("{}:{line}: {reason}", self.name)),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Asked;

    fn read(lines: &str, key: Option<&str>, values: &[&str], record: bool) -> Vec<String> {
        let wanted = Wanted {
            key: key.map(str::to_string),
            values: values.iter().map(|v| Asked::parse(v).unwrap()).collect(),
            record,
            ..Wanted::default()
        };
        let reader = Box::new(std::io::Cursor::new(lines.as_bytes().to_vec()));
        let mut records = ObjectRecords::new(reader, (0, "a".to_string()), &wanted);
        let mut batch = Batch::default();
        while records.fill(&mut batch).unwrap() {}
        let show = |(_, key, value): (u64, &[u8], &[u8])| {
            format!("{} = {}", key.escape_ascii(), String::from_utf8_lossy(value))
        };
        batch.iter().map(show).chain(batch.bad.clone()).collect()
    }

    #[test]
    fn lines_of_keys_and_values() {
        let lines =
            "{\"key\":\"a\",\"value\":\"1 2\"}\n{\"key_hex\":\"00ff\",\"value\":{\"b\":[1]}}\n";
        assert_eq!(read(lines, None, &[], false), ["a = 1 2", "\\x00\\xff = {\"b\":[1]}"]);
        let lines =
            "{\"key\":\"a\"}\n{\"key\":\"a\",\"value_hex\":\"0\"}\n{\"key\":1,\"value\":2,\"c\":3}";
        let bad = read(lines, None, &[], false);
        assert!(bad[0].contains("a:1: there is no column `value`"), "{bad:?}");
        assert!(bad[1].contains("column `value_hex`"), "{bad:?}");
        assert!(bad[2].contains("`c` is not expected"), "{bad:?}");
    }

    #[test]
    fn lines_say_when_records_expire() {
        let line =
            |time: &str| format!("{{\"key\":\"a\",\"value\":\"1\",\"expires_at\":{time}}}\n");
        let times = ["7", "null", "-1", "18446744073709551615", "0"];
        let lines: String = times.map(line).concat();
        let reader = Box::new(std::io::Cursor::new(lines.into_bytes()));
        let wanted = Wanted::default();
        let mut records = ObjectRecords::new(reader, (0, "a".to_string()), &wanted);
        let mut batch = Batch::default();
        while records.fill(&mut batch).unwrap() {}
        let found: Vec<_> = batch.iter_expiring().map(|(.., expires)| expires).collect();
        assert_eq!(found, [Some(7), None, Some(0), Some(u64::MAX), Some(0)]);
        assert_eq!(batch.bad, [""; 0]);
        for wrong in ["1.5", "\"1\"", "true", "[1]", "{}", "1e3", "18446744073709551616", "-1e400"]
        {
            let bad = read(&line(wrong), None, &[], false);
            assert!(bad[0].contains("is not a time"), "{wrong}: {bad:?}");
        }
        // Beside a key that was chosen it is a column of the user's.
        let value = read(&line("\"soon\""), Some("key"), &[], false);
        assert_eq!(value, ["a = {\"value\":\"1\",\"expires_at\":\"soon\"}"]);
        assert_eq!(read(&line("5"), Some("key"), &["expires_at"], false), ["a = 5"]);
    }

    #[test]
    fn lines_of_columns() {
        let lines = "{\"id\":7,\"b\":\"x\",\"c\":null}\n{\"b\":1}\n{\"id\":[]}\n{\"id\":8}";
        let all = read(lines, Some("id"), &[], false);
        assert_eq!(all[..2], ["7 = {\"b\":\"x\",\"c\":null}", "8 = {}"]);
        assert!(all[2].contains("a:2: there is no column `id`"), "{all:?}");
        assert!(all[3].contains("a key is a text"), "{all:?}");
        assert_eq!(read(lines, Some("id"), &["b"], false)[0], "7 = x");
        assert_eq!(read(lines, Some("id"), &["b"], true)[0], "7 = {\"b\":\"x\"}");
        assert_eq!(read(lines, Some("id"), &["c", "b"], false)[0], "7 = {\"c\":null,\"b\":\"x\"}");
    }
}
