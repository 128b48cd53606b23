//! JSON lines for stores without a schema: an object per line, whose columns can differ from line
//! to line.
//!
//! Without a key column a line is `{"key": ..., "value": ...}`, as [`RecordWriter`] writes it.
//! Bytes that are not text are `key_hex` and `value_hex`; `expires_at` is the time at which the
//! record expires, in milliseconds since 1970. With a key column the value is an object of the
//! other columns or of the chosen columns, or the bytes of a single chosen column; `expires_at` is
//! an ordinary column.
//!
//! [`RecordWriter`]: crate::RecordWriter

use crate::parse::json_lines::JsonRows;
use crate::parse::text_input::TextInput;
use crate::records::ReadRecords;
use crate::records::batch::{KeyValueBatch, origin};
use crate::records::cells::{self, Cell};
use crate::records::key::write_key;
use crate::records::layout::Layout;
use crate::records::options::RecordOptions;
use crate::value::from_hex;
use firndb::Result;
use serde_json::{Map, Value as Json};

/// The member of JSON lines that holds the time at which a record expires, in milliseconds since
/// 1970.
pub const EXPIRES_AT: &str = "expires_at";

/// Reads the objects of one input.
pub(crate) struct ObjectRecords {
    rows: JsonRows,
    input: usize,
    name: String,
    keys: Vec<String>,
    row_number: bool,
    values: Vec<String>,
    record: bool,
    /// Whether records can expire: those of a table cannot.
    can_expire: bool,
}

impl ObjectRecords {
    pub(crate) fn new(
        reader: TextInput,
        (input, name): (usize, String),
        options: &RecordOptions,
    ) -> ObjectRecords {
        ObjectRecords {
            rows: JsonRows::new(reader, name.as_str().into(), &options.dialect),
            input,
            name,
            keys: options.keys.clone(),
            row_number: options.row_number,
            values: options.values.iter().map(|column| column.name.clone()).collect(),
            record: options.record,
            can_expire: options.json_values,
        }
    }

    /// Writes key and value of an object to `out`. Returns when the record expires.
    fn record(
        &self,
        object: Map<String, Json>,
        number: u64,
        out: &mut (Vec<u8>, Vec<u8>),
    ) -> Outcome<Option<u64>> {
        let (key, value) = out;
        key.clear();
        value.clear();
        if self.keys.is_empty() && !self.row_number {
            let columns =
                [named_bytes(&object, "key", key)?, named_bytes(&object, "value", value)?];
            let known = |name: &str| columns.contains(&name) || name == EXPIRES_AT;
            return match object.keys().find(|name| !known(name)) {
                None => match object.get(EXPIRES_AT).map_or(Ok(None), time)? {
                    Some(_) if !self.can_expire => Err(format!(
                        "column `{EXPIRES_AT}`: the record expires, and records of a table cannot; \
                         leave the column out, or name the columns with --key and --value"
                    )),
                    time => Ok(time),
                },
                Some(name) => Err(format!(
                    "column `{name}` is not expected beside key and value; say which column is \
                     the key with --key"
                )),
            };
        }
        if let Some(name) = self.keys.iter().find(|name| !object.contains_key(*name)) {
            return Err(format!("there is no column `{name}`"));
        }
        let part = |column: usize, key: &mut Vec<u8>| {
            cells::key(object.get(&self.keys[column]).map_or(Cell::Missing, Cell::Json), key)
        };
        write_key(self.keys.len(), key, part)
            .map_err(|(column, reason)| format!("column `{}`: {reason}", self.keys[column]))?;
        if self.row_number {
            key.extend_from_slice(number.to_string().as_bytes());
        }
        match &self.values[..] {
            [] => {
                let mut object = object;
                object.retain(|name, _| !self.keys.contains(name));
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

/// The time of a member [`EXPIRES_AT`]. A time before 1970 becomes 1970: both have passed.
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

/// Appends the bytes of the column `name` or `name_hex`. Returns the name of the one that exists.
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

impl ReadRecords for ObjectRecords {
    fn infer_layout(&mut self, _: &RecordOptions) -> Result<Option<Layout>> {
        Ok(Some(Layout::default()))
    }

    fn set_layout(&mut self, _: &Layout, _: &RecordOptions) -> Result<()> {
        Ok(())
    }

    fn fill(&mut self, batch: &mut KeyValueBatch) -> Result<bool> {
        let mut record = (Vec::new(), Vec::new());
        while !batch.is_full() {
            let Some((line, object)) = self.rows.next_object()? else { return Ok(false) };
            let number = batch.rows() + 1;
            match object.and_then(|object| self.record(object, number, &mut record)) {
                Ok(expires) => {
                    let origin = origin(self.input, line);
                    batch.push_expiring(origin, &record.0, &record.1, expires);
                }
                Err(reason) => batch.push_bad(format!("{}:{line}: {reason}", self.name)),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::options::ValueColumn;

    fn read(lines: &str, key: Option<&str>, values: &[&str], record: bool) -> Vec<String> {
        let options = RecordOptions {
            keys: key.map(str::to_string).into_iter().collect(),
            values: values.iter().map(|v| ValueColumn::parse(v).unwrap()).collect(),
            record,
            json_values: true,
            ..RecordOptions::default()
        };
        let reader = Box::new(std::io::Cursor::new(lines.as_bytes().to_vec()));
        let reader = TextInput::new(reader, "a", &options.dialect, false).unwrap();
        let mut records = ObjectRecords::new(reader, (0, "a".to_string()), &options);
        let mut batch = KeyValueBatch::default();
        while records.fill(&mut batch).unwrap() {}
        let show = |(_, key, value): (u64, &[u8], &[u8])| {
            format!("{} = {}", key.escape_ascii(), String::from_utf8_lossy(value))
        };
        batch.iter().map(show).chain(batch.bad_rows().iter().cloned()).collect()
    }

    #[test]
    fn lines_of_keys_and_values_are_read() {
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
    fn expiry_times_are_read() {
        let line =
            |time: &str| format!("{{\"key\":\"a\",\"value\":\"1\",\"expires_at\":{time}}}\n");
        let times = ["7", "null", "-1", "18446744073709551615", "0"];
        let lines: String = times.map(line).concat();
        let reader = Box::new(std::io::Cursor::new(lines.into_bytes()));
        let options = RecordOptions::default().json_values(true);
        let reader = TextInput::new(reader, "a", &options.dialect, false).unwrap();
        let mut records = ObjectRecords::new(reader, (0, "a".to_string()), &options);
        let mut batch = KeyValueBatch::default();
        while records.fill(&mut batch).unwrap() {}
        let found: Vec<_> = batch.iter_expiring().map(|(.., expires)| expires).collect();
        assert_eq!(found, [Some(7), None, Some(0), Some(u64::MAX), Some(0)]);
        assert!(batch.bad_rows().is_empty());
        for wrong in ["1.5", "\"1\"", "true", "[1]", "{}", "1e3", "18446744073709551616", "-1e400"]
        {
            let bad = read(&line(wrong), None, &[], false);
            assert!(bad[0].contains("is not a time"), "{wrong}: {bad:?}");
        }
        // With a key column it is an ordinary column.
        let value = read(&line("\"soon\""), Some("key"), &[], false);
        assert_eq!(value, ["a = {\"value\":\"1\",\"expires_at\":\"soon\"}"]);
        assert_eq!(read(&line("5"), Some("key"), &["expires_at"], false), ["a = 5"]);
    }

    #[test]
    fn lines_of_columns_are_read() {
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
