//! Converts rows to documents of a schema, with their payloads.

use crate::row::{BadRow, RawValue, Row};
use crate::value::{ROUNDED, from_hex, is_missing_word, is_rounded, parse, to_json};
use firndb::search::{Document, Field, Schema, Type, Value};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};

/// What documents carry as their payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadSource {
    /// The whole row as a JSON object.
    #[default]
    Row,
    /// Nothing.
    None,
    /// The text of one column.
    Column(String),
}

/// How texts express the bytes of a field of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BytesFormat {
    /// As they are (UTF-8).
    #[default]
    Text,
    /// As hexadecimal digits, two per byte, which is what writers emit.
    Hex,
}

/// Options of a [`Typer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TyperOptions {
    /// Texts that stand for "no value" in every column. In columns of numbers, booleans and
    /// timestamps the empty text always does, and so do words such as `NA`.
    pub null_texts: Vec<String>,
    /// Separates the values of a multi-valued field in CSV.
    pub separator: char,
    /// What documents carry as their payload.
    pub payload: PayloadSource,
    /// Refuses rows with columns that are not fields of the schema, instead of ignoring the
    /// columns. Columns of nested arrays are always ignored: no field can hold them.
    pub strict: bool,
    /// How texts express the bytes of fields of bytes.
    pub bytes: BytesFormat,
}

impl Default for TyperOptions {
    fn default() -> TyperOptions {
        TyperOptions {
            null_texts: Vec::new(),
            separator: '|',
            payload: PayloadSource::Row,
            strict: false,
            bytes: BytesFormat::Text,
        }
    }
}

impl TyperOptions {
    /// Sets [`TyperOptions::null_texts`].
    pub fn null_texts(mut self, texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.null_texts = texts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`TyperOptions::separator`].
    pub fn separator(mut self, separator: char) -> Self {
        self.separator = separator;
        self
    }

    /// Sets [`TyperOptions::payload`].
    pub fn payload(mut self, payload: PayloadSource) -> Self {
        self.payload = payload;
        self
    }

    /// Sets [`TyperOptions::strict`].
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Sets [`TyperOptions::bytes`].
    pub fn bytes(mut self, bytes: BytesFormat) -> Self {
        self.bytes = bytes;
        self
    }
}

/// Converts rows to documents of a schema.
#[derive(Debug)]
pub struct Typer<'a> {
    schema: &'a Schema,
    fields: HashMap<&'a str, usize>,
    options: TyperOptions,
    /// Number of values of each cell of the current row; `None` for a column that is not a field.
    counts: Vec<Option<usize>>,
    /// Columns that are not fields, with the number of rows that had them.
    left_out: BTreeMap<String, u64>,
}

/// The column concerned (empty for the whole row) and the reason.
type Wrong = (String, String);

impl<'a> Typer<'a> {
    /// A converter to documents of `schema`.
    pub fn new(schema: &'a Schema, options: TyperOptions) -> Typer<'a> {
        let fields =
            schema.fields().iter().enumerate().map(|(i, f)| (f.name.as_str(), i)).collect();
        Typer { schema, fields, options, counts: Vec::new(), left_out: BTreeMap::new() }
    }

    /// Ignored columns that are not fields, with the number of rows that had them.
    pub fn left_out(&self) -> &BTreeMap<String, u64> {
        &self.left_out
    }

    /// The document of a row.
    ///
    /// # Errors
    ///
    /// The column and the reason, if a value is not of the type of its field, or a field that is
    /// not nullable has no value.
    pub fn document(&mut self, row: &Row) -> Result<Document, BadRow> {
        self.typed(row).map_err(|(column, reason)| {
            let column = (!column.is_empty()).then_some(column);
            BadRow { position: row.position.clone(), column, reason }
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
    fn values(
        &self,
        field: &Field,
        raw: &RawValue,
        push: &mut dyn FnMut(Value),
    ) -> Result<(), String> {
        match raw {
            RawValue::Missing => {}
            RawValue::Text(text) if self.is_missing(field, text) => {}
            RawValue::Nested(_) => {
                return Err("an array may hold strings, numbers and booleans only".to_string());
            }
            RawValue::List(_) if !field.multi => {
                return Err(
                    "an array in a single-valued field; set multi = true for it".to_string()
                );
            }
            RawValue::List(items) => {
                items.iter().try_for_each(|item| self.convert(field.ty, item).map(&mut *push))?;
            }
            RawValue::Text(text) if field.multi => {
                for part in text.split(self.options.separator).filter(|part| !part.is_empty()) {
                    push(self.convert(field.ty, &RawValue::Text(part.to_string()))?);
                }
            }
            raw => push(self.convert(field.ty, raw)?),
        }
        Ok(())
    }

    fn convert(&self, ty: Type, raw: &RawValue) -> Result<Value, String> {
        match (ty, raw) {
            (Type::Bytes, RawValue::Text(text) | RawValue::Str(text))
                if self.options.bytes == BytesFormat::Hex =>
            {
                from_hex(text).map(Value::Bytes).map_err(|error| error.message().to_string())
            }
            _ => convert_scalar(ty, raw),
        }
    }

    fn is_missing(&self, field: &Field, text: &str) -> bool {
        let is_text = matches!(field.ty, Type::String | Type::Bytes);
        self.options.null_texts.iter().any(|null| null == text)
            || (!is_text && (text.is_empty() || is_missing_word(text)))
    }

    fn unknown(
        &mut self,
        column: &str,
        raw: &RawValue,
        document: &mut Document,
    ) -> Result<(), Wrong> {
        if self.schema.is_dynamic() && !matches!(raw, RawValue::Nested(_)) {
            match raw {
                RawValue::List(items) => {
                    items.iter().filter_map(native).for_each(|v| document.push(column, v))
                }
                raw => native(raw).into_iter().for_each(|v| document.push(column, v)),
            }
            return Ok(());
        }
        if self.options.strict && !matches!(raw, RawValue::Nested(_)) {
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

    /// Finds a field without a value that must have one.
    fn check_missing(&self, row: &Row) -> Result<(), Wrong> {
        let has = |name: &str| row.cells.iter().any(|(column, _)| &**column == name);
        match self.schema.fields().iter().find(|f| !f.nullable && !has(&f.name)) {
            Some(field) => Err((field.name.clone(), missing(field))),
            None => Ok(()),
        }
    }

    fn payload_of(&self, row: &Row, document: &Document) -> Result<Vec<u8>, Wrong> {
        match &self.options.payload {
            PayloadSource::None => Ok(Vec::new()),
            PayloadSource::Row => Ok(match &row.json {
                Some(json) => json.clone().into_bytes(),
                None => self.row_as_json(row, document),
            }),
            PayloadSource::Column(name) => {
                match row.cells.iter().find(|(column, _)| **column == **name) {
                    Some((_, RawValue::Text(text) | RawValue::Str(text))) => {
                        Ok(text.clone().into_bytes())
                    }
                    Some((_, RawValue::Missing)) => Ok(Vec::new()),
                    Some((_, raw)) => Ok(raw_to_json(raw).to_string().into_bytes()),
                    None => {
                        Err((name.clone(), "the payload's column is not in the row".to_string()))
                    }
                }
            }
        }
    }

    /// A row of CSV as a JSON object: fields with their types, other columns as text, without
    /// missing values.
    fn row_as_json(&self, row: &Row, document: &Document) -> Vec<u8> {
        let mut values = document.fields().map(|(_, value)| to_json(value));
        let mut out = vec![b'{'];
        for ((column, raw), count) in row.cells.iter().zip(&self.counts) {
            let json = match count {
                None if self.schema.is_dynamic() && native(raw).is_some() => values.next(),
                None => (*raw != RawValue::Missing).then(|| raw_to_json(raw)),
                Some(0) => None,
                Some(1) => values.next(),
                Some(count) => Some(values.by_ref().take(*count).collect()),
            };
            if let Some(json) = json {
                out.extend_from_slice(if out.len() > 1 { b"," } else { b"" });
                // Writing to a buffer in memory cannot fail.
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

/// The value of `raw` in a field of type `ty`, or the reason why there is none.
fn convert_scalar(ty: Type, raw: &RawValue) -> Result<Value, String> {
    let value = match (ty, raw) {
        (Type::F64, RawValue::Text(text) | RawValue::Str(text)) if is_rounded(text) => None,
        (_, RawValue::Text(text) | RawValue::Str(text)) => parse(ty, text),
        (Type::Bool, RawValue::Bool(v)) => Some(Value::Bool(*v)),
        (Type::I64, RawValue::Int(v)) => Some(Value::I64(*v)),
        (Type::U64, RawValue::Int(v)) => u64::try_from(*v).ok().map(Value::U64),
        (Type::U64, RawValue::Uint(v)) => Some(Value::U64(*v)),
        (Type::F64, RawValue::Float(v)) => Some(Value::F64(*v)),
        (Type::F64, RawValue::NegativeZero) => Some(Value::F64(-0.0)),
        // A field of integers has one zero, in CSV too.
        (Type::I64, RawValue::NegativeZero) => Some(Value::I64(0)),
        (Type::F64, RawValue::Int(v)) if v.unsigned_abs() <= 1 << 53 => Some(Value::F64(*v as f64)),
        (Type::Bytes, RawValue::Bytes(bytes)) => Some(Value::Bytes(bytes.clone())),
        (Type::String, RawValue::Large(text)) => Some(Value::Str(text.clone())),
        (
            Type::String,
            RawValue::Bool(_)
            | RawValue::Int(_)
            | RawValue::Uint(_)
            | RawValue::Float(_)
            | RawValue::NegativeZero,
        ) => Some(Value::Str(raw_to_json(raw).to_string())),
        _ => None,
    };
    value.ok_or_else(|| {
        let shown = match raw {
            RawValue::Text(text) | RawValue::Str(text) => format!("`{}`", shorten(text)),
            raw => format!("`{}`", raw_to_json(raw)),
        };
        let why = match (ty, raw) {
            (Type::F64, RawValue::Text(text) | RawValue::Str(text) | RawValue::Large(text))
                if is_rounded(text) =>
            {
                ROUNDED
            }
            (Type::F64, RawValue::Int(_) | RawValue::Uint(_)) => ROUNDED,
            _ => "",
        };
        format!("{shown} is not of type {}{why}", ty.name())
    })
}

/// The value in the type of the input, for fields that a dynamic schema adds.
fn native(raw: &RawValue) -> Option<Value> {
    Some(match raw {
        RawValue::Text(text) | RawValue::Str(text) | RawValue::Large(text) => {
            Value::Str(text.clone())
        }
        RawValue::Bytes(bytes) => Value::Bytes(bytes.clone()),
        RawValue::Bool(v) => Value::Bool(*v),
        RawValue::Int(v) => Value::I64(*v),
        RawValue::Uint(v) => Value::U64(*v),
        RawValue::Float(v) => Value::F64(*v),
        RawValue::NegativeZero => Value::F64(-0.0),
        RawValue::Missing | RawValue::List(_) | RawValue::Nested(_) => return None,
    })
}

fn raw_to_json(raw: &RawValue) -> Json {
    match raw {
        RawValue::Missing => Json::Null,
        RawValue::Text(text) | RawValue::Str(text) => Json::from(text.as_str()),
        RawValue::Bool(v) => Json::from(*v),
        RawValue::Int(v) => Json::from(*v),
        RawValue::Uint(v) => Json::from(*v),
        RawValue::Float(v) => Json::from(*v),
        RawValue::NegativeZero => "-0".parse().unwrap_or(Json::Null),
        RawValue::Large(text) | RawValue::Nested(text) => {
            serde_json::from_str(text).unwrap_or(Json::Null)
        }
        RawValue::Bytes(bytes) => Json::from(hex::encode(bytes)),
        RawValue::List(items) => items.iter().map(raw_to_json).collect(),
    }
}

/// The first 60 characters of a text for a message.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}
