//! Parses field names and literals, and checks them against the schema if there is one.

use super::{BEFORE_NAME, Parser};
use crate::Result;
use crate::search::model::condition::key_of;
use crate::search::model::names::is_keyword;
use crate::search::model::names::list_names;
use crate::search::model::names::shorten;
use crate::search::model::schema::{Field, Roles, Schema};
use crate::search::model::types::Type;
use crate::search::model::value::{Value, timestamp_from_text};
use crate::search::text::diagnostics::suggest;
use crate::search::text::lexer::Token;

/// How a query uses a field; each use requires a role.
#[derive(Clone, Copy)]
pub(crate) enum FieldUse {
    Filter,
    Order,
}

impl FieldUse {
    fn is_allowed(self, roles: Roles) -> bool {
        match self {
            FieldUse::Filter => roles.filterable,
            FieldUse::Order => roles.sortable,
        }
    }

    fn required_role(self) -> &'static str {
        match self {
            FieldUse::Filter => "filterable",
            FieldUse::Order => "sortable",
        }
    }
}

/// A field named by a condition or a sort key.
pub(crate) struct FieldRef<'a> {
    pub name: String,
    /// The field in the schema; `None` without a schema, or if a dynamic schema lacks the field.
    pub known: Option<&'a Field>,
    /// Where the name starts in the text.
    pub start: usize,
}

impl<'a> Parser<'a> {
    /// Parses a field's name. `what` describes the expected text in error messages.
    pub(crate) fn field(&mut self, usage: FieldUse, what: &str) -> Result<FieldRef<'a>> {
        let name = match &self.lexeme.token {
            Token::Word(word) if is_keyword(word) => {
                return Err(self.error(format!(
                    "expected {what}, found the keyword `{word}`; \
                     a field of this name is written \"{word}\""
                )));
            }
            Token::Word(word) => word.to_string(),
            Token::Name(name) => name.clone(),
            _ => return Err(self.expected(what, &[])),
        };
        let known = match self.schema {
            Some(schema) => self.resolve(schema, &name, usage)?,
            None => None,
        };
        let start = self.lexeme.start;
        self.advance()?;
        Ok(FieldRef { name, known, start })
    }

    /// The field with this name; `None` if the schema is dynamic and lacks it. An error if it does
    /// not exist or lacks the required role.
    fn resolve(
        &self,
        schema: &'a Schema,
        name: &str,
        usage: FieldUse,
    ) -> Result<Option<&'a Field>> {
        match schema.field(name) {
            Some((_, field)) if usage.is_allowed(field.roles) => Ok(Some(field)),
            Some(_) => {
                let role = usage.required_role();
                let allowed = schema.fields().iter().filter(|f| usage.is_allowed(f.roles));
                let names: Vec<&str> = allowed.map(|f| f.name.as_str()).collect();
                let list = if names.is_empty() { "none".to_string() } else { list_names(&names) };
                Err(self.error(format!("field `{name}` is not {role}; {role} fields: {list}")))
            }
            None if schema.is_dynamic() => Ok(None),
            None => {
                let message = schema.unknown(name).message().to_string();
                Err(self.error(match suggest(name, &BEFORE_NAME) {
                    Some(word) => format!("{message}; or did you mean `{word}`?"),
                    None => message,
                }))
            }
        }
    }

    /// Parses a literal and checks that it is comparable with the field.
    pub(crate) fn literal(&mut self, field: &FieldRef) -> Result<Value> {
        let start = self.lexeme.start;
        let value = self.value()?;
        if let Some(schema_field) = field.known {
            key_of(schema_field, &value).map_err(|e| e.with_span(start, self.lexeme.end))?;
        }
        self.advance()?;
        Ok(coerce(field.known, value))
    }

    /// Parses a literal without consuming its last token, so that errors about the literal are
    /// reported before errors in the text after it.
    pub(crate) fn value(&mut self) -> Result<Value> {
        if let Token::Literal(value) = &self.lexeme.token {
            return Ok(value.clone());
        }
        if self.take_symbol("-")? {
            return if self.at("inf") {
                Ok(Value::F64(f64::NEG_INFINITY))
            } else {
                Err(self.expected("a number or `inf` after `-`", &["inf"]))
            };
        }
        match &self.lexeme.token {
            Token::Word(_) if self.at("true") => Ok(Value::Bool(true)),
            Token::Word(_) if self.at("false") => Ok(Value::Bool(false)),
            Token::Word(_) if self.at("inf") => Ok(Value::F64(f64::INFINITY)),
            Token::Word(_) if self.at("timestamp") => self.timestamp(),
            Token::Word(_) if self.at("null") => {
                Err(self.error("nothing equals null; write `is null` or `is not null`"))
            }
            Token::Word(word) => Err(self.error(format!(
                "expected a value, found `{word}`; text goes in single quotes: '{word}'",
                word = shorten(word)
            ))),
            Token::Name(_) => Err(self.error(
                "expected a value, found a name in double quotes; text goes in single quotes",
            )),
            _ => Err(self.expected("a value", &[])),
        }
    }

    fn timestamp(&mut self) -> Result<Value> {
        self.advance()?;
        let Token::Literal(Value::Str(text)) = &self.lexeme.token else {
            return Err(self.expected("a time in single quotes after `timestamp`", &[]));
        };
        let micros = timestamp_from_text(text).ok_or_else(|| {
            let text = shorten(text);
            self.error(format!("'{text}' is not a time (2013-01-01T05:15:00Z, 2013-01-01)"))
        })?;
        Ok(Value::Timestamp(micros))
    }
}

/// Converts a string literal for a timestamp or bytes field to that type; returns any other value
/// unchanged.
pub(crate) fn coerce(field: Option<&Field>, value: Value) -> Value {
    match (field.map(|f| f.ty), value) {
        (Some(Type::Timestamp), Value::Str(text)) => {
            timestamp_from_text(&text).map_or(Value::Str(text), Value::Timestamp)
        }
        (Some(Type::Bytes), Value::Str(text)) => Value::Bytes(text.into_bytes()),
        (_, value) => value,
    }
}
