//! Parses filters, by recursive descent from `or` to a comparison.

use super::literal::{FieldRef, FieldUse};
use super::{AFTER_CONDITION, BEFORE_NAME, CLAUSES, MAX_DEPTH, Parser};
use crate::Result;
use crate::search::model::query::{Filter, Op, not};
use crate::search::model::types::Type;
use crate::search::model::value::Value;
use crate::search::text::diagnostics::suggest;
use crate::search::text::lexer::Token;

/// The maximum number of values in the list of an `in` in text form.
pub const MAX_IN: usize = 65_536;

/// Words that may follow a field's name: candidates for corrections.
const AFTER_NAME: [&str; 13] = [
    "is", "in", "between", "prefix", "like", "not", "and", "or", "order", "skip", "offset",
    "limit", "after",
];

/// Comparison symbols, their operator, and whether the comparison is not negated.
const OPERATORS: [(&str, Op, bool); 8] = [
    ("=", Op::Eq, true),
    ("==", Op::Eq, true),
    ("!=", Op::Eq, false),
    ("<>", Op::Eq, false),
    ("<", Op::Lt, true),
    ("<=", Op::Lte, true),
    (">", Op::Gt, true),
    (">=", Op::Gte, true),
];

impl<'a> Parser<'a> {
    pub(crate) fn filter(&mut self) -> Result<Filter> {
        let has_where = self.take("where")?;
        if self.take_symbol("*")? {
            return Ok(Filter::All);
        }
        if !has_where && (self.lexeme.token == Token::End || self.at_any(&CLAUSES)) {
            return Ok(Filter::All);
        }
        self.disjunction()
    }

    fn disjunction(&mut self) -> Result<Filter> {
        let first = self.conjunction()?;
        let mut parts = vec![first];
        while self.take("or")? {
            parts.push(self.conjunction()?);
        }
        Ok(if parts.len() > 1 { Filter::Or(parts) } else { parts.swap_remove(0) })
    }

    fn conjunction(&mut self) -> Result<Filter> {
        let mut parts = vec![self.unary()?];
        while self.take("and")? {
            parts.push(self.unary()?);
        }
        Ok(if parts.len() > 1 { Filter::And(parts) } else { parts.swap_remove(0) })
    }

    fn unary(&mut self) -> Result<Filter> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("the condition is nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let filter = if self.take("not")? {
            not(self.unary()?)
        } else if self.take_symbol("(")? {
            let inner = self.disjunction()?;
            self.expect_symbol(")", "`and`, `or` or `)`")?;
            inner
        } else if self.take("all")? {
            Filter::All
        } else if self.take("exists")? {
            let parenthesis = self.take_symbol("(")?;
            let field = self.field(FieldUse::Filter, "a field's name after `exists`")?;
            if parenthesis {
                self.expect_symbol(")", "`)`")?;
            }
            Filter::Exists(field.name)
        } else {
            self.condition()?
        };
        self.depth -= 1;
        Ok(filter)
    }

    fn condition(&mut self) -> Result<Filter> {
        let field = self.field(FieldUse::Filter, "a condition")?;
        if let Token::Symbol(symbol) = self.lexeme.token
            && let Some((_, op, positive)) = OPERATORS.into_iter().find(|(s, ..)| *s == symbol)
        {
            self.advance()?;
            let value = self.literal(&field)?;
            return Ok(negate_if(!positive, Filter::Compare(field.name, op, value)));
        }
        if self.take("is")? {
            let negated = self.take("not")?;
            self.expect("null")?;
            return Ok(negate_if(!negated, Filter::Exists(field.name)));
        }
        let negated = self.take("not")?;
        let filter = if self.take("in")? {
            let values = self.list(&field)?;
            Filter::In(field.name, values)
        } else if self.take("between")? {
            let low = self.literal(&field)?;
            self.expect("and")?;
            let high = self.literal(&field)?;
            Filter::Between(field.name, low, high)
        } else if self.take("prefix")? {
            self.prefix(field)?
        } else if self.take("like")? {
            self.like(field)?
        } else if negated {
            return Err(self.expected("`in`, `between`, `prefix` or `like`", &AFTER_NAME));
        } else {
            self.name_alone(field)?
        };
        Ok(negate_if(negated, filter))
    }

    /// A field's name without an operator: `name = true` for a bool field, otherwise an error that
    /// suggests what may be missing or misspelled.
    fn name_alone(&self, field: FieldRef) -> Result<Filter> {
        let ends = self.lexeme.token == Token::End || self.lexeme.token == Token::Symbol(")");
        let may_be_bool = field.known.is_none_or(|f| f.ty == Type::Bool);
        if (ends || self.at_any(&AFTER_CONDITION)) && may_be_bool {
            return Ok(Filter::Compare(field.name, Op::Eq, Value::Bool(true)));
        }
        let name = &field.name;
        let what = format!("an operator (=, <, in, between, prefix, like, is ...) after `{name}`");
        let error = self.expected(&what, &AFTER_NAME);
        match suggest(name, &BEFORE_NAME) {
            Some(word) if !error.message().ends_with('?') => {
                Err(self.error(format!("{}; did you mean `{word}`?", error.message())))
            }
            _ => Err(error),
        }
    }

    fn list(&mut self, field: &FieldRef) -> Result<Vec<Value>> {
        self.expect_symbol("(", "`(` and the values after `in`")?;
        let mut values = Vec::new();
        if self.take_symbol(")")? {
            return Ok(values);
        }
        loop {
            if values.len() == MAX_IN {
                return Err(self.error(format!("the list of `in` has more than {MAX_IN} values")));
            }
            values.push(self.literal(field)?);
            if !self.take_symbol(",")? {
                self.expect_symbol(")", "`,` or `)`")?;
                return Ok(values);
            }
        }
    }

    fn prefix(&mut self, field: FieldRef) -> Result<Filter> {
        let (mut value, end) = (self.value()?, self.lexeme.end);
        if let Some(known) = field.known {
            value = known.prefix_literal(value).map_err(|e| e.with_span(field.start, end))?;
        }
        self.advance()?;
        Ok(Filter::Prefix(field.name, value))
    }

    /// `like 'abc%'` is a prefix condition, `like 'abc'` a comparison; other patterns are errors.
    fn like(&mut self, field: FieldRef) -> Result<Filter> {
        let Token::Literal(Value::Str(pattern)) = &self.lexeme.token else {
            return Err(self.expected("a pattern like 'abc%' after `like`", &[]));
        };
        let (start, wild) = match pattern.strip_suffix('%') {
            Some(start) => (start, true),
            None => (pattern.as_str(), false),
        };
        if start.contains(['%', '_', '\\']) {
            return Err(self.error(
                "`like` takes a single % at the end and neither _ nor \\; \
                 in `prefix 'abc'` every character stands for itself",
            ));
        }
        let start = Value::Str(start.to_string());
        if wild {
            self.lexeme.token = Token::Literal(start);
            return self.prefix(field);
        }
        let value = self.literal(&field)?;
        Ok(Filter::Compare(field.name, Op::Eq, value))
    }
}

fn negate_if(negated: bool, filter: Filter) -> Filter {
    if negated { not(filter) } else { filter }
}
