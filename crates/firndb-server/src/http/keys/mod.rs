//! Keys: one at a time in paths, many in bodies, and pages of all.
//!
//! | request | file |
//! |---|---|
//! | `GET`, `HEAD`, `PUT`, `DELETE /v1/KIND/NAME/keys/KEY` | this one, with `conditions.rs` |
//! | `POST /v1/KIND/NAME:mget` | `mget.rs` |
//! | `POST /v1/logs/NAME:mput` | `mput.rs` |
//! | `GET`, `POST /v1/KIND/NAME:scan` | `scan.rs`, with `ask.rs` |
//!
//! `encoding.rs` and `frames.rs` have the forms of bytes in JSON and in binary bodies, `rows.rs`
//! writes responses.
//!
//! A `PUT` does not answer with the tag of the record that it wrote: the library does not return
//! the version of a put, and reading it afterwards could return that of a later write, which the
//! client would then overwrite with `If-Match`.

mod ask;
mod conditions;
mod encoding;
mod frames;
mod mget;
mod mput;
mod rows;
mod scan;

pub use encoding::decode_key;
pub use mget::mget;
pub use mput::{mput, parse_batches};
pub use scan::scan;

use super::negotiate::Form;
use super::problem::Problem;
use super::reply::{Body, Reply, full, no_content, with_type};
use super::stores::find;
use super::{Context, body};
use crate::app::Deadline;
use crate::stores::{self, Kind};
use bytes::Bytes;
use conditions::{Conditions, is_known, version_tag};
use firndb::log::{Batch, Durability, Entry, Expiry, LogStore, WriteOptions};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, ETAG, HeaderMap, HeaderName, HeaderValue, VARY};
use hyper::{Method, Request, Response, StatusCode};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The time to live of a record in seconds, in requests.
const TTL: HeaderName = HeaderName::from_static("firndb-ttl");
/// When a record expires, in milliseconds since 1970, in requests and responses.
const EXPIRES: HeaderName = HeaderName::from_static("firndb-expires");
/// `true` if a write must survive power loss before it is acknowledged.
const SYNC: HeaderName = HeaderName::from_static("firndb-sync");

/// Handles a request for a key.
pub async fn handle(
    context: &Context,
    kind: Kind,
    store: &str,
    key: &str,
    request: Request<Incoming>,
) -> Reply {
    match (request.method(), kind) {
        (&Method::GET | &Method::HEAD | &Method::PUT | &Method::DELETE, Kind::Log) => {}
        (&Method::GET | &Method::HEAD, Kind::Table | Kind::Collection) => {}
        (_, Kind::Log) => return Err(Problem::method("GET, HEAD, PUT, DELETE")),
        _ => return Err(Problem::method("GET, HEAD")),
    }
    let key = match decode_key(key, request.uri().query()) {
        Ok(key) => key,
        // A missing store is reported before an invalid key.
        Err(problem) => return Err(find(context, kind, store).err().unwrap_or(problem)),
    };
    match (request.method(), kind) {
        (&Method::PUT | &Method::DELETE, _) => write(context, store, key, request).await,
        (_, Kind::Log) => get_log(context, store, &key, &request),
        _ => get_table(context, store, &key, &request),
    }
}

fn get_log(context: &Context, store: &str, key: &[u8], request: &Request<Incoming>) -> Reply {
    let respond = |record: Entry<'_>| {
        let tag = version_tag(record.version);
        let mut response = value_response(context, request, record.value, tag, Form::Binary)?;
        if let Expiry::At(time) = record.expiry {
            response.headers_mut().insert(EXPIRES, HeaderValue::from(time));
        }
        Ok(response)
    };
    let found =
        context.app.stores.with(store, |entry| entry.log()?.get_entry_with(key, respond))?;
    found?.ok_or_else(Problem::no_key)?
}

fn get_table(context: &Context, store: &str, key: &[u8], request: &Request<Incoming>) -> Reply {
    context.app.stores.with(store, |entry| table_value(context, entry, key, request))?
}

/// The value of a key of a table: as JSON if it was built from rows and the client does not prefer
/// bytes.
fn table_value(
    context: &Context,
    entry: &stores::Entry,
    key: &[u8],
    request: &Request<Incoming>,
) -> Reply {
    let handle = entry.table()?;
    let table = handle.get_ref()?;
    let found = entry.with_shown(&handle, |shown| {
        let form = match shown.is_json() {
            true => Form::choose(request.headers(), &[Form::Json, Form::Binary])?,
            false => Form::Binary,
        };
        let respond = |value: &[u8]| {
            let hash = xxh3_64(value);
            match form {
                // Two forms of a value have different tags.
                Form::Json => {
                    let tag = tag(&format!("\"{hash:016x}-json\""));
                    let text = shown.text(key, value)?;
                    value_response(context, request, &text, tag, form)
                }
                _ => {
                    value_response(context, request, value, tag(&format!("\"{hash:016x}\"")), form)
                }
            }
        };
        let mut response = table.get_with(key, respond)?.ok_or_else(Problem::no_key)??;
        if shown.is_json() {
            response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        }
        Ok::<_, Problem>(response)
    });
    found?
}

fn tag(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("digits are printable")
}

/// The response with a value; 304 if the client has it already. The value is copied unless only
/// its headers were asked for.
///
/// Errors: status 413 if the value exceeds the limit of responses.
fn value_response(
    context: &Context,
    request: &Request<Incoming>,
    value: &[u8],
    tag: HeaderValue,
    form: Form,
) -> Result<Response<Body>, Problem> {
    let limit = context.response_limit();
    let mut response = if is_known(request.headers(), &tag) {
        full(StatusCode::NOT_MODIFIED, Vec::new())
    } else if request.method() == Method::HEAD {
        let mut response = with_type(full(StatusCode::OK, Vec::new()), form.media_type());
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(value.len()));
        response
    } else if value.len() > limit {
        let len = value.len();
        let detail = format!("the value has {len} bytes, more than the limit of {limit}");
        return Err(Problem::too_large(detail));
    } else {
        with_type(full(StatusCode::OK, value.to_vec()), form.media_type())
    };
    response.headers_mut().insert(ETAG, tag);
    Ok(response)
}

/// The options of a write from its headers.
fn write_options(headers: &HeaderMap) -> Result<WriteOptions, Problem> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    let ttl = text(TTL).map(|text| ttl_of(text.parse().ok())).transpose()?;
    let expires = text(EXPIRES).map(|text| text.parse::<u64>()).transpose();
    let expires = expires.map_err(|_| {
        let detail = "`Firndb-Expires` is not a number of milliseconds since 1970";
        Problem::bad_request(detail)
    })?;
    let options = match lifetime(ttl, expires)? {
        Lifetime::Never => WriteOptions::new().expiry(Expiry::Never),
        Lifetime::Ttl(ttl) => WriteOptions::new().ttl(ttl),
        Lifetime::Until(time) => WriteOptions::new().expiry(Expiry::At(time)),
    };
    Ok(with_sync(options, is_sync(headers)?))
}

/// Whether a write must survive power loss before it is acknowledged. Otherwise the option of the
/// store decides: a client cannot weaken it.
fn is_sync(headers: &HeaderMap) -> Result<bool, Problem> {
    match headers.get(SYNC).map(HeaderValue::as_bytes) {
        None | Some(b"false") => Ok(false),
        Some(b"true") => Ok(true),
        Some(_) => Err(Problem::bad_request("`Firndb-Sync` is neither `true` nor `false`")),
    }
}

fn with_sync(options: WriteOptions, sync: bool) -> WriteOptions {
    match sync {
        true => options.durability(Durability::Sync),
        false => options,
    }
}

/// When a record that is written expires.
enum Lifetime {
    Never,
    Ttl(Duration),
    Until(u64),
}

/// A time to live or a time, but not both.
fn lifetime(ttl: Option<Duration>, expires: Option<u64>) -> Result<Lifetime, Problem> {
    match (ttl, expires) {
        (None, None) => Ok(Lifetime::Never),
        (Some(ttl), None) => Ok(Lifetime::Ttl(ttl)),
        (None, Some(time)) => Ok(Lifetime::Until(time)),
        (Some(_), Some(_)) => {
            Err(Problem::bad_request("give either a time to live or a time of expiry, not both"))
        }
    }
}

/// A time to live in seconds.
fn ttl_of(seconds: Option<f64>) -> Result<Duration, Problem> {
    let ttl = seconds.filter(|s| *s > 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok());
    ttl.ok_or_else(|| Problem::bad_request("the time to live is not a positive number of seconds"))
}

/// The log store of a name, for writing.
///
/// Handlers hold it until the write is done: a store that is removed is closed after that.
pub fn writable(context: &Context, store: &str) -> Result<Arc<stores::Entry>, Problem> {
    let entry = context.app.stores.entry(store)?;
    entry.log()?;
    match entry.read_only {
        true => Err(Problem::read_only(store)),
        false => Ok(entry),
    }
}

/// Writes or removes a key.
async fn write(
    context: &Context,
    store: &str,
    key: Cow<'_, [u8]>,
    request: Request<Incoming>,
) -> Reply {
    let entry = writable(context, store)?;
    let key = key.into_owned();
    let conditions = Conditions::of(request.headers())?;
    let options = write_options(request.headers())?;
    let value = match request.method() {
        &Method::PUT => Some(body::read(context, request.into_body()).await?),
        _ => None,
    };
    let change = Change { key, value };
    let work =
        move |deadline: Deadline| write_if(entry.log()?, &change, &conditions, options, &deadline);
    match context.app.work(work).await? {
        true => Ok(no_content()),
        false => Err(Problem::precondition()),
    }
}

/// A new value of a key; `None` removes the key.
struct Change {
    key: Vec<u8>,
    value: Option<Bytes>,
}

/// Writes a change if the conditions hold, atomically.
fn write_if(
    log: &LogStore,
    change: &Change,
    conditions: &Conditions,
    options: WriteOptions,
    deadline: &Deadline,
) -> firndb::Result<bool> {
    let Change { key, value } = change;
    if conditions.is_empty() {
        return match value {
            Some(value) => log.put_with(key, value, options).map(|()| true),
            None => log.delete_with(key, options).map(|_| true),
        };
    }
    let batch = match value {
        Some(value) => Batch::new().put(key, value),
        None => Batch::new().delete(key),
    };
    loop {
        let version = log.version(key)?;
        if !conditions.hold(version) {
            return Ok(false);
        }
        // Another write may have come between: then its version decides.
        if log.write_if_with(&[(key, version)], &batch, options)? {
            return Ok(true);
        }
        deadline.check()?;
    }
}
