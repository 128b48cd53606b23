//! JSON lines for stores without a schema: an object a line, whose columns may differ from line to
//! line.
//!
//! Without a key column a line is `{"key": ..., "value": ...}`; `key_hex` and `value_hex` stand for
//! bytes that are not text. With one the value is an object of the other columns; or of the
//! columns that are named; or, if only one is named, that column as it is.

use super::cells::{self, Cell};
use super::feed::Wanted;
use super::shape::Shape;
use super::{Batch, Records, origin};
use crate::ingest::jsonl::JsonRows;
use crate::output::from_hex;
use firndb::Result;
use serde_json::{Map, Value as Json};
use std::io::BufRead;

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

    fn record(&self, object: Map<String, Json>, out: &mut (Vec<u8>, Vec<u8>)) -> Outcome {
        let (key, value) = out;
        key.clear();
        value.clear();
        let Some(name) = &self.key else {
            let columns =
                [named_bytes(&object, "key", key)?, named_bytes(&object, "value", value)?];
            return match object.keys().find(|name| !columns.contains(&name.as_str())) {
                None => Ok(()),
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
        Ok(())
    }
}

/// The reason why a line cannot be used.
type Outcome = std::result::Result<(), String>;

fn scalar(name: &str, json: &Json, out: &mut Vec<u8>) -> Outcome {
    cells::raw(Cell::Json(json), out).map_err(|reason| format!("column `{name}`: {reason}"))
}

/// Takes the bytes of the column `name`, or of `name_hex`, and says which one it was.
fn named_bytes<'a>(
    object: &'a Map<String, Json>,
    name: &str,
    out: &mut Vec<u8>,
) -> std::result::Result<&'a str, String> {
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
                Ok(()) => batch.push(origin(self.input, line), &record.0, &record.1),
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
