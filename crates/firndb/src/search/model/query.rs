//! What can be asked: a tree of conditions, an order, a page. Data only; [`crate::search::parse_query`]
//! reads the text form.

use crate::search::model::names::is_keyword;
use crate::search::model::names::{continues_word, starts_word};
use crate::search::model::value::Value;
use std::fmt;

/// Levels of parentheses and `not` that a condition in text form may have.
pub const MAX_DEPTH: usize = 128;

/// A condition on documents. Build it with the functions of this module or parse it from text.
///
/// A condition on a field holds for a document if any of the field's values satisfies it; a
/// document without the field satisfies none of them (and therefore satisfies their negation).
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Every document.
    All,
    /// `field OP value`.
    Compare(String, Op, Value),
    /// The field is one of the values.
    In(String, Vec<Value>),
    /// `low <= field <= high`.
    Between(String, Value, Value),
    /// A string or bytes field starts with this value.
    Prefix(String, Value),
    /// The document has a value for the field.
    Exists(String),
    /// All of the conditions; an empty list is every document.
    And(Vec<Filter>),
    /// Any of the conditions; an empty list is no document.
    Or(Vec<Filter>),
    /// The documents that do not satisfy the condition.
    Not(Box<Filter>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `=`
    Eq,
    /// `<`
    Lt,
    /// `<=`
    Lte,
    /// `>`
    Gt,
    /// `>=`
    Gte,
}

impl Op {
    /// The operator as the query language writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Op::Eq => "=",
            Op::Lt => "<",
            Op::Lte => "<=",
            Op::Gt => ">",
            Op::Gte => ">=",
        }
    }
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident $op:ident),*) => {$(
        $(#[$doc])*
        pub fn $name(field: impl Into<String>, value: impl Into<Value>) -> Filter {
            Filter::Compare(field.into(), Op::$op, value.into())
        }
    )*};
}

compare! {
    /// `field = value`
    eq Eq,
    /// `field < value`
    lt Lt,
    /// `field <= value`
    lte Lte,
    /// `field > value`
    gt Gt,
    /// `field >= value`
    gte Gte
}

/// Every document.
pub fn all() -> Filter {
    Filter::All
}

/// `low <= field <= high`; empty if `low > high`.
pub fn between(field: impl Into<String>, low: impl Into<Value>, high: impl Into<Value>) -> Filter {
    Filter::Between(field.into(), low.into(), high.into())
}

/// The field is one of `values`.
pub fn is_in<V: Into<Value>>(
    field: impl Into<String>,
    values: impl IntoIterator<Item = V>,
) -> Filter {
    Filter::In(field.into(), values.into_iter().map(Into::into).collect())
}

/// A string or bytes field starts with `value`.
pub fn prefix(field: impl Into<String>, value: impl Into<Value>) -> Filter {
    Filter::Prefix(field.into(), value.into())
}

/// The document has a value for the field.
pub fn exists(field: impl Into<String>) -> Filter {
    Filter::Exists(field.into())
}

/// All of the conditions.
pub fn and(conditions: impl IntoIterator<Item = Filter>) -> Filter {
    Filter::And(conditions.into_iter().collect())
}

/// Any of the conditions.
pub fn or(conditions: impl IntoIterator<Item = Filter>) -> Filter {
    Filter::Or(conditions.into_iter().collect())
}

/// The documents that do not satisfy the condition.
#[allow(clippy::should_implement_trait)]
pub fn not(condition: Filter) -> Filter {
    Filter::Not(Box::new(condition))
}

/// One key of an order. Documents without a value come last in either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBy {
    /// A sortable field.
    pub field: String,
    /// Largest first.
    pub descending: bool,
}

/// Smallest value first.
pub fn asc(field: impl Into<String>) -> OrderBy {
    OrderBy { field: field.into(), descending: false }
}

/// Largest value first.
pub fn desc(field: impl Into<String>) -> OrderBy {
    OrderBy { field: field.into(), descending: true }
}

/// A query for a page of documents. Ties of the order are broken by partition (in the order of
/// their names), then document, so that pages never overlap or miss; without an order that is the
/// whole order.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Which documents.
    pub filter: Filter,
    /// In which order.
    pub order: Vec<OrderBy>,
    /// How many matches to pass over.
    pub skip: u64,
    /// How many matches to return at most; `None` is all of them.
    pub limit: Option<u64>,
    /// Return only what comes after this place of the order ("search after").
    pub after: Option<Cursor>,
    /// Count all matches of the filter in the same pass (skip, limit and `after` do not change the
    /// count).
    pub count: bool,
}

impl Query {
    /// All documents that satisfy `filter`.
    pub fn new(filter: Filter) -> Query {
        Query { filter, order: Vec::new(), skip: 0, limit: None, after: None, count: false }
    }

    /// Adds a key to the order.
    pub fn order_by(mut self, key: OrderBy) -> Query {
        self.order.push(key);
        self
    }

    /// Passes over the first `skip` matches.
    pub fn skip(mut self, skip: u64) -> Query {
        self.skip = skip;
        self
    }

    /// Returns at most `limit` matches.
    pub fn limit(mut self, limit: u64) -> Query {
        self.limit = Some(limit);
        self
    }

    /// Returns only what comes after `cursor`, which an earlier page of the same order gave.
    pub fn after(mut self, cursor: Cursor) -> Query {
        self.after = Some(cursor);
        self
    }

    /// Counts all matches in the same pass.
    pub fn with_count(mut self) -> Query {
        self.count = true;
        self
    }
}

/// A place in the order of a query: the keys of a hit, its partition's name, its document number.
/// It stays meaningful when partitions are replaced; [`fmt::Display`] and [`Cursor::parse`] carry
/// it as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Cursor {
    /// The values of the order's fields; `None` where the document has none.
    pub keys: Vec<Option<Value>>,
    /// Name of the partition.
    pub partition: String,
    /// Number of the document in its partition.
    pub doc: u32,
}

impl fmt::Display for OrderBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Name(&self.field), if self.descending { " desc" } else { "" })
    }
}

impl fmt::Display for Filter {
    /// The text form: what [`crate::search::parse_filter`] reads gives the same filter back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::All => f.write_str("all"),
            Filter::Compare(field, op, value) => {
                write!(f, "{} {} {value}", Name(field), op.symbol())
            }
            Filter::In(field, values) => {
                write!(f, "{} in (", Name(field))?;
                join(f, values, ", ")?;
                f.write_str(")")
            }
            Filter::Between(field, low, high) => {
                write!(f, "{} between {low} and {high}", Name(field))
            }
            Filter::Prefix(field, value) => write!(f, "{} prefix {value}", Name(field)),
            Filter::Exists(field) => write!(f, "exists {}", Name(field)),
            Filter::And(parts) if parts.is_empty() => f.write_str("all"),
            Filter::Or(parts) if parts.is_empty() => f.write_str("not all"),
            Filter::And(parts) | Filter::Or(parts) if parts.len() == 1 => write!(f, "{}", parts[0]),
            Filter::And(parts) => nested(f, parts, " and "),
            Filter::Or(parts) => nested(f, parts, " or "),
            Filter::Not(part) => match &**part {
                Filter::And(_) | Filter::Or(_) => write!(f, "not ({part})"),
                _ => write!(f, "not {part}"),
            },
        }
    }
}

fn nested(f: &mut fmt::Formatter<'_>, parts: &[Filter], word: &str) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { word })?;
        match part {
            Filter::And(_) | Filter::Or(_) => write!(f, "({part})")?,
            _ => write!(f, "{part}")?,
        }
    }
    Ok(())
}

impl fmt::Display for Query {
    /// The text form, which [`crate::search::parse_query`] reads; `count` is not part of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.filter)?;
        if !self.order.is_empty() {
            f.write_str(" order by ")?;
            join(f, &self.order, ", ")?;
        }
        if self.skip > 0 {
            write!(f, " skip {}", self.skip)?;
        }
        if let Some(limit) = self.limit {
            write!(f, " limit {limit}")?;
        }
        if let Some(cursor) = &self.after {
            write!(f, " after {cursor}")?;
        }
        Ok(())
    }
}

fn join<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T], separator: &str) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if i == 0 { "" } else { separator })?;
    }
    Ok(())
}

/// A field's name as the query language writes it: bare if it is a plain identifier, else in double
/// quotes.
pub(crate) struct Name<'a>(pub &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.0.starts_with(starts_word)
            && self.0.chars().all(continues_word)
            && !is_keyword(self.0);
        if word { f.write_str(self.0) } else { write!(f, "\"{}\"", self.0.replace('"', "\"\"")) }
    }
}

#[cfg(test)]
mod tests;
