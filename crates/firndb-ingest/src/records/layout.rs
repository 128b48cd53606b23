//! The layout of values: their columns and types.
//!
//! A value of one column is the bytes of the column. Several columns are a record, each field of
//! which can be null. CSV and JSON lines do not declare types: a column has the narrowest type that
//! holds its values in the first rows (boolean, long, double, string, or any JSON), or the one that
//! the options declare. A row with a value of another type is a bad row.

use crate::infer::holds;
use crate::parse::json_lines::number;
use crate::records::cells::{Cell, ColumnRule};
use crate::records::options::{ColumnType, RecordOptions, ValueColumn};
use crate::row::RawValue;
use crate::value::is_missing_word;
use firndb::search;
use firndb::{Error, Result};
use firndb_arrow::avro::{ANY, Field, Record, Type};
use serde_json::Value as Json;

/// Maximum number of rows from which columns and types are inferred.
pub(crate) const SAMPLE: usize = 10_000;
/// Maximum bytes of these rows.
pub(crate) const SAMPLE_BYTES: usize = 16 << 20;

/// The layout of values. It is the same for all inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layout {
    /// Columns of the value.
    pub(crate) columns: Vec<String>,
    /// Types of these columns; `None` if the value is the bytes of a single column.
    pub(crate) types: Option<Vec<Type>>,
    /// How cells of CSV and JSON lines are encoded, if the types come from them.
    rules: Option<Vec<ColumnRule>>,
    /// Types had to be inferred, and there was no row.
    pub(crate) has_no_rows: bool,
}

impl Layout {
    /// The columns of the value: the `chosen` ones, else all of `names` but the key. `input` is the
    /// name of the input.
    pub(crate) fn columns(
        options: &RecordOptions,
        names: &[&str],
        input: &str,
    ) -> Result<Vec<ValueColumn>> {
        let (keys, chosen) = (&options.keys, &options.values);
        if keys.is_empty() && !options.row_number {
            let names = listed(names);
            let message = format!("{input}: say which column is the key with --key: {names}");
            return Err(Error::invalid(message));
        }
        if let Some(twice) = (1..keys.len()).find(|n| keys[..*n].contains(&keys[*n])) {
            return Err(Error::invalid(format!("--key names `{}` twice", keys[twice])));
        }
        let untyped = chosen.iter().filter(|column| column.ty.is_none()).map(|column| &column.name);
        if let Some(name) = keys.iter().chain(untyped).find(|n| !names.contains(&n.as_str())) {
            return Err(no_column(input, name, names));
        }
        let twice = |(i, one): (usize, &ValueColumn)| {
            chosen[..i].iter().any(|other| other.name == one.name)
        };
        if let Some(i) = chosen.iter().enumerate().position(twice) {
            return Err(Error::invalid(format!("--value names `{}` twice", chosen[i].name)));
        }
        if !chosen.is_empty() {
            return Ok(chosen.to_vec());
        }
        let others = names.iter().filter(|name| !keys.iter().any(|key| key == *name));
        let others = others.map(|name| ValueColumn::new(*name));
        match others.collect::<Vec<ValueColumn>>() {
            none if none.is_empty() => {
                Err(Error::invalid(format!("{input}: there is no column besides the key")))
            }
            others => Ok(others),
        }
    }

    /// The layout of values of these columns: a record if there are several, or with `record`.
    pub(crate) fn new(
        columns: Vec<ValueColumn>,
        record: bool,
        ty: impl Fn(&ValueColumn) -> Result<Type>,
    ) -> Result<Layout> {
        let record = record || columns.len() > 1;
        let types = record.then(|| columns.iter().map(ty).collect::<Result<Vec<Type>>>());
        let columns = columns.into_iter().map(|column| column.name).collect();
        Ok(Layout { columns, types: types.transpose()?, rules: None, has_no_rows: false })
    }

    /// The layout of rows of CSV or JSON lines. `infer` infers the type of a column.
    pub(crate) fn of_rows(
        columns: Vec<ValueColumn>,
        record: bool,
        infer: impl Fn(&str) -> ColumnType,
    ) -> Layout {
        let rule = |column: &ValueColumn| match column.ty {
            Some(ty) => ColumnRule { ty, inferred: false },
            None => ColumnRule { ty: infer(&column.name), inferred: true },
        };
        let record = record || columns.len() > 1;
        let rules = record.then(|| columns.iter().map(rule).collect::<Vec<ColumnRule>>());
        let types =
            rules.as_ref().map(|rules| rules.iter().map(|rule| avro_type(rule.ty)).collect());
        let columns = columns.into_iter().map(|column| column.name).collect();
        Layout { columns, types, rules, has_no_rows: false }
    }

    /// The Avro schema as JSON text; empty if values are bytes.
    pub(crate) fn schema(&self) -> String {
        let Some(types) = &self.types else { return String::new() };
        let mut seen = false;
        let mut field = |(column, ty): (&String, &Type)| {
            // A named type is defined once, and then referred to.
            let again = ty.is_any() && std::mem::replace(&mut seen, true);
            let ty = if again { Type::Named(ANY.to_string()) } else { ty.clone() };
            Field { column: column.clone(), ty }
        };
        let fields = self.columns.iter().zip(types).map(&mut field).collect();
        Type::Record(Record { name: "Row".to_string(), fields }).to_json().to_string()
    }

    /// How columns of rows of CSV and JSON lines are encoded; `None` if values are bytes.
    pub(crate) fn rules(&self, input: &str) -> Result<Option<Vec<ColumnRule>>> {
        let Some(types) = &self.types else { return Ok(None) };
        let of_type = |ty: &Type| Some(ColumnRule { ty: column_type(ty)?, inferred: true });
        let rules = self.rules.clone().or_else(|| types.iter().map(of_type).collect());
        rules.map(Some).ok_or_else(|| {
            Error::invalid(format!(
                "{input}: the rows of the inputs before have types that this form has not; build \
                 tables from inputs of one form"
            ))
        })
    }
}

/// The error for a column that an input has not.
pub(crate) fn no_column(input: &str, name: &str, names: &[&str]) -> Error {
    let message = format!("{input}: there is no column `{name}`; columns are {}", listed(names));
    Error::invalid(message)
}

/// Names for a message. White space around a name is shown.
fn listed(names: &[&str]) -> String {
    let shown = names.iter().map(|name| match name.trim() == *name {
        true => name.to_string(),
        false => format!("`{name}`"),
    });
    shown.collect::<Vec<String>>().join(", ")
}

/// The Avro type of a column of type `ty`.
fn avro_type(ty: ColumnType) -> Type {
    match ty {
        ColumnType::Boolean => Type::Boolean.nullable(),
        ColumnType::Long => Type::Long.nullable(),
        ColumnType::Double => Type::Double.nullable(),
        ColumnType::String | ColumnType::NumberText => Type::String.nullable(),
        ColumnType::Json => Type::any(),
    }
}

/// The column type of an Avro type.
fn column_type(ty: &Type) -> Option<ColumnType> {
    let simple = ColumnType::ALL.iter().find(|(_, kind)| avro_type(*kind) == *ty);
    simple.map(|(_, kind)| *kind).or(ty.is_any().then_some(ColumnType::Json))
}

/// The narrowest type that holds the cells of a column.
pub(crate) fn infer_type<'a>(cells: impl Iterator<Item = Cell<'a>>) -> ColumnType {
    let mut fits = [true; 3];
    let (mut scalar, mut numbers, mut large) = ([false; 2], true, false);
    for cell in cells {
        let raw = match cell {
            Cell::Missing | Cell::Json(Json::Null) => continue,
            Cell::Text(text) => match std::str::from_utf8(text) {
                Ok(text) if text.is_empty() || is_missing_word(text) => continue,
                Ok(text) => RawValue::Text(text.to_string()),
                Err(_) => return ColumnType::String,
            },
            Cell::Json(Json::Bool(v)) => RawValue::Bool(*v),
            Cell::Json(Json::Number(v)) => number(v),
            Cell::Json(Json::String(v)) => RawValue::Str(v.clone()),
            Cell::Json(_) => return ColumnType::Json,
        };
        large |= matches!(raw, RawValue::Uint(_) | RawValue::Large(_));
        numbers &= !matches!(raw, RawValue::Str(_) | RawValue::Text(_) | RawValue::Bool(_));
        // A JSON string is neither a number nor a boolean, whatever its text.
        scalar[usize::from(!matches!(raw, RawValue::Text(_) | RawValue::Str(_)))] = true;
        let types = [search::Type::Bool, search::Type::I64, search::Type::F64];
        for (fits, ty) in fits.iter_mut().zip(types) {
            *fits = *fits && !matches!(raw, RawValue::Str(_)) && holds(ty, &raw);
        }
    }
    match (fits, scalar) {
        (_, [false, false]) => ColumnType::String,
        ([true, _, _], _) => ColumnType::Boolean,
        ([_, true, _], _) => ColumnType::Long,
        ([_, _, true], _) => ColumnType::Double,
        (_, [true, false]) => ColumnType::String,
        _ if large && numbers => ColumnType::NumberText,
        // Numbers mixed with texts or booleans.
        _ => ColumnType::Json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_text(cells: &[&str]) -> ColumnType {
        infer_type(cells.iter().map(|cell| Cell::Text(cell.as_bytes())))
    }

    fn of_json(cells: Json) -> ColumnType {
        infer_type(cells.as_array().unwrap().iter().map(Cell::Json))
    }

    #[test]
    fn the_narrowest_type_is_inferred() {
        assert_eq!(of_text(&["true", "", "FALSE"]), ColumnType::Boolean);
        assert_eq!(of_text(&["1", "NA", "-2"]), ColumnType::Long);
        assert_eq!(of_text(&["1", "2.5"]), ColumnType::Double);
        assert_eq!(of_text(&["007", "8"]), ColumnType::String);
        assert_eq!(of_text(&["1", "x"]), ColumnType::String);
        assert_eq!(of_text(&["", "NA"]), ColumnType::String);
        assert_eq!(of_json(json!([true, null])), ColumnType::Boolean);
        assert_eq!(of_json(json!([1, 2])), ColumnType::Long);
        assert_eq!(of_json(json!([1, 2.5])), ColumnType::Double);
        assert_eq!(of_json(json!(["1", "2"])), ColumnType::String);
        assert_eq!(of_json(json!(["1", 2])), ColumnType::Json);
        assert_eq!(of_json(json!([1, true])), ColumnType::Json);
        assert_eq!(of_json(json!([[1]])), ColumnType::Json);
        assert_eq!(of_json(json!([null])), ColumnType::String);
        assert_eq!(of_json(json!([u64::MAX, 1, 0.5, null])), ColumnType::NumberText);
        assert_eq!(of_json(json!([i64::MAX, 0.5])), ColumnType::Json);
        // A string of digits must not become a number.
        assert_eq!(of_json(json!([u64::MAX, "1"])), ColumnType::Json);
        assert_eq!(of_json(json!([u64::MAX, [1]])), ColumnType::Json);
        assert_eq!(of_text(&["1", "-0", "2"]), ColumnType::Double);
        assert_eq!(of_text(&["0.5", "1e-400"]), ColumnType::String);
    }
}
