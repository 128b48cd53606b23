//! Parses Avro schemas.

use crate::avro::{Field, MAX_DEPTH, Record, Type, Unit};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;

/// The error is the reason why a text is not a schema.
type Result<T> = std::result::Result<T, String>;

impl Type {
    /// Parses the JSON text of a schema. The names of types are full names: namespaces are
    /// resolved. Aliases, defaults, documentation and the order of fields are ignored.
    ///
    /// # Errors
    ///
    /// The reason, for text that is not JSON, lacks an attribute, defines a type twice, refers to a
    /// type that is not defined, or is nested more deeply than [`MAX_DEPTH`].
    pub fn parse(text: &str) -> Result<Type> {
        // serde_json limits the nesting of the text.
        let json: Json = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let ty = read(&json, "", 0)?;
        check_names(&ty, &mut HashSet::new())?;
        Ok(ty)
    }
}

/// The type that `json` states. `namespace` is that of the enclosing type.
fn read(json: &Json, namespace: &str, depth: usize) -> Result<Type> {
    if depth > MAX_DEPTH {
        return Err("it is nested too deeply".to_string());
    }
    match json {
        Json::String(name) => {
            Ok(primitive(name).unwrap_or_else(|| Type::Named(full_name(name, namespace))))
        }
        Json::Array(types) => {
            let types = types.iter().map(|ty| read(ty, namespace, depth + 1));
            let types = types.collect::<Result<_>>();
            Ok(Type::Union(types?))
        }
        Json::Object(object) => complex(object, namespace, depth),
        other => Err(format!("{other} is not a type")),
    }
}

/// A name with its namespace, unless it has one.
fn full_name(name: &str, namespace: &str) -> String {
    match name.strip_prefix('.') {
        Some(name) => name.to_string(),
        None if namespace.is_empty() || name.contains('.') => name.to_string(),
        None => format!("{namespace}.{name}"),
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

fn complex(object: &Map<String, Json>, outer: &str, depth: usize) -> Result<Type> {
    let need = |key: &str| object.get(key).ok_or_else(|| format!("a type lacks `{key}`"));
    let text = |key: &str| {
        need(key)?.as_str().map(str::to_string).ok_or_else(|| format!("`{key}` is not a text"))
    };
    let list = |key: &str| need(key)?.as_array().ok_or_else(|| format!("`{key}` is not a list"));
    let base = need("type")?;
    let Some(base) = base.as_str() else { return read(base, outer, depth + 1) };
    let own = object.get("namespace").and_then(Json::as_str).unwrap_or(outer);
    let name = || text("name").map(|name| full_name(&name, own));
    Ok(match base {
        "record" => {
            let name = name()?;
            let inner = name.rsplit_once('.').map_or("", |(namespace, _)| namespace);
            let fields = list("fields")?.iter().map(|field| read_field(field, inner, depth + 1));
            let fields = fields.collect::<Result<_>>()?;
            Type::Record(Record { name, fields })
        }
        "enum" => {
            let symbols = list("symbols")?.iter().map(|s| s.as_str().map(str::to_string));
            let symbols = symbols.collect::<Option<Vec<String>>>();
            let symbols = symbols.ok_or("a symbol is not a text")?;
            Type::Enum { name: name()?, symbols }
        }
        "fixed" => {
            let size = need("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
            let size = size.ok_or("`size` is not a size")?;
            let is_decimal = object.get("logicalType").and_then(Json::as_str) == Some("decimal");
            let decimal = if is_decimal { precision_and_scale(object) } else { None };
            Type::Fixed { name: name()?, size, decimal }
        }
        "array" => Type::Array(Box::new(read(need("items")?, outer, depth + 1)?)),
        "map" => Type::Map(Box::new(read(need("values")?, outer, depth + 1)?)),
        base => {
            let plain = primitive(base).unwrap_or_else(|| Type::Named(full_name(base, outer)));
            let logical = object.get("logicalType").and_then(Json::as_str).unwrap_or_default();
            logical_type(&plain, logical, object).unwrap_or(plain)
        }
    })
}

/// The logical type; `None` if it is unknown, and then the underlying type is used, as the
/// specification demands.
fn logical_type(plain: &Type, logical: &str, object: &Map<String, Json>) -> Option<Type> {
    Some(match (plain, logical) {
        (Type::Int, "date") => Type::Date,
        (Type::Int, "time-millis") => Type::TimeMillis,
        (Type::Long, "time-micros") => Type::TimeMicros,
        (Type::Long, "time-nanos") => Type::TimeNanos,
        (Type::Bytes, "decimal") => {
            let (precision, scale) = precision_and_scale(object)?;
            Type::Decimal { precision, scale }
        }
        (Type::Long, name) if name.starts_with("duration-") => {
            Type::Duration(name.strip_prefix("duration-").and_then(Unit::parse)?)
        }
        (Type::Long, name) => {
            let (local, name) = match name.strip_prefix("local-") {
                Some(rest) => (true, rest),
                None => (false, name),
            };
            let unit = name.strip_prefix("timestamp-").and_then(Unit::parse);
            Type::Timestamp { unit: unit.filter(|unit| *unit != Unit::Seconds)?, local }
        }
        _ => return None,
    })
}

/// The digits of a decimal, and those after the decimal point. `None` if they are invalid, and then
/// the underlying type is used.
fn precision_and_scale(object: &Map<String, Json>) -> Option<(u32, u32)> {
    let number = |key: &str| object.get(key)?.as_u64()?.try_into().ok();
    let scale = match object.get("scale") {
        Some(_) => number("scale")?,
        None => 0,
    };
    number("precision").filter(|precision| *precision > 0).map(|precision| (precision, scale))
}

fn read_field(json: &Json, namespace: &str, depth: usize) -> Result<Field> {
    let name = json.get("name").and_then(Json::as_str).ok_or("a field has no name")?;
    let column = json.get("column").and_then(Json::as_str).unwrap_or(name);
    let ty = json.get("type").ok_or_else(|| format!("field {name} has no type"))?;
    Ok(Field { column: column.to_string(), ty: read(ty, namespace, depth)? })
}

/// Checks that each reference names a type that is defined before it, and each definition has a
/// name of its own.
fn check_names<'a>(ty: &'a Type, defined: &mut HashSet<&'a str>) -> Result<()> {
    if let Type::Fixed { name, .. } | Type::Enum { name, .. } | Type::Record(Record { name, .. }) =
        ty
        && !defined.insert(name)
    {
        return Err(format!("the type `{name}` is defined twice"));
    }
    match ty {
        Type::Named(name) if !defined.contains(name.as_str()) => {
            Err(format!("the type `{name}` is not defined"))
        }
        Type::Array(inner) | Type::Map(inner) => check_names(inner, defined),
        Type::Union(types) => types.iter().try_for_each(|ty| check_names(ty, defined)),
        Type::Record(record) => {
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
        let twice =
            r#"[{"type":"fixed","name":"F","size":1},{"type":"fixed","name":"F","size":2}]"#;
        assert!(why(twice).contains("`F` is defined twice"));
        let unknown = r#"{"type":"string","logicalType":"uuid"}"#;
        assert_eq!(Type::parse(unknown), Ok(Type::String));
    }

    #[test]
    fn references_are_resolved_in_the_namespace_of_the_enclosing_type() {
        let schema = r#"{"type":"record","name":"R","namespace":"a.b","fields":[
            {"name":"e","type":{"type":"enum","name":"E","symbols":["x"]}},
            {"name":"same","type":"E"}, {"name":"full","type":["null","a.b.E"]},
            {"name":"f","type":{"type":"fixed","name":"c.F","size":8,
                "logicalType":"decimal","precision":18,"scale":3}},
            {"name":"other","type":"c.F"}]}"#;
        let Ok(Type::Record(record)) = Type::parse(schema) else { panic!("not a record") };
        assert_eq!(record.name, "a.b.R");
        let named = |name: &str| Type::Named(name.to_string());
        assert_eq!(record.fields[1].ty, named("a.b.E"));
        assert_eq!(record.fields[2].ty, named("a.b.E").nullable());
        let fixed = Type::Fixed { name: "c.F".to_string(), size: 8, decimal: Some((18, 3)) };
        assert_eq!((&record.fields[3].ty, &record.fields[4].ty), (&fixed, &named("c.F")));
        let again = Type::Record(record).to_json().to_string();
        assert_eq!(Type::parse(&again), Type::parse(schema));
    }
}
