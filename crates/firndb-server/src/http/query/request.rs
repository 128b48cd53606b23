//! The request of a query: a JSON object, or the text of a query.

use super::super::parse::Input;
use super::super::problem::Problem;
use super::super::route::Verb;
use firndb::{Error, Result};
use firndb_ingest::query;
use hyper::header::{HeaderMap, HeaderName};
use serde_json::{Map, Value as Json, json};
use std::time::{Duration, Instant};

/// The time limit of a query in seconds, in requests.
const TIMEOUT: HeaderName = HeaderName::from_static("firndb-timeout");

/// The members of a request.
pub type Members = Map<String, Json>;

/// The forms of a verb's body. A text has no place for what facets and groups need.
pub fn accepted(verb: Verb) -> &'static [Input] {
    match verb {
        Verb::Search | Verb::Count | Verb::Explain => &[Input::Json, Input::Text],
        _ => &[Input::Json],
    }
}

/// The time limit that the client has set in the headers.
pub fn timeout_header(headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let seconds = value.to_str().ok().and_then(|text| text.trim().parse::<f64>().ok());
    let limit = seconds.and_then(positive);
    limit
        .map(Some)
        .ok_or_else(|| Problem::bad_request("firndb-timeout: this is a positive number of seconds"))
}

/// A positive number of seconds.
fn positive(seconds: f64) -> Option<Duration> {
    let limit = Duration::try_from_secs_f64(seconds).ok();
    limit.filter(|limit| !limit.is_zero())
}

/// What a client asks for.
pub struct QueryRequest {
    /// The members of the request, all of them known.
    pub object: Members,
    /// When the query has to end by the wish of the client.
    pub until: Option<Instant>,
}

impl QueryRequest {
    /// Reads a body. `began` is when the request arrived.
    pub fn read(verb: Verb, input: Input, body: &[u8], began: Instant) -> Result<QueryRequest> {
        let json = match input {
            Input::Json => serde_json::from_slice(body)
                .map_err(|e| Error::invalid(format!("the body is not JSON: {e}")))?,
            _ => {
                let text = std::str::from_utf8(body)
                    .map_err(|_| Error::invalid("the text of the query is not UTF-8"))?;
                json!({ "query": text })
            }
        };
        let (what, keys) = keys(verb);
        query::members(&json, what, &keys)?;
        let object = match json {
            Json::Object(object) => object,
            _ => Members::new(),
        };
        let until = match object.get("timeout_seconds") {
            None | Some(Json::Null) => None,
            Some(json) => {
                let limit = json.as_f64().and_then(positive).ok_or_else(|| {
                    Error::invalid("timeout_seconds: this is a positive number of seconds")
                })?;
                began.checked_add(limit)
            }
        };
        Ok(QueryRequest { object, until })
    }
}

/// What the body of a verb is, and its members.
fn keys(verb: Verb) -> (&'static str, Vec<&'static str>) {
    let condition = ["query", "where", "timeout_seconds"];
    let own: &[&str] = match verb {
        Verb::Count => return ("a count", condition.to_vec()),
        Verb::Facets => &["by", "top", "disjunctive"],
        Verb::Group => &["by", "aggregates", "top"],
        Verb::Explain => return ("a query", [&query::KEYS[..], &condition[2..]].concat()),
        _ => {
            let own = ["fields", "payload", "timeout_seconds"];
            return ("a search", [&query::KEYS[..], &own].concat());
        }
    };
    ("this request", [&condition[..2], own, &condition[2..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn timeouts_are_positive() {
        let of = |value: &str| {
            let value = HeaderValue::from_str(value).unwrap();
            timeout_header(&HeaderMap::from_iter([(TIMEOUT, value)])).ok().flatten()
        };
        assert_eq!(of("0.25"), Some(Duration::from_millis(250)));
        for wrong in ["0", "-1", "NaN", "inf", "1e999", "x", "", "1e-12"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert!(timeout_header(&HeaderMap::new()).unwrap().is_none());
        let read = |body: &str| {
            QueryRequest::read(Verb::Count, Input::Json, body.as_bytes(), Instant::now())
        };
        assert!(read(r#"{"timeout_seconds": 2}"#).unwrap().until.is_some());
        assert!(read(r#"{"timeout_seconds": null}"#).unwrap().until.is_none());
        for wrong in ["0", "-1", "1e999", "\"1\"", "[]"] {
            assert!(read(&format!(r#"{{"timeout_seconds": {wrong}}}"#)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_verb_knows_its_members() {
        let read = |verb, body: Json| {
            let body = body.to_string();
            let read = QueryRequest::read(verb, Input::Json, body.as_bytes(), Instant::now());
            read.map(|_| ()).map_err(|e| e.to_string())
        };
        let count = json!({ "query": "", "where": null, "timeout_seconds": 1 });
        read(Verb::Count, count.clone()).unwrap();
        read(Verb::Group, json!({ "by": [], "aggregates": [], "top": 1, "query": "" })).unwrap();
        read(Verb::Facets, json!({ "by": [], "disjunctive": true, "top": 1 })).unwrap();
        read(Verb::Explain, json!({ "limit": 1, "timeout_seconds": 1 })).unwrap();
        read(Verb::Search, json!({ "fields": [], "payload": true, "after": "x" })).unwrap();
        for (verb, key) in [
            (Verb::Count, "limit"),
            (Verb::Group, "disjunctive"),
            (Verb::Facets, "aggregates"),
            (Verb::Explain, "fields"),
            (Verb::Search, "by"),
        ] {
            let error = read(verb, json!({ key: 1 })).unwrap_err();
            assert!(error.starts_with(&format!("`{key}` is unknown: ")), "{error}");
        }
        assert!(read(Verb::Count, json!([])).unwrap_err().contains("is a JSON object"));
    }
}
