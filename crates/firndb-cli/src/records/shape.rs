//! Which columns make keys and values, and what types the columns of rows have.
//!
//! One column is a value as it is: raw bytes. Several are a record, each field of which can be
//! null. CSV and JSON lines do not state types: a column is of the narrowest type that holds its
//! values in the first rows (boolean, long, double, string, or any JSON), or of the one that was
//! asked for (`--value price:double`). Values that do not fit make a bad row, never another type.

use crate::avro::{ANY, Field, Record, Type, encode};
use crate::ingest::Raw;
use crate::ingest::infer::holds;
use crate::ingest::jsonl::number;
use crate::ingest::typed::{is_missing_word, parse_f64};
use firndb::search;
use firndb::{Error, Result};
use serde_json::Value as Json;

/// Rows in which columns and types are looked for.
pub const SAMPLE: usize = 10_000;

/// A column that makes a part of the value, as the command line names it: `NAME` or `NAME:TYPE`.
#[derive(Clone, Debug)]
pub struct Asked {
    pub name: String,
    pub kind: Option<Kind>,
}

impl Asked {
    pub fn parse(text: &str) -> std::result::Result<Asked, String> {
        let typed = text.rsplit_once(':').and_then(|(name, ty)| Some((name, Kind::parse(ty)?)));
        let (name, kind) = typed.map_or((text, None), |(name, kind)| (name, Some(kind)));
        match name {
            "" => Err("a column has a name".to_string()),
            name => Ok(Asked { name: name.to_string(), kind }),
        }
    }
}

/// Types of columns of CSV and JSON lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    Long,
    Double,
    String,
    Json,
}

impl Kind {
    const ALL: [(&'static str, Kind); 5] = [
        ("boolean", Kind::Boolean),
        ("long", Kind::Long),
        ("double", Kind::Double),
        ("string", Kind::String),
        ("json", Kind::Json),
    ];

    fn parse(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    fn ty(self) -> Type {
        match self {
            Kind::Boolean => Type::Boolean.nullable(),
            Kind::Long => Type::Long.nullable(),
            Kind::Double => Type::Double.nullable(),
            Kind::String => Type::String.nullable(),
            Kind::Json => Type::any(),
        }
    }

    fn of(ty: &Type) -> Option<Kind> {
        let simple = Kind::ALL.iter().find(|(_, kind)| kind.ty() == *ty);
        simple.map(|(_, kind)| *kind).or(ty.is_any().then_some(Kind::Json))
    }

    /// The narrowest type of the cells of a column.
    pub fn infer<'a>(cells: impl Iterator<Item = Cell<'a>>) -> Kind {
        let mut fits = [true; 3];
        let mut scalar = [false; 2];
        for cell in cells {
            let raw = match cell {
                Cell::Missing | Cell::Json(Json::Null) => continue,
                Cell::Text(text) => match std::str::from_utf8(text) {
                    Ok(text) if text.is_empty() || is_missing_word(text) => continue,
                    Ok(text) => Raw::Text(text.to_string()),
                    Err(_) => return Kind::String,
                },
                Cell::Json(Json::Bool(v)) => Raw::Bool(*v),
                Cell::Json(Json::Number(v)) => match number(v) {
                    Raw::Uint(_) | Raw::Large(_) => return Kind::String,
                    raw => raw,
                },
                Cell::Json(Json::String(v)) => Raw::Str(v.clone()),
                Cell::Json(_) => return Kind::Json,
            };
            // A JSON text is no number and no boolean, whatever stands in it.
            scalar[usize::from(!matches!(raw, Raw::Text(_) | Raw::Str(_)))] = true;
            let types = [search::Type::Bool, search::Type::I64, search::Type::F64];
            for (fits, ty) in fits.iter_mut().zip(types) {
                *fits = *fits && !matches!(raw, Raw::Str(_)) && holds(ty, &raw);
            }
        }
        match (fits, scalar) {
            (_, [false, false]) => Kind::String,
            ([true, _, _], _) => Kind::Boolean,
            ([_, true, _], _) => Kind::Long,
            ([_, _, true], _) => Kind::Double,
            // Texts, or numbers mixed with texts or booleans.
            (_, [true, false]) => Kind::String,
            _ => Kind::Json,
        }
    }
}

/// A cell of a row.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    Missing,
    /// A cell of CSV.
    Text(&'a [u8]),
    Json(&'a Json),
}

/// What becomes of rows: the same for all inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// Columns of the value.
    pub columns: Vec<String>,
    /// Types of these columns; `None` if the value is one column as it is.
    pub types: Option<Vec<Type>>,
}

impl Shape {
    /// The columns `names` of the value: those asked for, else all but the key.
    pub fn columns(
        key: Option<&String>,
        asked: &[Asked],
        names: &[&str],
        place: &str,
    ) -> Result<Vec<Asked>> {
        let listed = || names.join(", ");
        let Some(key) = key else {
            let message = format!("{place}: say which column is the key with --key: {}", listed());
            return Err(Error::invalid(message));
        };
        let untyped = asked.iter().filter(|asked| asked.kind.is_none()).map(|asked| &asked.name);
        if let Some(name) =
            std::iter::once(key).chain(untyped).find(|n| !names.contains(&n.as_str()))
        {
            let message = format!("{place}: there is no column `{name}`; columns are {}", listed());
            return Err(Error::invalid(message));
        }
        let twice =
            |(i, one): (usize, &Asked)| asked[..i].iter().any(|other| other.name == one.name);
        if let Some(i) = asked.iter().enumerate().position(twice) {
            return Err(Error::invalid(format!("--value names `{}` twice", asked[i].name)));
        }
        if !asked.is_empty() {
            return Ok(asked.to_vec());
        }
        let others = names.iter().filter(|name| *name != key);
        let others = others.map(|name| Asked { name: name.to_string(), kind: None });
        match others.collect::<Vec<Asked>>() {
            none if none.is_empty() => {
                Err(Error::invalid(format!("{place}: there is no column beside the key")))
            }
            others => Ok(others),
        }
    }

    /// The shape of values of these columns: a record if there are several, or if one is asked for.
    pub fn new(
        columns: Vec<Asked>,
        record: bool,
        ty: impl Fn(&Asked) -> Result<Type>,
    ) -> Result<Shape> {
        let record = record || columns.len() > 1;
        let types = record.then(|| columns.iter().map(ty).collect::<Result<Vec<Type>>>());
        let columns = columns.into_iter().map(|asked| asked.name).collect();
        Ok(Shape { columns, types: types.transpose()? })
    }

    /// The shape of rows of CSV or JSON lines; `infer` finds the type of a column.
    pub fn of_rows(
        columns: Vec<Asked>,
        record: bool,
        infer: impl Fn(&str) -> Kind,
    ) -> Result<Shape> {
        Shape::new(columns, record, |asked| {
            Ok(asked.kind.unwrap_or_else(|| infer(&asked.name)).ty())
        })
    }

    /// The Avro schema as JSON text; empty if the value is a column as it is.
    pub fn schema(&self) -> String {
        let Some(types) = &self.types else { return String::new() };
        let mut seen = false;
        let mut field = |(column, ty): (&String, &Type)| {
            // A named type is defined once.
            let again = ty.is_any() && std::mem::replace(&mut seen, true);
            let ty = if again { Type::Named(ANY.to_string()) } else { ty.clone() };
            Field { column: column.clone(), ty }
        };
        let fields = self.columns.iter().zip(types).map(&mut field).collect();
        Type::Record(Record { name: "Row".to_string(), fields }).to_json().to_string()
    }

    /// The types of the columns for rows of CSV and JSON lines.
    pub fn kinds(&self, place: &str) -> Result<Option<Vec<Kind>>> {
        let Some(types) = &self.types else { return Ok(None) };
        let kinds: Option<Vec<Kind>> = types.iter().map(Kind::of).collect();
        kinds.map(Some).ok_or_else(|| {
            Error::invalid(format!(
                "{place}: the rows of the inputs before have types that this form has not; build \
                 tables from inputs of one form"
            ))
        })
    }
}

/// The bytes of a key, or of a value that is one column.
pub fn raw(cell: Cell, out: &mut Vec<u8>) -> std::result::Result<(), String> {
    match cell {
        Cell::Missing | Cell::Json(Json::Null) => return Err("there is no value".to_string()),
        Cell::Text(text) => out.extend_from_slice(text),
        Cell::Json(Json::String(text)) => out.extend_from_slice(text.as_bytes()),
        Cell::Json(json) => out.extend_from_slice(json.to_string().as_bytes()),
    }
    Ok(())
}

/// The bytes of a field.
pub fn field(kind: Kind, cell: Cell, out: &mut Vec<u8>) -> std::result::Result<(), String> {
    let wrong = |shown: &str| {
        let shown: String = shown.chars().take(60).collect();
        format!("`{shown}` is no {0}; name the type, for example --value NAME:string", kind.name())
    };
    let text = match cell {
        Cell::Missing | Cell::Json(Json::Null) | Cell::Text(b"") => {
            encode::long(0, out);
            return Ok(());
        }
        Cell::Json(json) if kind == Kind::Json => return encode::any(json, out),
        Cell::Json(json) => return typed(kind, json, out).ok_or_else(|| wrong(&json.to_string())),
        Cell::Text(text) => std::str::from_utf8(text)
            .map_err(|_| "the value is not valid UTF-8; name its encoding with -e".to_string())?,
    };
    let json = match kind {
        Kind::String => {
            encode::long(1, out);
            encode::bytes(text.as_bytes(), out);
            return Ok(());
        }
        _ if is_missing_word(text) => Some(Json::Null),
        Kind::Boolean if text.eq_ignore_ascii_case("true") => Some(Json::Bool(true)),
        Kind::Boolean if text.eq_ignore_ascii_case("false") => Some(Json::Bool(false)),
        Kind::Boolean => None,
        Kind::Long => text.trim().parse::<i64>().ok().map(Json::from),
        Kind::Double => {
            let parsed = parse_f64(text).ok_or_else(|| wrong(text))?;
            encode::long(1, out);
            encode::double(parsed, out);
            return Ok(());
        }
        Kind::Json => serde_json::from_str(text).ok(),
    };
    field(kind, Cell::Json(&json.ok_or_else(|| wrong(text))?), out)
}

/// A JSON value as a field of a type that it has; `None` if it has not.
fn typed(kind: Kind, json: &Json, out: &mut Vec<u8>) -> Option<()> {
    match kind {
        Kind::Boolean => {
            let v = json.as_bool()?;
            encode::long(1, out);
            out.push(u8::from(v));
        }
        Kind::Long => {
            let v = json.as_i64()?;
            encode::long(1, out);
            encode::long(v, out);
        }
        Kind::Double => {
            let exact = |v: i64| v.unsigned_abs() <= 1 << 53;
            let v = json.as_f64().filter(|_| json.is_f64() || json.as_i64().is_some_and(exact))?;
            encode::long(1, out);
            encode::double(v, out);
        }
        Kind::String => {
            encode::long(1, out);
            match json {
                Json::String(text) => encode::bytes(text.as_bytes(), out),
                other => encode::bytes(other.to_string().as_bytes(), out),
            }
        }
        Kind::Json => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_text(cells: &[&str]) -> Kind {
        Kind::infer(cells.iter().map(|cell| Cell::Text(cell.as_bytes())))
    }

    fn of_json(cells: Json) -> Kind {
        Kind::infer(cells.as_array().unwrap().iter().map(Cell::Json))
    }

    #[test]
    fn the_narrowest_type_is_found() {
        assert_eq!(of_text(&["true", "", "FALSE"]), Kind::Boolean);
        assert_eq!(of_text(&["1", "NA", "-2"]), Kind::Long);
        assert_eq!(of_text(&["1", "2.5"]), Kind::Double);
        assert_eq!(of_text(&["007", "8"]), Kind::String);
        assert_eq!(of_text(&["1", "x"]), Kind::String);
        assert_eq!(of_text(&["", "NA"]), Kind::String);
        assert_eq!(of_json(json!([true, null])), Kind::Boolean);
        assert_eq!(of_json(json!([1, 2])), Kind::Long);
        assert_eq!(of_json(json!([1, 2.5])), Kind::Double);
        assert_eq!(of_json(json!(["1", "2"])), Kind::String);
        assert_eq!(of_json(json!(["1", 2])), Kind::Json);
        assert_eq!(of_json(json!([1, true])), Kind::Json);
        assert_eq!(of_json(json!([[1]])), Kind::Json);
        assert_eq!(of_json(json!([null])), Kind::String);
        assert_eq!(of_json(json!([u64::MAX])), Kind::String);
    }

    #[test]
    fn fields_have_the_bytes_of_a_union_with_null() {
        let bytes = |kind, cell: Cell| {
            let mut out = Vec::new();
            field(kind, cell, &mut out).map(|()| out)
        };
        assert_eq!(bytes(Kind::Long, Cell::Text(b"-3")), Ok(vec![2, 5]));
        assert_eq!(bytes(Kind::Long, Cell::Text(b"NA")), Ok(vec![0]));
        assert_eq!(bytes(Kind::String, Cell::Text(b"NA")), Ok(vec![2, 4, b'N', b'A']));
        assert_eq!(bytes(Kind::String, Cell::Text(b"")), Ok(vec![0]));
        assert_eq!(bytes(Kind::Boolean, Cell::Text(b"True")), Ok(vec![2, 1]));
        assert_eq!(bytes(Kind::Json, Cell::Json(&json!(7))), Ok(vec![4, 14]));
        assert_eq!(bytes(Kind::Json, Cell::Text(b"[7]")), Ok(vec![10, 2, 4, 14, 0]));
        assert_eq!(bytes(Kind::String, Cell::Json(&json!(7))), Ok(vec![2, 2, b'7']));
        assert!(bytes(Kind::Long, Cell::Text(b"1.5")).unwrap_err().contains("`1.5` is no long"));
        assert!(bytes(Kind::Long, Cell::Json(&json!("1"))).is_err());
        assert!(bytes(Kind::Double, Cell::Json(&json!(i64::MAX))).is_err());
        assert!(bytes(Kind::String, Cell::Text(b"\xff")).unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn columns_are_asked_for_with_their_types() {
        let asked = Asked::parse("a:b:long").unwrap();
        assert_eq!((asked.name.as_str(), asked.kind), ("a:b", Some(Kind::Long)));
        let asked = Asked::parse("a:b").unwrap();
        assert_eq!((asked.name.as_str(), asked.kind), ("a:b", None));
        assert!(Asked::parse("").is_err() && Asked::parse(":long").is_err());
    }
}
