//! Avro's binary encoding of records, and their schemas as JSON (Avro specification 1.12): how a
//! table keeps rows of several columns.
//!
//! A value is one datum without any header; the schema is kept once, in the file. What is read from
//! a file is taken for hostile: depths and counts are limited.

pub mod decode;
pub mod encode;
mod parse;

use serde_json::{Map, Value as Json, json};

/// Levels of nesting of a schema.
pub const MAX_DEPTH: usize = 128;

/// Levels of nesting of a datum. Of these a level of [`Type::any`] has four: the name of the type,
/// its record, the union, and the array or map. A JSON text has 127 levels at most.
pub const MAX_DATUM_DEPTH: usize = 4 * 128 + 8;

/// Items and fields of a datum that may have no bytes of their own: nulls, and records of them.
pub const MAX_WEIGHTLESS: usize = 1 << 20;

/// Name of the record that holds any JSON value; it has no bytes of its own.
pub const ANY: &str = "firndb.Json";

/// A type of values.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    /// Days since 1970-01-01.
    Date,
    /// Milliseconds since midnight.
    TimeMillis,
    /// Microseconds since midnight.
    TimeMicros,
    Timestamp {
        unit: Unit,
        /// A time on the clock of an unnamed place, not an instant.
        local: bool,
    },
    Decimal {
        precision: u32,
        scale: u32,
    },
    Fixed {
        name: String,
        size: usize,
    },
    Enum {
        name: String,
        symbols: Vec<String>,
    },
    Array(Box<Type>),
    Map(Box<Type>),
    Union(Vec<Type>),
    Record(Record),
    /// A type that was defined before, by its name.
    Named(String),
}

/// Fractions of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Millis,
    Micros,
    Nanos,
}

/// A record type.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub name: String,
    pub fields: Vec<Field>,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name of the column.
    pub column: String,
    pub ty: Type,
}

impl Type {
    /// This type or null.
    pub fn nullable(self) -> Type {
        Type::Union(vec![Type::Null, self])
    }

    /// The type of any JSON value: a record of one field, which refers to itself.
    pub fn any() -> Type {
        let this = || Box::new(Type::Named(ANY.to_string()));
        let types = vec![
            Type::Null,
            Type::Boolean,
            Type::Long,
            Type::Double,
            Type::String,
            Type::Array(this()),
            Type::Map(this()),
        ];
        let field = Field { column: "value".to_string(), ty: Type::Union(types) };
        Type::Record(Record { name: ANY.to_string(), fields: vec![field] })
    }

    /// Whether this is [`Type::any`], defined here or before.
    pub fn is_any(&self) -> bool {
        match self {
            Type::Named(name) => name == ANY,
            Type::Record(record) => record.name == ANY,
            _ => false,
        }
    }

    /// Whether a datum may have any number of items without bytes.
    pub fn has_weightless_items(&self) -> bool {
        self.is_weightless(false)
    }

    fn is_weightless(&self, repeated: bool) -> bool {
        match self {
            Type::Null => repeated,
            Type::Array(inner) | Type::Map(inner) => inner.is_weightless(true),
            // The number of the type is a byte.
            Type::Union(types) => {
                types.iter().any(|ty| *ty != Type::Null && ty.is_weightless(repeated))
            }
            Type::Record(Record { fields, .. }) => {
                repeated && fields.is_empty() || fields.iter().any(|f| f.ty.is_weightless(repeated))
            }
            _ => false,
        }
    }

    /// The schema as JSON.
    pub fn to_json(&self) -> Json {
        let logical = |base: &str, name: &str| json!({ "type": base, "logicalType": name });
        match self {
            Type::Null => "null".into(),
            Type::Boolean => "boolean".into(),
            Type::Int => "int".into(),
            Type::Long => "long".into(),
            Type::Float => "float".into(),
            Type::Double => "double".into(),
            Type::Bytes => "bytes".into(),
            Type::String => "string".into(),
            Type::Date => logical("int", "date"),
            Type::TimeMillis => logical("int", "time-millis"),
            Type::TimeMicros => logical("long", "time-micros"),
            Type::Timestamp { unit, local } => {
                let local = if *local { "local-" } else { "" };
                logical("long", &format!("{local}timestamp-{}", unit.name()))
            }
            Type::Decimal { precision, scale } => json!({
                "type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale,
            }),
            Type::Fixed { name, size } => json!({ "type": "fixed", "name": name, "size": size }),
            Type::Enum { name, symbols } => {
                json!({ "type": "enum", "name": name, "symbols": symbols })
            }
            Type::Array(items) => json!({ "type": "array", "items": items.to_json() }),
            Type::Map(values) => json!({ "type": "map", "values": values.to_json() }),
            Type::Union(types) => types.iter().map(Type::to_json).collect(),
            Type::Record(record) => record.to_json(),
            Type::Named(name) => name.as_str().into(),
        }
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Millis => "millis",
            Unit::Micros => "micros",
            Unit::Nanos => "nanos",
        }
    }
}

impl Record {
    fn to_json(&self) -> Json {
        let mut names: Vec<String> = Vec::with_capacity(self.fields.len());
        let mut fields = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let name = free_name(&field.column, &names);
            let mut object = Map::new();
            object.insert("name".to_string(), name.as_str().into());
            object.insert("type".to_string(), field.ty.to_json());
            // Avro lets a schema have attributes of one's own.
            if name != field.column {
                object.insert("column".to_string(), field.column.as_str().into());
            }
            names.push(name);
            fields.push(Json::Object(object));
        }
        json!({ "type": "record", "name": self.name, "fields": fields })
    }
}

/// A name that Avro allows (`[A-Za-z_][A-Za-z0-9_]*`) for a column, unlike those `taken`.
pub fn free_name(column: &str, taken: &[String]) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut name: String = column.chars().map(plain).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    while taken.contains(&name) {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_without_bytes_are_found() {
        let list = |ty: Type| Type::Array(Box::new(ty));
        let record = |fields: &[Type]| {
            let field = |ty: &Type| Field { column: "a".to_string(), ty: ty.clone() };
            Type::Record(Record {
                name: "R".to_string(),
                fields: fields.iter().map(field).collect(),
            })
        };
        let yes = [list(Type::Null), list(record(&[])), list(record(&[Type::Null]).nullable())];
        assert!(yes.iter().all(Type::has_weightless_items));
        let no = [Type::Null, record(&[Type::Null]), list(Type::Int.nullable()), Type::any()];
        assert!(!no.iter().any(Type::has_weightless_items));
    }

    #[test]
    fn a_schema_becomes_json_and_comes_back() {
        let fields = [
            ("id", Type::Long),
            ("a b", Type::String.nullable()),
            ("a.b", Type::Decimal { precision: 9, scale: 2 }),
            ("7", Type::Array(Box::new(Type::Timestamp { unit: Unit::Micros, local: true }))),
            ("any", Type::any()),
            ("more", Type::Named(ANY.to_string())),
            ("f", Type::Fixed { name: "F".to_string(), size: 4 }),
            ("e", Type::Enum { name: "E".to_string(), symbols: vec!["X".to_string()] }),
            ("m", Type::Map(Box::new(Type::Date))),
        ];
        let field = |(column, ty): (&str, Type)| Field { column: column.to_string(), ty };
        let fields: Vec<Field> = fields.into_iter().map(field).collect();
        let ty = Type::Record(Record { name: "Row".to_string(), fields });
        let json = ty.to_json();
        let names: Vec<_> = json["fields"].as_array().unwrap().iter().map(|f| &f["name"]).collect();
        assert_eq!(names, ["id", "a_b", "a_b_", "_7", "any", "more", "f", "e", "m"]);
        assert_eq!(json["fields"][1]["column"], "a b");
        assert_eq!(
            json["fields"][3]["type"]["items"],
            json!({ "type": "long", "logicalType": "local-timestamp-micros" })
        );
        assert_eq!(Type::parse(&json.to_string()), Ok(ty));
    }
}
