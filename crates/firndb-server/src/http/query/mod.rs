//! Queries of collections: search, count, facets, group, explain.
//!
//! [`handle`] reads the request; [`run`] answers it in a thread that may block, on one version of
//! the collection, and stops at the deadline or when the client has gone.

mod aggregate;
mod arrow;
mod output;
mod request;
mod search;

use super::negotiate::{Compression, Form};
use super::parse::Input;
use super::problem::Problem;
use super::reply::Reply;
use super::route::Verb;
use super::{Context, body, stores};
use crate::app::Deadline;
use crate::config::{Limits, duration};
use crate::stores::Kind;
use firndb::Result;
use firndb::search::Reader;
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use output::Output;
use request::{Members, QueryRequest};
use std::time::Instant;

/// Parses the body of each verb, for the fuzz target.
pub fn parse_bodies(body: &[u8]) {
    for verb in [Verb::Search, Verb::Count, Verb::Facets, Verb::Group, Verb::Explain] {
        for input in [Input::Json, Input::Text] {
            let _ = QueryRequest::read(verb, input, body, Instant::now());
        }
    }
}

/// Handles a query of a collection.
pub async fn handle(
    context: &Context,
    store: &str,
    verb: Verb,
    request: Request<Incoming>,
) -> Reply {
    let began = Instant::now();
    let entry = stores::find(context, Kind::Collection, store)?;
    let headers = request.headers();
    let form = Form::choose(headers, offered(verb))?;
    let compression = Compression::choose(headers);
    let input = Input::of(headers, request::accepted(verb))?;
    let limits = context.app.config.limits.clone();
    let mut limit = duration(limits.query_seconds);
    if let Some(timeout) = request::timeout_header(headers)? {
        limit = limit.min(timeout);
    }
    let body = body::read_at_most(context, request.into_body(), limits.query_bytes).await?;
    context.note_query(&body);
    let work = move |deadline: Deadline| {
        let request = QueryRequest::read(verb, input, &body, began)?;
        let deadline = deadline.no_later_than(request.until);
        let reader = entry.collection()?;
        let reader = reader.with_deadline(deadline.at).with_cancel(deadline.cancelled.clone());
        let query = Running { reader: &reader, deadline: &deadline, limits: &limits, form };
        let response = run(&query, verb, &request.object)?.map_or_else(
            || Err(Problem::too_large(too_large(limits.response_bytes))),
            |body| compression.respond(limits.response_bytes, StatusCode::OK, form, body),
        );
        Ok(response)
    };
    context.app.work_for(limit, work).await?
}

fn too_large(limit: usize) -> String {
    format!(
        "the response would have more than {limit} bytes, the limit: ask for fewer documents, \
         fields or groups"
    )
}

/// The forms of a verb's response.
fn offered(verb: Verb) -> &'static [Form] {
    match verb {
        Verb::Search => &[Form::Json, Form::Ndjson, Form::Arrow],
        Verb::Facets | Verb::Group => &[Form::Json, Form::Ndjson],
        _ => &[Form::Json],
    }
}

/// A query that runs.
struct Running<'a> {
    /// A version of the collection, with the deadline of the query.
    reader: &'a Reader,
    deadline: &'a Deadline,
    limits: &'a Limits,
    form: Form,
}

impl Running<'_> {
    /// A body that does not exceed the limit of responses.
    fn output(&self) -> Output {
        Output::new(self.limits.response_bytes)
    }
}

/// The body of the response; `None` if it would exceed the limit of responses.
fn run(query: &Running<'_>, verb: Verb, object: &Members) -> Result<Option<Vec<u8>>> {
    match verb {
        Verb::Count => aggregate::count(query, object),
        Verb::Facets => aggregate::facets(query, object),
        Verb::Group => aggregate::group(query, object),
        Verb::Explain => search::explain(query, object),
        _ => search::search(query, object),
    }
}
