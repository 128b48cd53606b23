//! Queries as JSON, for programs that would otherwise have to put together a text.
//!
//! A query is an object. All of its members are optional:
//!
//! | member | value |
//! |---|---|
//! | `query` | the text form, as [`parse_query`] reads it, instead of `where` and `order` |
//! | `where` | a condition |
//! | `order` | an array of names of fields or of `{"field": NAME, "desc": BOOL}` |
//! | `skip`, `limit` | numbers of documents; they take precedence over those of the text |
//! | `after` | the token of the page before; `skip` is ignored then |
//! | `count` | whether all matches are counted, too |
//!
//! A condition is one of these objects:
//!
//! | condition | matches |
//! |---|---|
//! | `{"and": [CONDITION, ...]}` | if all match; all documents, if there are none |
//! | `{"or": [CONDITION, ...]}` | if one of them matches |
//! | `{"not": CONDITION}` | if it does not match |
//! | `{"field": NAME, "eq": VALUE}` | if one of the values of the field is equal |
//! | the same with `ne`, `lt`, `lte`, `gt`, `gte` | by comparison |
//! | `{"field": NAME, "in": [VALUE, ...]}` | if one of the values of the field is in the list |
//! | `{"field": NAME, "between": [LOW, HIGH]}` | from `LOW` to `HIGH`, both included |
//! | `{"field": NAME, "prefix": VALUE}` | texts or bytes that begin with it |
//! | `{"field": NAME, "exists": BOOL}` | documents with, or without, a value |
//!
//! An object with several comparisons of a field, `{"field": "price", "gte": 5, "lt": 10}`, matches
//! if all of them do. Values have the form of documents in JSON: times are RFC 3339 text, bytes
//! hexadecimal digits, infinities `"inf"` and `"-inf"`. They must be comparable with the type of
//! the field.
//!
//! ```
//! use firndb::search::{Field, Roles, Schema, Type, parse_query};
//! use firndb_ingest::query;
//! use serde_json::json;
//!
//! let city = Field::new("city", Type::String, Roles::FULL);
//! let schema = Schema::new([Field::new("price", Type::F64, Roles::FULL), city])?;
//! let json = json!({
//!     "where": { "and": [
//!         { "field": "price", "lt": 10 },
//!         { "not": { "field": "city", "in": ["Oslo", "Bergen"] } },
//!     ] },
//!     "order": [{ "field": "price", "desc": true }],
//!     "limit": 5,
//! });
//! let text = "price < 10 and not city in ('Oslo', 'Bergen') order by price desc limit 5";
//! assert_eq!(query::from_json(&schema, &json)?, parse_query(text, Some(&schema))?);
//!
//! let wrong = json!({ "where": { "or": [{ "field": "price", "lt": "cheap" }] } });
//! let error = query::from_json(&schema, &wrong).unwrap_err().to_string();
//! assert!(error.starts_with("where.or[0].lt: field `price` is of type f64"));
//! # Ok::<(), firndb::Error>(())
//! ```

mod condition;

use condition::Conditions;
use firndb::search::query::{asc, desc};
use firndb::search::{Filter, OrderBy, PageToken, Query, Schema, parse_filter, parse_query};
use firndb::{Error, Result};
use serde_json::{Map, Value as Json};

/// The members of a query.
pub const KEYS: [&str; 7] = ["query", "where", "order", "skip", "limit", "after", "count"];

/// The query of a JSON object.
///
/// # Errors
///
/// `InvalidArgument`, with the place in the object, if the object has another form, names an
/// unknown field, has a value of a wrong type, or exceeds
/// [`MAX_DEPTH`](firndb::search::MAX_DEPTH) or [`MAX_IN`](firndb::search::MAX_IN). Errors of the
/// text of `query` have a span of that text.
pub fn from_json(schema: &Schema, json: &Json) -> Result<Query> {
    query_of(schema, members(json, "a query", &KEYS)?)
}

/// The query of an object that may have other members, too.
///
/// # Errors
///
/// As those of [`from_json`].
pub fn query_of(schema: &Schema, object: &Map<String, Json>) -> Result<Query> {
    let mut query = match text(object)? {
        Some(text) => {
            if member(object, "order").is_some() {
                return Err(Error::invalid("`order` is given twice: write it in the text `query`"));
            }
            parse_query(text, Some(schema))?
        }
        None => {
            let mut query = Query::new(Filter::All);
            if let Some(json) = member(object, "where") {
                query.filter = filter_from_json(schema, json)?;
            }
            if let Some(json) = member(object, "order") {
                query.order = order_from_json(schema, json)?;
            }
            query
        }
    };
    query.skip = number(object, "skip")?.unwrap_or(query.skip);
    query.limit = number(object, "limit")?.or(query.limit);
    query.count = flag(object, "count")?;
    match member(object, "after") {
        None => {}
        Some(Json::String(token)) => {
            query.after = Some(PageToken::parse(token).map_err(|e| at("after", &e))?);
            query.skip = 0;
        }
        Some(_) => return Err(Error::invalid("after: a page token is a text")),
    }
    Ok(query)
}

/// The condition of an object with `query`, a condition as text, or with `where`, a condition as
/// JSON; every document if it has neither. Other members are ignored.
///
/// # Errors
///
/// As those of [`from_json`].
pub fn condition_of(schema: &Schema, object: &Map<String, Json>) -> Result<Filter> {
    match (text(object)?, member(object, "where")) {
        (Some(text), _) => parse_filter(text, Some(schema)),
        (None, Some(json)) => filter_from_json(schema, json),
        (None, None) => Ok(Filter::All),
    }
}

/// The condition of a JSON object, the value of `where`.
///
/// # Errors
///
/// As those of [`from_json`].
pub fn filter_from_json(schema: &Schema, json: &Json) -> Result<Filter> {
    Conditions::new(schema).read(json)
}

/// The order of a JSON array, the value of `order`.
///
/// # Errors
///
/// As those of [`from_json`].
pub fn order_from_json(schema: &Schema, json: &Json) -> Result<Vec<OrderBy>> {
    let Json::Array(keys) = json else {
        return Err(Error::invalid("order: an order is an array of fields"));
    };
    let read = |(i, json): (usize, &Json)| {
        let key = order_key(schema, json);
        key.map_err(|e| at(&format!("order[{i}]"), &e))
    };
    keys.iter().enumerate().map(read).collect()
}

fn order_key(schema: &Schema, json: &Json) -> Result<OrderBy> {
    let (name, descending) = match json {
        Json::String(name) => (name, false),
        _ => {
            let object = members(json, "a field of an order", &["field", "desc"])?;
            let Some(Json::String(name)) = object.get("field") else {
                return Err(Error::invalid("`field` is missing, the name of a field"));
            };
            (name, flag(object, "desc")?)
        }
    };
    schema.sortable(name)?;
    Ok(if descending { desc(name) } else { asc(name) })
}

/// The members of an object, if all of them are in `keys`. `what` the object is, for the error.
///
/// # Errors
///
/// `InvalidArgument`.
pub fn members<'a>(json: &'a Json, what: &str, keys: &[&str]) -> Result<&'a Map<String, Json>> {
    let Json::Object(object) = json else {
        return Err(Error::invalid(format!("{what} is a JSON object")));
    };
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        None => Ok(object),
        Some(key) => {
            let (key, keys) = (shorten(key), keys.join("`, `"));
            Err(Error::invalid(format!("`{key}` is unknown: {what} has `{keys}`")))
        }
    }
}

/// A member that is neither missing nor null.
fn member<'a>(object: &'a Map<String, Json>, key: &str) -> Option<&'a Json> {
    object.get(key).filter(|json| !json.is_null())
}

/// The text form, the member `query`.
fn text(object: &Map<String, Json>) -> Result<Option<&str>> {
    match (member(object, "query"), member(object, "where")) {
        (None, _) => Ok(None),
        (Some(Json::String(text)), None) => Ok(Some(text)),
        (Some(Json::String(_)), Some(_)) => {
            Err(Error::invalid("give either the text `query` or the object `where`"))
        }
        (Some(_), _) => Err(Error::invalid("query: this is the text form of a query")),
    }
}

/// The integer of a member; `None` if the object does not have the member.
///
/// # Errors
///
/// `InvalidArgument` if the value is something else.
pub fn number(object: &Map<String, Json>, key: &str) -> Result<Option<u64>> {
    let wrong = || Error::invalid(format!("{key}: this is a whole number that is not negative"));
    member(object, key).map(|json| json.as_u64().ok_or_else(wrong)).transpose()
}

/// The Boolean of a member; false if the object does not have the member.
///
/// # Errors
///
/// `InvalidArgument` if the value is something else.
pub fn flag(object: &Map<String, Json>, key: &str) -> Result<bool> {
    match member(object, key) {
        None => Ok(false),
        Some(Json::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Error::invalid(format!("{key}: this is true or false"))),
    }
}

/// The strings of an array member; `None` if the object does not have the member.
///
/// # Errors
///
/// `InvalidArgument` if the value is something else, or an array of more than `max` texts.
pub fn texts(object: &Map<String, Json>, key: &str, max: usize) -> Result<Option<Vec<String>>> {
    let Some(json) = member(object, key) else { return Ok(None) };
    let text = |json: &Json| json.as_str().map(str::to_string);
    match json {
        Json::Array(items) if items.len() > max => {
            let message = format!("{key}: this has {} names, more than {max}", items.len());
            Err(Error::invalid(message))
        }
        Json::Array(items) if items.iter().all(Json::is_string) => {
            Ok(Some(items.iter().filter_map(text).collect()))
        }
        _ => Err(Error::invalid(format!("{key}: this is an array of names of fields"))),
    }
}

/// The same error with its place.
fn at(place: &str, error: &Error) -> Error {
    Error::invalid(format!("{place}: {}", error.message()))
}

/// The beginning of a text, for error messages.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests;
