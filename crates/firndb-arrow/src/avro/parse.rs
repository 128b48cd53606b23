//! Parses Avro schemas.

use crate::avro::{Field, MAX_DEPTH, Record, Type, Unit};
use serde_json::{Map, Value as Json};

/// The error is the reason why a text is not a schema.
type Result<T> = std::result::Result<T, String>;

impl Type {
    /// Parses the JSON text of a schema. Names are used as written: namespaces are not resolved.
    ///
    /// # Errors
    ///
    /// The reason, for text that is not JSON, lacks an attribute, refers to a type that is not
    /// defined, or is nested more deeply than [`MAX_DEPTH`].
    pub fn parse(text: &str) -> Result<Type> {
        // serde_json limits the nesting of the text.
        let json: Json = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let ty = read(&json, 0)?;
        check_names(&ty, &mut Vec::new())?;
        Ok(ty)
    }
}

fn read(json: &Json, depth: usize) -> Result<Type> {
    if depth > MAX_DEPTH {
        return Err("it is nested too deeply".to_string());
    }
    match json {
        Json::String(name) => Ok(primitive(name).unwrap_or_else(|| Type::Named(name.clone()))),
        Json::Array(types) => {
            let types = types.iter().map(|ty| read(ty, depth + 1)).collect::<Result<_>>();
            Ok(Type::Union(types?))
        }
        Json::Object(object) => complex(object, depth),
        other => Err(format!("{other} is not a type")),
    }
}

fn primitive(name: &str) -> Option<Type> {
    Some(match name {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "int" => Type::Int,
        "long" => Type::Long,
        "float" => Type::Float,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "string" => Type::String,
        _ => return None,
    })
}

fn complex(object: &Map<String, Json>, depth: usize) -> Result<Type> {
    let need = |key: &str| object.get(key).ok_or_else(|| format!("a type lacks `{key}`"));
    let text = |key: &str| {
        need(key)?.as_str().map(str::to_string).ok_or_else(|| format!("`{key}` is not a text"))
    };
    let list = |key: &str| need(key)?.as_array().ok_or_else(|| format!("`{key}` is not a list"));
    let base = need("type")?;
    let Some(name) = base.as_str() else { return read(base, depth + 1) };
    Ok(match name {
        "record" => {
            let fields = list("fields")?.iter().map(|field| read_field(field, depth + 1));
            Type::Record(Record { name: text("name")?, fields: fields.collect::<Result<_>>()? })
        }
        "enum" => {
            let symbols = list("symbols")?.iter().map(|s| s.as_str().map(str::to_string));
            let symbols = symbols.collect::<Option<Vec<String>>>();
            let symbols = symbols.ok_or("a symbol is not a text")?;
            Type::Enum { name: text("name")?, symbols }
        }
        "fixed" => {
            let size = need("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
            Type::Fixed { name: text("name")?, size: size.ok_or("`size` is not a size")? }
        }
        "array" => Type::Array(Box::new(read(need("items")?, depth + 1)?)),
        "map" => Type::Map(Box::new(read(need("values")?, depth + 1)?)),
        name => {
            let plain = primitive(name).unwrap_or_else(|| Type::Named(name.to_string()));
            let logical = object.get("logicalType").and_then(Json::as_str).unwrap_or_default();
            logical_type(&plain, logical, object).unwrap_or(plain)
        }
    })
}

/// The logical type; `None` if it is unknown, and then the underlying type is used, as the
/// specification demands.
fn logical_type(plain: &Type, logical: &str, object: &Map<String, Json>) -> Option<Type> {
    let number = |key: &str| object.get(key).and_then(Json::as_u64).and_then(|n| n.try_into().ok());
    Some(match (plain, logical) {
        (Type::Int, "date") => Type::Date,
        (Type::Int, "time-millis") => Type::TimeMillis,
        (Type::Long, "time-micros") => Type::TimeMicros,
        (Type::Bytes, "decimal") => {
            Type::Decimal { precision: number("precision")?, scale: number("scale").unwrap_or(0) }
        }
        (Type::Long, name) => {
            let (local, name) = match name.strip_prefix("local-") {
                Some(rest) => (true, rest),
                None => (false, name),
            };
            let unit = match name.strip_prefix("timestamp-")? {
                "millis" => Unit::Millis,
                "micros" => Unit::Micros,
                "nanos" => Unit::Nanos,
                _ => return None,
            };
            Type::Timestamp { unit, local }
        }
        _ => return None,
    })
}

fn read_field(json: &Json, depth: usize) -> Result<Field> {
    let name = json.get("name").and_then(Json::as_str).ok_or("a field has no name")?;
    let column = json.get("column").and_then(Json::as_str).unwrap_or(name);
    let ty = json.get("type").ok_or_else(|| format!("field {name} has no type"))?;
    Ok(Field { column: column.to_string(), ty: read(ty, depth)? })
}

/// Checks that each reference names a type that is defined before it.
fn check_names<'a>(ty: &'a Type, defined: &mut Vec<&'a str>) -> Result<()> {
    match ty {
        Type::Named(name) if !defined.contains(&name.as_str()) => {
            Err(format!("the type `{name}` is not defined"))
        }
        Type::Fixed { name, .. } | Type::Enum { name, .. } => {
            defined.push(name);
            Ok(())
        }
        Type::Array(inner) | Type::Map(inner) => check_names(inner, defined),
        Type::Union(types) => types.iter().try_for_each(|ty| check_names(ty, defined)),
        Type::Record(record) => {
            defined.push(&record.name);
            record.fields.iter().try_for_each(|field| check_names(&field.ty, defined))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_schemas_are_refused_with_the_reason() {
        let why = |text: &str| Type::parse(text).unwrap_err();
        assert!(why("\"missing\"").contains("`missing` is not defined"));
        assert!(why("{").contains("EOF"));
        assert!(why("7").contains("7 is not a type"));
        assert!(why(r#"{"type":"record","name":"R"}"#).contains("lacks `fields`"));
        assert!(why(&("[".repeat(5000) + &"]".repeat(5000))).contains("recursion"));
        let unknown = r#"{"type":"string","logicalType":"uuid"}"#;
        assert_eq!(Type::parse(unknown), Ok(Type::String));
    }
}
