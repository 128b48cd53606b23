//! How values of a table are shown: as bytes, or as the JSON of rows.

use crate::value::{put_bytes, shown_key};
use firndb::{Error, Result};
use firndb_arrow::avro::{self, Decoder};
use serde_json::{Map, Value as Json};
use std::borrow::Cow;

/// How the values of a table are shown. Values that were built from rows are shown as JSON, by the
/// schema that the table has for them ([`firndb::table::Table::value_schema`]).
#[derive(Debug)]
pub struct Shown {
    decoder: Option<Decoder>,
}

impl Shown {
    /// Values are shown as bytes.
    pub fn bytes() -> Shown {
        Shown { decoder: None }
    }

    /// Values are shown by a schema; as bytes if the text is empty.
    ///
    /// # Errors
    ///
    /// The reason why the text is not an Avro schema. A program may store any text as the schema,
    /// so callers show the values as bytes then.
    pub fn new(schema: &str) -> Result<Shown, String> {
        let decoder = match schema {
            "" => None,
            schema => Some(Decoder::new(schema)?),
        };
        Ok(Shown { decoder })
    }

    /// Whether values are shown as JSON.
    pub fn is_json(&self) -> bool {
        self.decoder.is_some()
    }

    /// The type of values that are rows.
    pub fn record_type(&self) -> Option<&avro::Record> {
        match self.decoder.as_ref()?.schema() {
            avro::Type::Record(record) if record.name != avro::ANY => Some(record),
            _ => None,
        }
    }

    /// The names of the columns of values that are rows.
    pub fn columns(&self) -> Option<Vec<&str>> {
        self.decoder.as_ref()?.columns()
    }

    /// A value that is a record, as JSON; `None` if values are bytes.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the value does not follow the schema.
    pub fn record(&self, key: &[u8], value: &[u8]) -> Result<Option<Json>> {
        let decoded = self.decoder.as_ref().map(|decoder| decoder.json(value)).transpose();
        decoded.map_err(|reason| {
            let key = shown_key(key);
            Error::corrupt(format!("the value of {key} does not follow the schema: {reason}"))
        })
    }

    /// A value as text: its bytes, or a record as JSON.
    ///
    /// # Errors
    ///
    /// As of [`Shown::record`].
    pub fn text<'a>(&self, key: &[u8], value: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        Ok(match self.record(key, value)? {
            Some(json) => Cow::Owned(json.to_string().into_bytes()),
            None => Cow::Borrowed(value),
        })
    }

    /// Adds `value` to a JSON object, or `value_hex` for bytes that are not text.
    ///
    /// # Errors
    ///
    /// As of [`Shown::record`].
    pub fn json(&self, key: &[u8], value: &[u8], object: &mut Map<String, Json>) -> Result<()> {
        match self.record(key, value)? {
            Some(json) => {
                object.insert("value".to_string(), json);
            }
            None => put_bytes(object, "value", value),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"record","name":"r","fields":[{"name":"n","type":"long"}]}"#;

    #[test]
    fn values_are_shown_by_their_schema() {
        let mut object = Map::new();
        let rows = Shown::new(SCHEMA).unwrap();
        assert!(rows.is_json() && rows.record_type().is_some());
        assert_eq!(rows.text(b"k", &[14]).unwrap(), &br#"{"n":7}"#[..]);
        rows.json(b"k", &[14], &mut object).unwrap();
        let error = rows.record(b"k", &[]).unwrap_err();
        assert!(error.to_string().contains("the value of `k`"), "{error}");
        let bytes = Shown::new("").unwrap();
        assert!(!bytes.is_json() && bytes.record(b"k", &[14]).unwrap().is_none());
        bytes.json(b"k", &[0xff], &mut object).unwrap();
        assert_eq!(Json::from(object).to_string(), r#"{"value":{"n":7},"value_hex":"ff"}"#);
        assert!(Shown::new("not a schema").is_err());
    }
}
