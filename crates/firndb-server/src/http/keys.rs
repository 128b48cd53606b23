//! Single keys: get, put, delete.

use super::problem::Problem;
use super::reply::{Body, Reply, full, no_content, with_type};
use super::{Context, body};
use crate::stores::Kind;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firndb::log::{Batch, Entry, Expiry, LogStore, Update, WriteOptions};
use hyper::body::Incoming;
use hyper::header::{ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use hyper::{Method, Request, Response, StatusCode};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The time to live of a record in seconds, in requests.
const TTL: HeaderName = HeaderName::from_static("firndb-ttl");
/// When a record expires, in milliseconds since 1970, in responses.
const EXPIRES: HeaderName = HeaderName::from_static("firndb-expires");

/// Handles a request for a key.
pub async fn handle(
    context: &Context,
    kind: Kind,
    store: &str,
    key: &str,
    request: Request<Incoming>,
) -> Reply {
    let key = decode_key(key, request.uri().query())?;
    match (request.method(), kind) {
        (&Method::GET | &Method::HEAD, Kind::Log) => get_log(context, store, &key, &request),
        (&Method::GET | &Method::HEAD, _) => get_table(context, store, &key, &request),
        (&Method::PUT, Kind::Log) => put(context, store, key, request).await,
        (&Method::DELETE, Kind::Log) => delete(context, store, key, request).await,
        (_, Kind::Log) => Err(Problem::method("GET, HEAD, PUT, DELETE")),
        _ => Err(Problem::method("GET, HEAD")),
    }
}

/// The bytes of a key in a path: percent-encoded, or with `?encoding=hex` or `?encoding=base64url`.
pub fn decode_key(text: &str, query: Option<&str>) -> Result<Vec<u8>, Problem> {
    let mut encoding = None;
    for parameter in query.unwrap_or_default().split('&').filter(|p| !p.is_empty()) {
        match parameter.split_once('=') {
            Some(("encoding", name)) if encoding.is_none() => encoding = Some(name),
            _ => {
                return Err(Problem::bad_request(
                    "the only parameter of a key is `encoding`, once",
                ));
            }
        }
    }
    match encoding {
        None => percent_decode(text),
        Some("hex") => hex::decode(text)
            .map_err(|_| Problem::bad_request("the key is not an even number of hex digits")),
        Some("base64url") => URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|_| Problem::bad_request("the key is not base64url")),
        Some(_) => Err(Problem::bad_request("encodings of keys are `hex` and `base64url`")),
    }
}

fn percent_decode(text: &str) -> Result<Vec<u8>, Problem> {
    let mut rest = text.split('%');
    let first = rest.next().unwrap_or_default();
    let valid =
        |part: &str| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit);
    match rest.all(valid) {
        true if first.len() == text.len() => Ok(text.into()),
        true => Ok(percent_encoding::percent_decode_str(text).collect()),
        false => {
            Err(Problem::bad_request("a percent sign of the key is not followed by two hex digits"))
        }
    }
}

fn get_log(context: &Context, store: &str, key: &[u8], request: &Request<Incoming>) -> Reply {
    let found = context.app.stores.with(store, |entry| {
        let read = |record: Entry<'_>| (record.value.to_vec(), record.version, record.expiry);
        entry.log()?.get_entry_with(key, read)
    })?;
    let (value, version, expiry) = found?.ok_or_else(Problem::no_key)?;
    let etag = HeaderValue::from_str(&format!("\"{version:x}\"")).expect("digits are printable");
    let mut response = value_response(value, etag, request);
    if let Expiry::At(time) = expiry {
        response.headers_mut().insert(EXPIRES, HeaderValue::from(time));
    }
    Ok(response)
}

fn get_table(context: &Context, store: &str, key: &[u8], request: &Request<Incoming>) -> Reply {
    let handle = context.app.stores.entry(store)?.table()?;
    let value = handle.get_ref()?.get(key)?.ok_or_else(Problem::no_key)?;
    let etag = format!("\"{:016x}\"", xxh3_64(&value));
    let etag = HeaderValue::from_str(&etag).expect("digits are printable");
    Ok(value_response(value, etag, request))
}

/// The response with a value; 304 if the client has it already.
fn value_response(
    value: Vec<u8>,
    etag: HeaderValue,
    request: &Request<Incoming>,
) -> Response<Body> {
    let known = request.headers().get(IF_NONE_MATCH).is_some_and(|known| {
        let known = known.to_str().unwrap_or_default();
        known.trim() == "*" || known.split(',').any(|tag| tag.trim().as_bytes() == etag.as_bytes())
    });
    let mut response = match known {
        true => full(StatusCode::NOT_MODIFIED, Vec::new()),
        false => with_type(full(StatusCode::OK, value), "application/octet-stream"),
    };
    response.headers_mut().insert(ETAG, etag);
    response
}

/// What a write depends on.
enum Condition {
    None,
    /// `If-None-Match: *`
    Absent,
    /// `If-Match: *`
    Present,
    /// `If-Match: "VERSION"`
    Version(u64),
}

impl Condition {
    fn of(headers: &HeaderMap) -> Result<Condition, Problem> {
        let text = |name| {
            headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?").trim())
        };
        match (text(IF_NONE_MATCH), text(IF_MATCH)) {
            (None, None) => Ok(Condition::None),
            (Some("*"), None) => Ok(Condition::Absent),
            (None, Some("*")) => Ok(Condition::Present),
            (None, Some(tag)) => {
                let version = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
                let version = version.and_then(|tag| u64::from_str_radix(tag, 16).ok());
                // A tag that no record has matches none.
                version.map(Condition::Version).ok_or_else(Problem::precondition)
            }
            _ => Err(Problem::bad_request(
                "conditions of writes are `If-None-Match: *`, `If-Match: *` and \
                 `If-Match: \"TAG\"`, one of them",
            )),
        }
    }
}

/// The options of a write from its headers.
fn write_options(headers: &HeaderMap) -> Result<WriteOptions, Problem> {
    let never = WriteOptions::new().expiry(Expiry::Never);
    let Some(ttl) = headers.get(TTL) else { return Ok(never) };
    let seconds = ttl.to_str().ok().and_then(|text| text.parse::<f64>().ok());
    let ttl = seconds.filter(|s| *s > 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok());
    let ttl = ttl.ok_or_else(|| {
        Problem::bad_request("the time to live is not a positive number of seconds")
    })?;
    Ok(WriteOptions::new().ttl(ttl))
}

async fn put(context: &Context, store: &str, key: Vec<u8>, request: Request<Incoming>) -> Reply {
    let log = context.app.stores.entry(store)?.log()?.clone();
    let condition = Condition::of(request.headers())?;
    let options = write_options(request.headers())?;
    let value = body::read(context, request.into_body()).await?;
    let written =
        context.app.work(move |_| write(&log, &key, Some(&value), condition, options)).await?;
    match written {
        true => Ok(no_content()),
        false => Err(Problem::precondition()),
    }
}

async fn delete(context: &Context, store: &str, key: Vec<u8>, request: Request<Incoming>) -> Reply {
    let log = context.app.stores.entry(store)?.log()?.clone();
    let condition = Condition::of(request.headers())?;
    let written =
        context.app.work(move |_| write(&log, &key, None, condition, WriteOptions::new())).await?;
    match written {
        true => Ok(no_content()),
        false => Err(Problem::precondition()),
    }
}

/// Writes a value, or removes the key, if the condition holds.
fn write(
    log: &LogStore,
    key: &[u8],
    value: Option<&[u8]>,
    condition: Condition,
    options: WriteOptions,
) -> firndb::Result<bool> {
    let batch = || match value {
        Some(value) => Batch::new().put(key, value),
        None => Batch::new().delete(key),
    };
    match condition {
        Condition::None => match value {
            Some(value) => log.put_with(key, value, options).map(|()| true),
            None => log.delete_with(key, options).map(|_| true),
        },
        Condition::Absent => log.write_if_with(&[(key, None)], &batch(), options),
        Condition::Version(version) => {
            log.write_if_with(&[(key, Some(version))], &batch(), options)
        }
        Condition::Present => {
            let updated = log.update_with(key, options, |old| match (old, value) {
                (None, _) => Update::Keep,
                (Some(_), Some(value)) => Update::Put(value.to_vec()),
                (Some(_), None) => Update::Delete,
            })?;
            Ok(updated != Update::Keep)
        }
    }
}
