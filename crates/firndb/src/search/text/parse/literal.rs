//! Parses field names and literals, and checks them against the schema if there is one.

use super::{BEFORE_NAME, Parser};
use crate::Result;
use crate::search::model::names::is_keyword;
use crate::search::model::names::shorten;
use crate::search::model::schema::{Field, Schema};
use crate::search::model::value::{Value, timestamp_from_text};
use crate::search::text::diagnostics::suggest;
use crate::search::text::lexer::Token;

/// How a query uses a field; each use requires a role.
#[derive(Clone, Copy)]
pub(crate) enum FieldUse {
    Filter,
    Order,
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
        let found = match usage {
            FieldUse::Filter => schema.filterable(name),
            FieldUse::Order => schema.sortable(name),
        };
        found.map_err(|error| {
            let word = suggest(name, &BEFORE_NAME).filter(|_| schema.field(name).is_none());
            self.error(match word {
                Some(word) => format!("{}; or did you mean `{word}`?", error.message()),
                None => error.message().to_string(),
            })
        })
    }

    /// Parses a literal and checks that it is comparable with the field.
    pub(crate) fn literal(&mut self, field: &FieldRef) -> Result<Value> {
        let start = self.lexeme.start;
        let mut value = self.value()?;
        if let Some(known) = field.known {
            value = known.literal(value).map_err(|e| e.with_span(start, self.lexeme.end))?;
        }
        self.advance()?;
        Ok(value)
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
