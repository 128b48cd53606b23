//! The interface of BSDB's HttpServer: `PREFIX KEY` gives the value of a key.
//!
//! | BSDB | here |
//! |---|---|
//! | a key that exists: 200, `text/plain`, its value | the same |
//! | an absent key: 200, nothing | the same |
//! | `POST` is answered like `GET` | the same; its body is ignored |
//! | the key is the rest of the URI, with `?` and what follows | the same |
//! | percent-encoding is not decoded | tried first; if that key is absent, the decoded one |
//! | `-json`: rows as JSON, texts not escaped | valid JSON, unless the client accepts only bytes |
//! | another prefix of the same length is accepted | 404 |
//! | a URI shorter than the prefix: the connection is closed | 404 |
//! | `-async`: an absent key is never answered | answered |
//!
//! Clients of BSDB send keys as they are, and may have keys that contain percent signs: these come
//! first. Others use libraries that encode what a URI must not contain; BSDB cannot find such keys.

use super::Context;
use super::keys::decode_key;
use super::negotiate::Form;
use super::problem::Problem;
use super::reply::{Reply, full, with_type};
use super::route::Route;
use crate::config::Http;
use crate::stores::{Entry, Kind};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

/// The route of a target: a path with its query.
pub fn route<'a>(options: &Http, target: &'a str) -> Option<Route<'a>> {
    let key = target.strip_prefix(options.bsdb_prefix.as_ref()?.as_str())?;
    Some(Route::Bsdb { key })
}

/// Answers a request for a key.
pub fn get(context: &Context, key: &str, request: &Request<Incoming>) -> Reply {
    if ![Method::GET, Method::HEAD, Method::POST].contains(request.method()) {
        return Err(Problem::method("GET, HEAD, POST"));
    }
    let stores = &context.app.stores;
    let entry = match &context.app.config.http.bsdb_store {
        Some(name) => stores.entry(name)?,
        None => stores.only_table()?,
    };
    let mut found = value(context, &entry, key.as_bytes(), request)?;
    if found.is_none() && key.contains('%') {
        // What is not valid percent-encoding is a key as it is.
        if let Ok(decoded) = decode_key(key, None) {
            found = value(context, &entry, &decoded, request)?;
        }
    }
    let (body, name) = found.unwrap_or((Vec::new(), TEXT));
    Ok(with_type(full(StatusCode::OK, body), name))
}

const TEXT: &str = "text/plain";

/// A value and its media type.
type Found = (Vec<u8>, &'static str);

fn value(
    context: &Context,
    entry: &Entry,
    key: &[u8],
    request: &Request<Incoming>,
) -> Result<Option<Found>, Problem> {
    let limit = context.response_limit();
    let copy = |value: &[u8], name| match value.len() > limit {
        true => {
            let len = value.len();
            let detail = format!("the value has {len} bytes, more than the limit of {limit}");
            Err(Problem::too_large(detail))
        }
        false => Ok((value.to_vec(), name)),
    };
    if entry.kind() == Kind::Log {
        return entry.log()?.get_with(key, |value| copy(value, TEXT))?.transpose();
    }
    let handle = entry.table()?;
    let table = handle.get_ref()?;
    let found = entry.with_shown(&handle, |shown| {
        // A client that accepts neither, such as one for texts, gets JSON.
        let offered = [Form::Json, Form::Binary];
        let form = Form::choose(request.headers(), &offered).unwrap_or(Form::Json);
        let read = |value: &[u8]| match shown.is_json() && form == Form::Json {
            true => copy(&shown.text(key, value)?, Form::Json.media_type()),
            false => copy(value, TEXT),
        };
        Ok::<_, Problem>(table.get_with(key, read)?)
    })?;
    found?.transpose()
}
