//! Queries: a filter tree, an order, and a page of the result. Data only;
//! [`crate::search::parse_query`] reads the text form.

use crate::search::model::names::is_keyword;
use crate::search::model::names::{continues_word, starts_word};
use crate::search::model::value::Value;
use std::fmt;

/// The maximum nesting depth of parentheses and `not` in a filter in text form.
pub const MAX_DEPTH: usize = 128;

/// A condition on documents. Build it with the functions of this module, or parse it with
/// [`crate::search::parse_filter`].
///
/// A document matches a condition on a field if any of its values of that field does. A document
/// without the field matches no such condition, and therefore matches the negation of each.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Filter {
    /// Every document.
    All,
    /// `field OP value`.
    Compare(String, Op, Value),
    /// The field has one of the values.
    In(String, Vec<Value>),
    /// `low <= field <= high`.
    Between(String, Value, Value),
    /// A string or bytes field has a value that starts with this one.
    Prefix(String, Value),
    /// The document has a value for the field.
    Exists(String),
    /// All of the conditions; an empty list matches every document.
    And(Vec<Filter>),
    /// Any of the conditions; an empty list matches no document.
    Or(Vec<Filter>),
    /// The documents that do not match the condition.
    Not(Box<Filter>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// The operator in the query language.
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

/// `low <= field <= high`; matches nothing if `low > high`.
pub fn between(field: impl Into<String>, low: impl Into<Value>, high: impl Into<Value>) -> Filter {
    Filter::Between(field.into(), low.into(), high.into())
}

/// The field has one of `values`.
pub fn is_in<V: Into<Value>>(
    field: impl Into<String>,
    values: impl IntoIterator<Item = V>,
) -> Filter {
    Filter::In(field.into(), values.into_iter().map(Into::into).collect())
}

/// A string or bytes field has a value that starts with `value`.
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

/// The documents that do not match the condition.
#[allow(clippy::should_implement_trait)]
pub fn not(condition: Filter) -> Filter {
    Filter::Not(Box::new(condition))
}

/// One sort key of an order. Documents without a value come last in either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrderBy {
    /// A sortable field.
    pub field: String,
    /// Largest value first.
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

/// A query for one page of documents. Ties in the order are broken by partition name, then by
/// document number, so that pages neither overlap nor skip documents. Without an order, the
/// tie-breakers alone define it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Query {
    /// The documents to find.
    pub filter: Filter,
    /// The sort keys, most significant first.
    pub order: Vec<OrderBy>,
    /// The number of matches to skip.
    pub skip: u64,
    /// The maximum number of matches to return; `None` returns all of them.
    pub limit: Option<u64>,
    /// Return only matches that follow this position in the order ("search after").
    pub after: Option<PageToken>,
    /// Also count all matches of the filter, in the same pass. `skip`, `limit` and `after` do not
    /// change the count.
    pub count: bool,
}

impl Query {
    /// A query for all documents that match `filter`.
    pub fn new(filter: Filter) -> Query {
        Query { filter, order: Vec::new(), skip: 0, limit: None, after: None, count: false }
    }

    /// Appends a sort key to the order.
    pub fn order_by(mut self, key: OrderBy) -> Query {
        self.order.push(key);
        self
    }

    /// Skips the first `skip` matches.
    pub fn skip(mut self, skip: u64) -> Query {
        self.skip = skip;
        self
    }

    /// Returns at most `limit` matches.
    pub fn limit(mut self, limit: u64) -> Query {
        self.limit = Some(limit);
        self
    }

    /// Returns only matches after `page token`, which comes from an earlier page of the same order.
    pub fn after(mut self, token: PageToken) -> Query {
        self.after = Some(token);
        self
    }

    /// Also counts all matches, in the same pass.
    pub fn with_count(mut self) -> Query {
        self.count = true;
        self
    }
}

/// A position in the order of a query: the sort keys of a hit, the name of its partition and its
/// document number. It stays valid when partitions are replaced. [`fmt::Display`] writes it as
/// text, [`PageToken::parse`] reads it back.
///
/// ```
/// use firndb::search::{PageToken, Query, Reader};
///
/// /// A page of results, and the token for the request of the next page.
/// fn page(
///     reader: &Reader,
///     mut query: Query,
///     token: Option<&str>,
/// ) -> firndb::Result<(Vec<String>, Option<String>)> {
///     if let Some(token) = token {
///         query = query.after(PageToken::parse(token)?);
///     }
///     let page = reader.search(&query)?;
///     let mut texts = Vec::new();
///     for payload in reader.payloads(&page.hits)? {
///         texts.push(String::from_utf8_lossy(&payload).into_owned());
///     }
///     let next = match page.hits.last() {
///         Some(&last) => Some(reader.page_token(&query, last)?.to_string()),
///         None => None,
///     };
///     Ok((texts, next))
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageToken {
    /// The values of the order's fields; `None` where the document has no value.
    pub keys: Vec<Option<Value>>,
    /// Name of the partition.
    pub partition: String,
    /// Number of the document within its partition.
    pub doc: u32,
}

impl fmt::Display for OrderBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Name(&self.field), if self.descending { " desc" } else { "" })
    }
}

impl fmt::Display for Filter {
    /// The text form, which [`crate::search::parse_filter`] reads back.
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
            Filter::And(parts) => join_nested(f, parts, " and "),
            Filter::Or(parts) => join_nested(f, parts, " or "),
            Filter::Not(part) => match &**part {
                Filter::And(_) | Filter::Or(_) => write!(f, "not ({part})"),
                _ => write!(f, "not {part}"),
            },
        }
    }
}

fn join_nested(f: &mut fmt::Formatter<'_>, parts: &[Filter], word: &str) -> fmt::Result {
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
        if let Some(token) = &self.after {
            write!(f, " after {token}")?;
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

/// Displays a field's name as the query language writes it: in double quotes unless it is a plain
/// identifier.
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
