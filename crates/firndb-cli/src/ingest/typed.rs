//! Raw values to a document of a schema, and the payload that goes with it.

use super::{BadRow, Raw, Row};
use crate::output::{from_hex, to_json};
use clap::ValueEnum;
use firndb::search::{Document, Field, Schema, Type, Value, timestamp_from_text};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};

/// What a document carries as its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadFrom {
    /// The whole row as a JSON object.
    Row,
    /// Nothing.
    None,
    /// The text of one column.
    Column(String),
}

/// How texts give the bytes of a field of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BytesAs {
    /// The text's own bytes (UTF-8).
    #[default]
    Text,
    /// Hexadecimal digits, two a byte, as `firn search export` writes them.
    Hex,
}

/// Turns rows into documents of a schema.
pub struct Typer<'a> {
    schema: &'a Schema,
    fields: HashMap<&'a str, usize>,
    nulls: &'a [String],
    separator: char,
    payload: PayloadFrom,
    strict: bool,
    bytes: BytesAs,
    /// Values of each cell of the row at hand; `None` for a column that is not a field.
    counts: Vec<Option<usize>>,
    /// Columns that are not fields, with the number of rows that had them.
    pub left_out: BTreeMap<String, u64>,
}

/// The column concerned and the reason.
type Wrong = (String, String);

impl<'a> Typer<'a> {
    /// `nulls` are texts that stand for "no value" in every column; `separator` stands between the
    /// values of a multi-valued field in CSV. A column that is not a field is left out, or an error
    /// if `strict`.
    pub fn new(
        schema: &'a Schema,
        nulls: &'a [String],
        separator: char,
        payload: PayloadFrom,
        strict: bool,
    ) -> Typer<'a> {
        let fields =
            schema.fields().iter().enumerate().map(|(i, f)| (f.name.as_str(), i)).collect();
        let (bytes, counts, left_out) = (BytesAs::Text, Vec::new(), BTreeMap::new());
        Typer { schema, fields, nulls, separator, payload, strict, bytes, counts, left_out }
    }

    /// How texts give the bytes of fields of bytes; by default they are their own.
    pub fn bytes(mut self, bytes: BytesAs) -> Self {
        self.bytes = bytes;
        self
    }

    /// The document of a row.
    pub fn document(&mut self, row: &Row) -> Result<Document, BadRow> {
        self.typed(row).map_err(|(column, reason)| {
            let column = (!column.is_empty()).then_some(column);
            BadRow { place: row.place.clone(), column, reason }
        })
    }

    fn typed(&mut self, row: &Row) -> Result<Document, Wrong> {
        let mut document = Document::new();
        let mut seen = 0;
        self.counts.clear();
        for (column, raw) in &row.cells {
            let Some(&number) = self.fields.get(&**column) else {
                self.unknown(column, raw, &mut document)?;
                self.counts.push(None);
                continue;
            };
            let field = &self.schema.fields()[number];
            let mut count = 0;
            let push = &mut |value: Value| {
                document.push(&*field.name, value);
                count += 1;
            };
            self.values(field, raw, push).map_err(|reason| (column.to_string(), reason))?;
            if count == 0 && !field.nullable {
                return Err((column.to_string(), missing(field)));
            }
            seen += usize::from(count > 0);
            self.counts.push(Some(count));
        }
        if seen < self.schema.fields().len() {
            self.check_missing(row)?;
        }
        let payload = self.payload_of(row, &document)?;
        Ok(document.payload(payload))
    }

    /// Calls `push` with each value of `raw`.
    fn values(&self, field: &Field, raw: &Raw, push: &mut dyn FnMut(Value)) -> Result<(), String> {
        match raw {
            Raw::Missing => {}
            Raw::Text(text) if self.is_missing(field, text) => {}
            Raw::List(_) if !field.multi => {
                return Err(
                    "an array in a single-valued field; set multi = true for it".to_string()
                );
            }
            Raw::List(items) => {
                items.iter().try_for_each(|item| self.convert(field.ty, item).map(&mut *push))?;
            }
            Raw::Text(text) if field.multi => {
                for part in text.split(self.separator).filter(|part| !part.is_empty()) {
                    push(self.convert(field.ty, &Raw::Text(part.to_string()))?);
                }
            }
            raw => push(self.convert(field.ty, raw)?),
        }
        Ok(())
    }

    fn convert(&self, ty: Type, raw: &Raw) -> Result<Value, String> {
        match (ty, raw) {
            (Type::Bytes, Raw::Text(text) | Raw::Str(text)) if self.bytes == BytesAs::Hex => {
                from_hex(text).map(Value::Bytes).map_err(|error| error.message().to_string())
            }
            _ => convert(ty, raw),
        }
    }

    fn is_missing(&self, field: &Field, text: &str) -> bool {
        text.is_empty()
            || self.nulls.iter().any(|null| null == text)
            || (!matches!(field.ty, Type::String | Type::Bytes) && is_missing_word(text))
    }

    fn unknown(&mut self, column: &str, raw: &Raw, document: &mut Document) -> Result<(), Wrong> {
        if self.schema.is_dynamic() {
            match raw {
                Raw::List(items) => {
                    items.iter().filter_map(native).for_each(|v| document.push(column, v))
                }
                raw => native(raw).into_iter().for_each(|v| document.push(column, v)),
            }
            return Ok(());
        }
        if self.strict {
            return Err((column.to_string(), "there is no field of this name".to_string()));
        }
        match self.left_out.get_mut(column) {
            Some(rows) => *rows += 1,
            None => {
                self.left_out.insert(column.to_string(), 1);
            }
        }
        Ok(())
    }

    /// Finds the field that the row should have and has not.
    fn check_missing(&self, row: &Row) -> Result<(), Wrong> {
        let has = |name: &str| row.cells.iter().any(|(column, _)| &**column == name);
        match self.schema.fields().iter().find(|f| !f.nullable && !has(&f.name)) {
            Some(field) => Err((field.name.clone(), missing(field))),
            None => Ok(()),
        }
    }

    fn payload_of(&self, row: &Row, document: &Document) -> Result<Vec<u8>, Wrong> {
        match &self.payload {
            PayloadFrom::None => Ok(Vec::new()),
            PayloadFrom::Row => Ok(match &row.json {
                Some(json) => json.clone().into_bytes(),
                None => self.row_as_json(row, document),
            }),
            PayloadFrom::Column(name) => {
                match row.cells.iter().find(|(column, _)| **column == **name) {
                    Some((_, Raw::Text(text) | Raw::Str(text))) => Ok(text.clone().into_bytes()),
                    Some((_, Raw::Missing)) => Ok(Vec::new()),
                    Some((_, raw)) => Ok(raw_to_json(raw).to_string().into_bytes()),
                    None => {
                        Err((name.clone(), "the payload's column is not in the row".to_string()))
                    }
                }
            }
        }
    }

    /// A CSV row as a JSON object: fields with their types, other columns as text, no missing
    /// values.
    fn row_as_json(&self, row: &Row, document: &Document) -> Vec<u8> {
        let mut values = document.fields().map(|(_, value)| to_json(value));
        let mut out = vec![b'{'];
        for ((column, raw), count) in row.cells.iter().zip(&self.counts) {
            let json = match count {
                None if self.schema.is_dynamic() && native(raw).is_some() => values.next(),
                None => (*raw != Raw::Text(String::new())).then(|| raw_to_json(raw)),
                Some(0) => None,
                Some(1) => values.next(),
                Some(count) => Some(values.by_ref().take(*count).collect()),
            };
            if let Some(json) = json {
                out.extend_from_slice(if out.len() > 1 { b"," } else { b"" });
                // Writing to memory does not fail.
                let _ = serde_json::to_writer(&mut out, &**column);
                out.push(b':');
                let _ = serde_json::to_writer(&mut out, &json);
            }
        }
        out.push(b'}');
        out
    }
}

fn missing(field: &Field) -> String {
    format!(
        "there is no value, but field `{}` must have one; set nullable = true for it",
        field.name
    )
}

/// Words that stand for "no value" in columns of numbers, booleans and timestamps.
pub fn is_missing_word(text: &str) -> bool {
    matches!(text, "NA" | "N/A" | "NaN" | "nan" | "null" | "NULL" | "None" | "\\N" | "-")
}

/// Reads a value of type `ty` from text; `None` if it is not one.
pub fn parse_text(ty: Type, text: &str) -> Option<Value> {
    Some(match ty {
        Type::Bool if text.eq_ignore_ascii_case("true") => Value::Bool(true),
        Type::Bool if text.eq_ignore_ascii_case("false") => Value::Bool(false),
        Type::Bool => return None,
        Type::I64 => Value::I64(text.trim().parse().ok()?),
        Type::U64 => Value::U64(text.trim().parse().ok()?),
        Type::F64 => Value::F64(parse_f64(text)?),
        // A cheap look first: the parser below is slow to say no, and knows forms without dashes.
        Type::Timestamp if text.as_bytes().get(4) != Some(&b'-') => return None,
        Type::Timestamp => Value::Timestamp(timestamp_from_text(text)?),
        Type::String => Value::Str(text.to_string()),
        Type::Bytes => Value::Bytes(text.as_bytes().to_vec()),
    })
}

/// A number, or one of the words for infinity; not a number that is too large for an f64, or so
/// small that it would become zero.
pub fn parse_f64(text: &str) -> Option<f64> {
    let (text, v) = (text.trim(), text.trim().parse::<f64>().ok()?);
    let is_word = !text.contains(|c: char| c.is_ascii_digit());
    let digits = text.split(['e', 'E']).next().unwrap_or_default();
    let vanishes = v == 0.0 && digits.contains(|c: char| ('1'..='9').contains(&c));
    (v.is_finite() && !vanishes || v.is_infinite() && is_word).then_some(v)
}

/// The value of `raw` in a field of type `ty`, or the reason why there is none.
fn convert(ty: Type, raw: &Raw) -> Result<Value, String> {
    let value = match (ty, raw) {
        (Type::F64, Raw::Text(text) | Raw::Str(text)) if is_rounded(text) => None,
        (_, Raw::Text(text) | Raw::Str(text)) => parse_text(ty, text),
        (Type::Bool, Raw::Bool(v)) => Some(Value::Bool(*v)),
        (Type::I64, Raw::Int(v)) => Some(Value::I64(*v)),
        (Type::U64, Raw::Int(v)) => u64::try_from(*v).ok().map(Value::U64),
        (Type::U64, Raw::Uint(v)) => Some(Value::U64(*v)),
        (Type::F64, Raw::Float(v)) => Some(Value::F64(*v)),
        (Type::F64, Raw::MinusZero) => Some(Value::F64(-0.0)),
        // Whoever declares integers has but one zero, in CSV too.
        (Type::I64, Raw::MinusZero) => Some(Value::I64(0)),
        (Type::F64, Raw::Int(v)) if v.unsigned_abs() <= 1 << 53 => Some(Value::F64(*v as f64)),
        (Type::String, Raw::Large(text)) => Some(Value::Str(text.clone())),
        (
            Type::String,
            Raw::Bool(_) | Raw::Int(_) | Raw::Uint(_) | Raw::Float(_) | Raw::MinusZero,
        ) => Some(Value::Str(raw_to_json(raw).to_string())),
        _ => None,
    };
    value.ok_or_else(|| {
        let shown = match raw {
            Raw::Text(text) | Raw::Str(text) => format!("`{}`", shorten(text)),
            raw => format!("`{}`", raw_to_json(raw)),
        };
        let why = match (ty, raw) {
            (Type::F64, Raw::Text(text) | Raw::Str(text) | Raw::Large(text))
                if is_rounded(text) =>
            {
                ROUNDED
            }
            (Type::F64, Raw::Int(_) | Raw::Uint(_)) => ROUNDED,
            _ => "",
        };
        format!("{shown} is not of type {}{why}", ty.name())
    })
}

pub const ROUNDED: &str =
    ", which would round this whole number; with `.0` behind it, it is rounded";

/// Whether a text is a whole number beyond 2^53, which an f64 may not hold.
pub fn is_rounded(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
    let whole = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
    whole && digits.parse::<u64>().map_or(true, |v| v > 1 << 53)
}

/// The value of the type that the input itself gives it.
fn native(raw: &Raw) -> Option<Value> {
    Some(match raw {
        Raw::Text(text) if text.is_empty() => return None,
        Raw::Text(text) | Raw::Str(text) | Raw::Large(text) => Value::Str(text.clone()),
        Raw::Bool(v) => Value::Bool(*v),
        Raw::Int(v) => Value::I64(*v),
        Raw::Uint(v) => Value::U64(*v),
        Raw::Float(v) => Value::F64(*v),
        Raw::MinusZero => Value::F64(-0.0),
        Raw::Missing | Raw::List(_) => return None,
    })
}

fn raw_to_json(raw: &Raw) -> Json {
    match raw {
        Raw::Missing => Json::Null,
        Raw::Text(text) | Raw::Str(text) => Json::from(text.as_str()),
        Raw::Bool(v) => Json::from(*v),
        Raw::Int(v) => Json::from(*v),
        Raw::Uint(v) => Json::from(*v),
        Raw::Float(v) => Json::from(*v),
        Raw::MinusZero => "-0".parse().unwrap_or(Json::Null),
        Raw::Large(text) => serde_json::from_str(text).unwrap_or(Json::Null),
        Raw::List(items) => items.iter().map(raw_to_json).collect(),
    }
}

/// The first 60 characters of a text for a message.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}
