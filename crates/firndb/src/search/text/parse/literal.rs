//! Names and literals, checked against the schema if there is one.

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

/// What a field is used for, which takes a role.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    Filter,
    Order,
}

impl Use {
    fn allowed(self, roles: Roles) -> bool {
        match self {
            Use::Filter => roles.filterable,
            Use::Order => roles.sortable,
        }
    }

    fn role(self) -> &'static str {
        match self {
            Use::Filter => "filterable",
            Use::Order => "sortable",
        }
    }
}

/// A field that a condition or key names, and what the schema says of it.
pub(crate) struct Named<'a> {
    pub name: String,
    pub field: Option<&'a Field>,
    pub start: usize,
}

impl<'a> Parser<'a> {
    pub(crate) fn field(&mut self, usage: Use, what: &str) -> Result<Named<'a>> {
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
        let field = match self.schema {
            Some(schema) => self.known(schema, &name, usage)?,
            None => None,
        };
        let start = self.lexeme.start;
        self.advance()?;
        Ok(Named { name, field, start })
    }

    /// The field of this name; `None` if it may come into being with a later document.
    fn known(&self, schema: &'a Schema, name: &str, usage: Use) -> Result<Option<&'a Field>> {
        match schema.field(name) {
            Some((_, field)) if usage.allowed(field.roles) => Ok(Some(field)),
            Some(_) => {
                let role = usage.role();
                let able = schema.fields().iter().filter(|f| usage.allowed(f.roles));
                let names: Vec<&str> = able.map(|f| f.name.as_str()).collect();
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

    pub(crate) fn literal(&mut self, named: &Named) -> Result<Value> {
        let start = self.lexeme.start;
        let value = self.value()?;
        if let Some(field) = named.field {
            key_of(field, &value).map_err(|e| e.with_span(start, self.lexeme.end))?;
        }
        self.advance()?;
        Ok(coerce(named.field, value))
    }

    /// A literal; its last token stays the next one, so that errors about the literal come before
    /// those after it.
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

/// Text for a timestamp or bytes field becomes a value of that type; anything else stays what it
/// is.
pub(crate) fn coerce(field: Option<&Field>, value: Value) -> Value {
    match (field.map(|f| f.ty), value) {
        (Some(Type::Timestamp), Value::Str(text)) => {
            timestamp_from_text(&text).map_or(Value::Str(text), Value::Timestamp)
        }
        (Some(Type::Bytes), Value::Str(text)) => Value::Bytes(text.into_bytes()),
        (_, value) => value,
    }
}
