//! Documents to and from JSON values and types of serde.
//!
//! Objects in objects become fields named `outer.inner`, arrays of scalars several values of a
//! field, as in JSON lines; timestamps are RFC 3339 text, bytes hexadecimal digits.
//!
//! ```
//! use firndb::search::{Field, Roles, Schema, Type};
//! use firndb_ingest::document;
//! use serde_json::json;
//!
//! let tags = Field::new("tags", Type::String, Roles::FILTERABLE.with(Roles::STORED)).multi();
//! let schema = Schema::new([Field::new("price", Type::F64, Roles::FULL), tags])?;
//! let document = document::from_json(&schema, &json!({ "price": 12, "tags": ["a", "b"] }))?;
//! assert_eq!(document::to_json(&document), json!({ "price": 12.0, "tags": ["a", "b"] }));
//! assert!(document::from_json(&schema, &json!({ "price": "cheap" })).is_err());
//! # Ok::<(), firndb::Error>(())
//! ```

use crate::parse::json_lines::flatten;
use crate::row::{Position, Row};
use crate::typer::{BytesFormat, PayloadSource, Typer, TyperOptions};
use crate::value;
use firndb::search::{Document, Schema};
use firndb::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

/// The document of a JSON object, without a payload. Members that are not fields are ignored,
/// unless the schema is dynamic.
///
/// # Errors
///
/// `InvalidArgument` if the value is not an object, a member is not of the type of its field, or a
/// field that is not nullable has no value.
pub fn from_json(schema: &Schema, json: &Json) -> Result<Document> {
    let Json::Object(object) = json else {
        return Err(Error::invalid("a document is a JSON object"));
    };
    let mut cells = Vec::with_capacity(object.len());
    flatten(object.clone(), &mut cells)
        .map_err(|(column, reason)| Error::invalid(format!("column `{column}`: {reason}")))?;
    let row = Row { position: Position { file: "document".into(), line: 1 }, cells, json: None };
    let options = TyperOptions::default().payload(PayloadSource::None).bytes(BytesFormat::Hex);
    Typer::new(schema, options).document(&row).map_err(|bad| {
        let column = bad.column.map_or(String::new(), |column| format!("column `{column}`: "));
        Error::invalid(format!("{column}{}", bad.reason))
    })
}

/// The fields of a document as a JSON object. A field with several values is an array. The payload
/// is left out.
pub fn to_json(document: &Document) -> Json {
    let mut object = Map::new();
    for (name, value) in document.fields() {
        let json = value::to_json(value);
        match object.get_mut(name) {
            None => drop(object.insert(name.to_string(), json)),
            Some(Json::Array(values)) => values.push(json),
            Some(first) => *first = Json::Array(vec![first.take(), json]),
        }
    }
    Json::Object(object)
}

/// The document of a value whose type implements [`Serialize`], as [`from_json`] does.
///
/// # Errors
///
/// As [`from_json`]; `InvalidArgument` if the value cannot be expressed in JSON.
pub fn from_serde(schema: &Schema, value: &impl Serialize) -> Result<Document> {
    let json = serde_json::to_value(value).map_err(|e| Error::invalid(e.to_string()))?;
    from_json(schema, &json)
}

/// The fields of a document as a value of a type that implements
/// [`Deserialize`](serde::Deserialize). A multi-valued field with one value is not an array: see
/// [`to_json`].
///
/// # Errors
///
/// `InvalidArgument` if the document does not have the members of the type.
pub fn to_serde<T: DeserializeOwned>(document: &Document) -> Result<T> {
    serde_json::from_value(to_json(document)).map_err(|e| Error::invalid(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use firndb::search::{Field, Roles, Type, Value};
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn documents_round_trip_through_json_and_serde() {
        let full = |name, ty| Field::new(name, ty, Roles::FULL).nullable();
        let schema = Schema::new([
            full("id", Type::U64),
            full("geo.lat", Type::F64),
            full("seen", Type::Timestamp),
            full("raw", Type::Bytes),
        ])
        .unwrap();
        let json = json!({
            "id": u64::MAX, "geo": { "lat": -1.5 }, "seen": "1970-01-01T00:00:00.000001Z",
            "raw": "00ff", "other": 1,
        });
        let document = from_json(&schema, &json).unwrap();
        let expected = Document::new()
            .set("id", u64::MAX)
            .set("geo.lat", -1.5)
            .set("seen", Value::Timestamp(1))
            .set("raw", Value::Bytes(vec![0, 255]));
        assert_eq!(document, expected);
        assert_eq!(from_json(&schema, &to_json(&document)).unwrap(), document);
        let map = BTreeMap::from([("id", 7u64)]);
        let document = from_serde(&schema, &map).unwrap();
        assert_eq!(
            to_serde::<BTreeMap<String, u64>>(&document).unwrap(),
            [("id".into(), 7)].into()
        );
        let wrong = from_json(&schema, &json!({ "id": -1 })).unwrap_err().to_string();
        assert_eq!(wrong, "column `id`: `-1` is not of type u64");
        assert!(from_json(&schema, &json!([1])).is_err());
    }
}
