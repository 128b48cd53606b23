//! Parses the text form of queries, which the command line, the server and the bindings share.
//!
//! ```text
//! query     := [where] [filter] clause*                 clauses in any order, each at most once
//! clause    := order by key (, key)*  |  skip N  |  offset N  |  limit N  |  after CURSOR
//! key       := NAME [asc | desc]  |  -NAME              -NAME means NAME desc
//! filter    := *  |  or                                 no filter means `all`
//! or        := and (or and)*
//! and       := unary (and unary)*
//! unary     := not unary  |  ( or )  |  all  |  exists NAME  |  exists ( NAME )  |  NAME condition
//! condition := (= | == | != | <> | < | <= | > | >=) value
//!            | is [not] null
//!            | [not] in ( [value (, value)*] )
//!            | [not] between value and value
//!            | [not] prefix value
//!            | [not] like 'abc%'
//!            | (empty)                                  a bool field that is true
//! value     := integer | float | inf | -inf | 'text' | x'hex' | true | false | timestamp 'time'
//! ```
//!
//! Keywords are case-insensitive and reserved: a field with such a name is written in double
//! quotes, `"limit"`. [`crate::search::text::lexer`] documents names and literals. Parsing takes
//! time linear in the length of the text; conditions nest at most [`MAX_DEPTH`] levels deep.
//!
//! With a schema, fields must exist and have the role that their use requires, and literals must
//! be comparable with the field's type; a string literal for a timestamp or bytes field becomes a
//! value of that type. Every error has a span, which [`crate::search::point_at`] shows.

use crate::search::model::names::is_keyword;
use crate::search::model::names::shorten;
use crate::search::model::query::MAX_DEPTH;
use crate::search::model::query::{Filter, OrderBy, PageToken, Query};
use crate::search::model::schema::Schema;
use crate::search::model::value::Value;
use crate::search::text::diagnostics::suggest;
use crate::search::text::lexer::{Lexeme, Lexer, Token};
use crate::{Error, Result};
use literal::FieldUse;

mod filter;
mod literal;

pub use filter::MAX_IN;

/// Words that start a clause.
const CLAUSES: [&str; 5] = ["order", "skip", "offset", "limit", "after"];
/// Words that may precede a field's name: candidates for corrections.
const BEFORE_NAME: [&str; 4] = ["not", "exists", "all", "where"];
/// Words that may follow a condition.
const AFTER_CONDITION: [&str; 7] = ["and", "or", "order", "skip", "offset", "limit", "after"];

/// Parses a filter: `region = 1 and price < 10.5`. Empty text, `*` and `all` match every document.
///
/// Errors are `InvalidArgument` with a span.
pub fn parse_filter(text: &str, schema: Option<&Schema>) -> Result<Filter> {
    let mut parser = Parser::new(text, schema)?;
    let filter = parser.filter()?;
    parser.end("`and`, `or` or the end of the condition", &AFTER_CONDITION[..2])?;
    Ok(filter)
}

/// Parses a query: `region = 1 order by -date, price skip 20 limit 10`. [`Query::count`] is not
/// part of the text.
///
/// Errors are `InvalidArgument` with a span.
///
/// ```
/// use firndb::search::{Field, Roles, Schema, Type, parse_query, point_at};
///
/// let schema = Schema::new([Field::new("price", Type::F64, Roles::FULL)])?;
/// let query = parse_query("price < 10 order by -price limit 5", Some(&schema))?;
/// assert_eq!(query.to_string(), "price < 10 order by price desc limit 5");
///
/// // With a schema, names are checked, and a similar one is suggested.
/// let error = parse_query("prize < 10", Some(&schema)).unwrap_err();
/// assert_eq!(error.span(), Some((0, 5)));
/// println!("{}", point_at("prize < 10", &error)); // marks these bytes
/// # Ok::<(), firndb::Error>(())
/// ```
pub fn parse_query(text: &str, schema: Option<&Schema>) -> Result<Query> {
    let mut parser = Parser::new(text, schema)?;
    let mut query = Query::new(parser.filter()?);
    parser.clauses(&mut query)?;
    parser.end("`and`, `or`, `order by`, `skip`, `limit`, `after` or the end", &AFTER_CONDITION)?;
    Ok(query)
}

/// Parses the sort keys of an order: `-date, price asc`. Empty text has no keys.
///
/// Errors are `InvalidArgument` with a span.
pub fn parse_order(text: &str, schema: Option<&Schema>) -> Result<Vec<OrderBy>> {
    let mut parser = Parser::new(text, schema)?;
    if parser.lexeme.token == Token::End {
        return Ok(Vec::new());
    }
    let keys = parser.keys()?;
    parser.end("`,` or the end of the order", &["asc", "desc"])?;
    Ok(keys)
}

/// A recursive-descent parser with one token of lookahead.
struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// The next token, not yet consumed.
    lexeme: Lexeme<'a>,
    schema: Option<&'a Schema>,
    /// Levels of parentheses and `not` around the next token.
    depth: usize,
}

/// Consuming tokens, and reporting errors.
impl<'a> Parser<'a> {
    fn new(text: &'a str, schema: Option<&'a Schema>) -> Result<Parser<'a>> {
        let mut lexer = Lexer::new(text);
        let lexeme = lexer.token()?;
        Ok(Parser { text, lexer, lexeme, schema, depth: 0 })
    }

    fn advance(&mut self) -> Result<()> {
        self.lexeme = self.lexer.token()?;
        Ok(())
    }

    fn at(&self, word: &str) -> bool {
        matches!(self.lexeme.token, Token::Word(w) if w.eq_ignore_ascii_case(word))
    }

    fn at_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.at(word))
    }

    /// Consumes `word` if it is next, and returns whether it was.
    fn take(&mut self, word: &str) -> Result<bool> {
        let found = self.at(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn take_symbol(&mut self, symbol: &'static str) -> Result<bool> {
        let found = self.lexeme.token == Token::Symbol(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        let found = self.take(word)?;
        if found { Ok(()) } else { Err(self.expected(&format!("`{word}`"), &[word])) }
    }

    fn expect_symbol(&mut self, symbol: &'static str, what: &str) -> Result<()> {
        let found = self.take_symbol(symbol)?;
        if found { Ok(()) } else { Err(self.expected(what, &AFTER_CONDITION[..2])) }
    }

    fn end(&self, what: &str, words: &[&str]) -> Result<()> {
        if self.lexeme.token == Token::End { Ok(()) } else { Err(self.expected(what, words)) }
    }

    /// An error whose span is the next token.
    fn error(&self, message: impl Into<String>) -> Error {
        Error::invalid(message).with_span(self.lexeme.start, self.lexeme.end)
    }

    /// The error for a next token that is not `what`. Suggests one of `words` if the token looks
    /// like a misspelling of it.
    fn expected(&self, what: &str, words: &[&str]) -> Error {
        let found = &self.text[self.lexeme.start..self.lexeme.end];
        let found = match self.lexeme.token {
            Token::End => "the end".to_string(),
            _ => format!("`{}`", shorten(found)),
        };
        let hint = match self.lexeme.token {
            Token::Word(word) if !is_keyword(word) => suggest(word, words),
            _ => None,
        };
        let hint = hint.map_or(String::new(), |word| format!("; did you mean `{word}`?"));
        self.error(format!("expected {what}, found {found}{hint}"))
    }
}

/// Parsing the clauses of a query.
impl<'a> Parser<'a> {
    fn clauses(&mut self, query: &mut Query) -> Result<()> {
        let mut seen = Vec::new();
        let mut token_span = (0, 0);
        while let Some(clause) = CLAUSES.into_iter().find(|clause| self.at(clause)) {
            let clause = if clause == "offset" { "skip" } else { clause };
            if seen.contains(&clause) {
                return Err(self.error(format!("`{clause}` is given twice")));
            }
            seen.push(clause);
            if clause == "after" {
                self.lexeme = self.lexer.non_space()?;
                token_span = (self.lexeme.start, self.lexeme.end);
                query.after = Some(self.page_token()?);
                self.advance()?;
                continue;
            }
            self.advance()?;
            match clause {
                "order" => {
                    self.expect("by")?;
                    query.order = self.keys()?;
                }
                "skip" => query.skip = self.number("skip")?,
                _ => query.limit = Some(self.number("limit")?),
            }
        }
        let Some(token) = &query.after else { return Ok(()) };
        token.check(&query.order).map_err(|e| e.with_span(token_span.0, token_span.1))
    }

    fn page_token(&self) -> Result<PageToken> {
        match self.lexeme.token {
            Token::Word(word) => {
                PageToken::parse(word).map_err(|e| e.with_span(self.lexeme.start, self.lexeme.end))
            }
            _ => Err(self.expected("the page token of a hit", &[])),
        }
    }

    fn number(&mut self, clause: &str) -> Result<u64> {
        let number = match self.lexeme.token {
            Token::Literal(Value::I64(v)) => u64::try_from(v).ok(),
            Token::Literal(Value::U64(v)) => Some(v),
            _ => None,
        };
        let name = match self.lexeme.token {
            Token::Symbol(_) => format!("; a field of this name is written \"{clause}\""),
            _ => String::new(),
        };
        let Some(number) = number else {
            let error = self.expected(&format!("a number of documents after `{clause}`"), &[]);
            return Err(self.error(format!("{}{name}", error.message())));
        };
        self.advance()?;
        Ok(number)
    }

    fn keys(&mut self) -> Result<Vec<OrderBy>> {
        let mut keys = Vec::new();
        loop {
            let minus = self.take_symbol("-")?;
            let field = self.field(FieldUse::Order, "the field to order by")?.name;
            let descending = minus || self.take("desc")?;
            if !descending {
                self.take("asc")?;
            }
            keys.push(OrderBy { field, descending });
            if !self.take_symbol(",")? {
                return Ok(keys);
            }
        }
    }
}

#[cfg(test)]
mod tests;
