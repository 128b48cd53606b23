//! Avro schemas and Avro's binary encoding ([specification 1.12][spec]): the format in which tables
//! store values of several columns.
//!
//! A value is one datum without a header. The schema is stored once, in the table
//! ([`firndb::table::Table::value_schema`]). Bytes and schemas come from files and are treated as
//! hostile: [`Decoder`] limits nesting and counts, never panics, and allocates no more than a
//! constant times the length of the datum plus [`MAX_EMPTY_ITEMS`] items. Decision 0023 says why
//! this is not the crate `apache-avro`.
//!
//! [spec]: https://avro.apache.org/docs/1.12.0/specification/

mod decode;
pub mod encode;
mod parse;
pub(crate) mod text;

pub use decode::Decoder;
pub(crate) use decode::{Reader, named_types};

use serde_json::{Map, Value as Json, json};

/// Maximum nesting of a schema.
pub const MAX_DEPTH: usize = 128;

/// Maximum nesting of a datum. One level of JSON in a [`Type::any`] takes four levels: the
/// reference to the type, its record, the union, and the array or map. The JSON parser accepts 127
/// levels.
pub const MAX_DATUM_DEPTH: usize = 4 * 128 + 8;

/// Maximum number of items and fields in one datum that take no bytes: nulls, and records without
/// fields. All others are limited by the length of the datum.
pub const MAX_EMPTY_ITEMS: usize = 1 << 20;

/// Name of the record type that holds any JSON value. The record itself takes no bytes.
pub const ANY: &str = "firndb.Json";

/// Name of the record type, in that of [`ANY`], that holds the text of a number that neither a long
/// nor a double returns with all its digits.
pub const NUMBER: &str = "firndb.Number";

/// An Avro type, with the logical types that FirnDB uses.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Takes no bytes.
    Null,
    /// One byte.
    Boolean,
    /// 32 bits, signed.
    Int,
    /// 64 bits, signed.
    Long,
    /// 32 bits, IEEE 754.
    Float,
    /// 64 bits, IEEE 754.
    Double,
    /// Any bytes.
    Bytes,
    /// UTF-8.
    String,
    /// Days since 1970-01-01.
    Date,
    /// Milliseconds since midnight.
    TimeMillis,
    /// Microseconds since midnight.
    TimeMicros,
    /// Nanoseconds since midnight. Other programs read a long: the logical type is FirnDB's own.
    TimeNanos,
    /// A length of time, which can be negative. Other programs read a long: the logical type is
    /// FirnDB's own.
    Duration(Unit),
    /// Time since 1970-01-01 00:00.
    Timestamp {
        /// What one step of the number is.
        unit: Unit,
        /// A local date and time without a time zone, instead of an instant in UTC.
        local: bool,
    },
    /// An integer of any width times a negative power of ten.
    Decimal {
        /// Maximum number of digits.
        precision: u32,
        /// Digits after the decimal point.
        scale: u32,
    },
    /// Bytes of a fixed number.
    Fixed {
        /// Name of the type.
        name: String,
        /// Bytes of each value.
        size: usize,
        /// Maximum number of digits, and digits after the decimal point, if the values are
        /// decimals.
        decimal: Option<(u32, u32)>,
    },
    /// One of several names.
    Enum {
        /// Name of the type.
        name: String,
        /// The names, in the order of their numbers.
        symbols: Vec<String>,
    },
    /// A list of items of one type.
    Array(Box<Type>),
    /// Values of one type by string keys.
    Map(Box<Type>),
    /// A value of one of several types.
    Union(Vec<Type>),
    /// Fields with names.
    Record(Record),
    /// A reference to a type that is defined earlier in the schema, by its name.
    Named(String),
}

/// The unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds, of durations only.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

/// A record type.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Name of the type.
    pub name: String,
    /// The fields, in the order of their encoding.
    pub fields: Vec<Field>,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name of the column. Unlike an Avro name it can be any text: the schema's JSON then has it in
    /// an attribute `column` of its own.
    pub column: String,
    /// Type of the field.
    pub ty: Type,
}

impl Type {
    /// The union of null and this type.
    pub fn nullable(self) -> Type {
        Type::Union(vec![Type::Null, self])
    }

    /// The type of any JSON value: a record of one field that refers to itself.
    pub fn any() -> Type {
        let record = |name: &str, column: &str, ty: Type| {
            let field = Field { column: column.to_string(), ty };
            Type::Record(Record { name: name.to_string(), fields: vec![field] })
        };
        let this = || Box::new(Type::Named(ANY.to_string()));
        let types = vec![
            Type::Null,
            Type::Boolean,
            Type::Long,
            Type::Double,
            Type::String,
            Type::Array(this()),
            Type::Map(this()),
            record(NUMBER, "text", Type::String),
        ];
        record(ANY, "value", Type::Union(types))
    }

    /// Whether this is [`Type::any`], or a reference to it.
    pub fn is_any(&self) -> bool {
        match self {
            Type::Named(name) => name == ANY,
            Type::Record(record) => record.name == ANY,
            _ => false,
        }
    }

    /// Whether a datum can have more items without bytes than its length allows, so that encoders
    /// must check the limit [`MAX_EMPTY_ITEMS`].
    pub fn has_empty_items(&self) -> bool {
        self.contains_empty(false)
    }

    fn contains_empty(&self, repeated: bool) -> bool {
        match self {
            Type::Null => repeated,
            Type::Array(inner) | Type::Map(inner) => inner.contains_empty(true),
            // The branch number of a union takes a byte, so a null in it is not empty.
            Type::Union(types) => {
                types.iter().any(|ty| *ty != Type::Null && ty.contains_empty(repeated))
            }
            Type::Record(Record { fields, .. }) => {
                let has_empty = fields.iter().any(|field| field.ty.contains_empty(repeated));
                repeated && fields.is_empty() || has_empty
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
            Type::TimeNanos => logical("long", "time-nanos"),
            Type::Duration(unit) => logical("long", &format!("duration-{}", unit.name())),
            Type::Timestamp { unit, local } => {
                let local = if *local { "local-" } else { "" };
                logical("long", &format!("{local}timestamp-{}", unit.name()))
            }
            Type::Decimal { precision, scale } => json!({
                "type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale,
            }),
            Type::Fixed { name, size, decimal: None } => {
                json!({ "type": "fixed", "name": name, "size": size })
            }
            Type::Fixed { name, size, decimal: Some((precision, scale)) } => json!({
                "type": "fixed", "name": name, "size": size,
                "logicalType": "decimal", "precision": precision, "scale": scale,
            }),
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
    /// Steps of this unit in a second.
    pub(crate) fn per_second(self) -> i64 {
        match self {
            Unit::Seconds => 1,
            Unit::Millis => 1_000,
            Unit::Micros => 1_000_000,
            Unit::Nanos => 1_000_000_000,
        }
    }

    /// What precedes "seconds" in its name.
    fn prefix(self) -> &'static str {
        match self {
            Unit::Seconds => "",
            Unit::Millis => "milli",
            Unit::Micros => "micro",
            Unit::Nanos => "nano",
        }
    }

    fn parse(name: &str) -> Option<Unit> {
        let all = [Unit::Seconds, Unit::Millis, Unit::Micros, Unit::Nanos];
        all.into_iter().find(|unit| unit.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "seconds",
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
            // The specification allows additional attributes as metadata.
            if name != field.column {
                object.insert("column".to_string(), field.column.as_str().into());
            }
            names.push(name);
            fields.push(Json::Object(object));
        }
        json!({ "type": "record", "name": self.name, "fields": fields })
    }
}

/// A valid Avro name (`[A-Za-z_][A-Za-z0-9_]*`) for a column that is not among `taken`.
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
    fn schemas_with_empty_items_are_detected() {
        let list = |ty: Type| Type::Array(Box::new(ty));
        let record = |fields: &[Type]| {
            let field = |ty: &Type| Field { column: "a".to_string(), ty: ty.clone() };
            Type::Record(Record {
                name: "R".to_string(),
                fields: fields.iter().map(field).collect(),
            })
        };
        let yes = [list(Type::Null), list(record(&[])), list(record(&[Type::Null]).nullable())];
        assert!(yes.iter().all(Type::has_empty_items));
        let no = [Type::Null, record(&[Type::Null]), list(Type::Int.nullable()), Type::any()];
        assert!(!no.iter().any(Type::has_empty_items));
    }

    #[test]
    fn a_schema_round_trips_through_json() {
        let fields = [
            ("id", Type::Long),
            ("a b", Type::String.nullable()),
            ("a.b", Type::Decimal { precision: 9, scale: 2 }),
            ("7", Type::Array(Box::new(Type::Timestamp { unit: Unit::Micros, local: true }))),
            ("any", Type::any()),
            ("more", Type::Named(ANY.to_string())),
            ("f", Type::Fixed { name: "F".to_string(), size: 4, decimal: None }),
            ("g", Type::Fixed { name: "G".to_string(), size: 4, decimal: Some((9, 2)) }),
            ("e", Type::Enum { name: "E".to_string(), symbols: vec!["X".to_string()] }),
            ("m", Type::Map(Box::new(Type::Date))),
            ("t", Type::TimeNanos),
            ("d", Type::Duration(Unit::Seconds)),
        ];
        let field = |(column, ty): (&str, Type)| Field { column: column.to_string(), ty };
        let fields: Vec<Field> = fields.into_iter().map(field).collect();
        let ty = Type::Record(Record { name: "Row".to_string(), fields });
        let json = ty.to_json();
        let names: Vec<_> = json["fields"].as_array().unwrap().iter().map(|f| &f["name"]).collect();
        assert_eq!(names, ["id", "a_b", "a_b_", "_7", "any", "more", "f", "g", "e", "m", "t", "d"]);
        assert_eq!(json["fields"][1]["column"], "a b");
        assert_eq!(
            json["fields"][3]["type"]["items"],
            json!({ "type": "long", "logicalType": "local-timestamp-micros" })
        );
        assert_eq!(Type::parse(&json.to_string()), Ok(ty));
    }
}
