//! The text form of queries.
use super::query::{Filter, Query};
use super::schema::Schema;
use crate::Result;

/// Reads a condition.
pub fn parse_filter(text: &str, schema: Option<&Schema>) -> Result<Filter> { let _ = (text, schema); todo!() }
/// Reads a query.
pub fn parse_query(text: &str, schema: Option<&Schema>) -> Result<Query> { let _ = (text, schema); todo!() }
pub(crate) fn is_keyword(word: &str) -> bool { let _ = word; todo!() }
