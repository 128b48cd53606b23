//! Which columns make keys and values, and what types the columns of rows have.
//!
//! One column is a value as it is: raw bytes. Several are a record, each field of which can be
//! null. CSV and JSON lines do not state types: a column is of the narrowest type that holds its
//! values in the first rows (boolean, long, double, string, or any JSON), or of the one that was
//! asked for (`--value price:double`). Values that do not fit make a bad row, never another type.

use super::cells::Cell;
use super::feed::Wanted;
use crate::ingest::Raw;
use crate::ingest::infer::holds;
use crate::ingest::jsonl::number;
use crate::ingest::typed::is_missing_word;
use firndb::search;
use firndb::{Error, Result};
use firndb_arrow::avro::{ANY, Field, Record, Type};
use serde_json::Value as Json;

/// Rows in which columns and types are looked for, and bytes: rows may be long.
pub const SAMPLE: usize = 10_000;
pub const SAMPLE_BYTES: usize = 16 << 20;

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
    /// Numbers of JSON that a long or a double does not hold, as text. Found, never asked for.
    Digits,
}

/// What the values of a column become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub kind: Kind,
    /// The first rows say so, and nobody asked for it: what they would have excluded is wrong.
    pub found: bool,
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

    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("number", |(name, _)| name)
    }

    fn ty(self) -> Type {
        match self {
            Kind::Boolean => Type::Boolean.nullable(),
            Kind::Long => Type::Long.nullable(),
            Kind::Double => Type::Double.nullable(),
            Kind::String | Kind::Digits => Type::String.nullable(),
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
        let (mut scalar, mut numbers, mut large) = ([false; 2], true, false);
        for cell in cells {
            let raw = match cell {
                Cell::Missing | Cell::Json(Json::Null) => continue,
                Cell::Text(text) => match std::str::from_utf8(text) {
                    Ok(text) if text.is_empty() || is_missing_word(text) => continue,
                    Ok(text) => Raw::Text(text.to_string()),
                    Err(_) => return Kind::String,
                },
                Cell::Json(Json::Bool(v)) => Raw::Bool(*v),
                Cell::Json(Json::Number(v)) => number(v),
                Cell::Json(Json::String(v)) => Raw::Str(v.clone()),
                Cell::Json(_) => return Kind::Json,
            };
            large |= matches!(raw, Raw::Uint(_) | Raw::Large(_));
            numbers &= !matches!(raw, Raw::Str(_) | Raw::Text(_) | Raw::Bool(_));
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
            (_, [true, false]) => Kind::String,
            _ if large && numbers => Kind::Digits,
            // Numbers mixed with texts or booleans.
            _ => Kind::Json,
        }
    }
}

/// What becomes of rows: the same for all inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// Columns of the value.
    pub columns: Vec<String>,
    /// Types of these columns; `None` if the value is one column as it is.
    pub types: Option<Vec<Type>>,
    /// What makes values of these types of rows of CSV and JSON lines, if the types come from them.
    rules: Option<Vec<Rule>>,
    /// Types were looked for, and there was no row to look at.
    pub blind: bool,
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
        Ok(Shape { columns, types: types.transpose()?, rules: None, blind: false })
    }

    /// The shape of rows of CSV or JSON lines; `infer` finds the type of a column.
    pub fn of_rows(columns: Vec<Asked>, record: bool, infer: impl Fn(&str) -> Kind) -> Shape {
        let rule = |asked: &Asked| match asked.kind {
            Some(kind) => Rule { kind, found: false },
            None => Rule { kind: infer(&asked.name), found: true },
        };
        let record = record || columns.len() > 1;
        let rules = record.then(|| columns.iter().map(rule).collect::<Vec<Rule>>());
        let types = rules.as_ref().map(|rules| rules.iter().map(|rule| rule.kind.ty()).collect());
        let columns = columns.into_iter().map(|asked| asked.name).collect();
        Shape { columns, types, rules, blind: false }
    }

    /// Whether types of rows must be looked for.
    pub fn is_looked_for(wanted: &Wanted) -> bool {
        match &wanted.values[..] {
            [] => true,
            [_] if !wanted.record => false,
            values => values.iter().any(|asked| asked.kind.is_none()),
        }
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

    /// What becomes of the columns of rows of CSV and JSON lines.
    pub fn rules(&self, place: &str) -> Result<Option<Vec<Rule>>> {
        let Some(types) = &self.types else { return Ok(None) };
        let of_type = |ty: &Type| Some(Rule { kind: Kind::of(ty)?, found: true });
        let rules = self.rules.clone().or_else(|| types.iter().map(of_type).collect());
        rules.map(Some).ok_or_else(|| {
            Error::invalid(format!(
                "{place}: the rows of the inputs before have types that this form has not; build \
                 tables from inputs of one form"
            ))
        })
    }
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
        assert_eq!(of_json(json!([u64::MAX, 1, 0.5, null])), Kind::Digits);
        assert_eq!(of_json(json!([i64::MAX, 0.5])), Kind::Json);
        // A text of digits must not stand for a number.
        assert_eq!(of_json(json!([u64::MAX, "1"])), Kind::Json);
        assert_eq!(of_json(json!([u64::MAX, [1]])), Kind::Json);
        assert_eq!(of_text(&["1", "-0", "2"]), Kind::Double);
        assert_eq!(of_text(&["0.5", "1e-400"]), Kind::String);
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
