//! Responses of a relay: texts, and files or ranges of files.

use crate::relay::Moved;
use bytes::Bytes;
use firndb::catalog::SharedFile;
use futures_util::StreamExt;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue,
    IF_NONE_MATCH, IF_RANGE, RANGE, RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a file in memory per connection.
const PIECE: u64 = 1 << 18;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A response without a body.
pub(crate) fn status(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(full(format!("{status}\n")));
    *answer.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    answer
}

/// Asks the client to retry at once: the relay has already waited on its behalf.
pub(crate) fn later() -> Response<Body> {
    let mut answer = status(StatusCode::SERVICE_UNAVAILABLE);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("0"));
    answer
}

/// A list of names in JSON.
pub(crate) fn list<T>(request: &Request<T>, names: impl Iterator<Item = String>) -> Response<Body> {
    let names: Vec<String> = names.collect();
    let text = serde_json::Value::from(names).to_string();
    let etag = format!("{:016x}", xxh3_64(text.as_bytes()));
    self::text(request, &etag, text)
}

/// A JSON text.
pub(crate) fn text<T>(request: &Request<T>, etag: &str, text: String) -> Response<Body> {
    let mut answer = Response::new(full(text));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    tag(request, answer, etag)
}

/// A file, or the requested range of it. Its name identifies its content.
pub(crate) fn file<T>(
    request: &Request<T>,
    name: &str,
    file: SharedFile,
    moved: Moved,
) -> Response<Body> {
    let len = file.bytes();
    let header =
        |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let is_same = header(IF_RANGE).is_none_or(|etag| etag == format!("\"{name}\""));
    let asked = header(RANGE).filter(|_| is_same).and_then(|text| range(text, len));
    let mut answer = Response::new(full(""));
    let headers = answer.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    let part = match asked {
        Some(part) if part.is_empty() => {
            headers.insert(CONTENT_RANGE, value(format!("bytes */{len}")));
            *answer.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            return answer;
        }
        Some(part) => {
            let shown = format!("bytes {}-{}/{len}", part.start, part.end - 1);
            headers.insert(CONTENT_RANGE, value(shown));
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            part
        }
        None => 0..len,
    };
    answer.headers_mut().insert(CONTENT_LENGTH, value((part.end - part.start).to_string()));
    if request.method() == Method::GET {
        *answer.body_mut() = pieces(file, part, moved);
    }
    tag(request, answer, name)
}

/// The bytes of a range, read while they are sent.
fn pieces(file: SharedFile, part: Range<u64>, moved: Moved) -> Body {
    let file = Arc::new(file);
    let pieces = stream::unfold(part, move |part| {
        let (file, moved) = (file.clone(), moved.clone());
        async move {
            if part.is_empty() {
                return None;
            }
            moved.now();
            let end = part.end.min(part.start + PIECE);
            let read = move || file.read(part.start, (end - part.start) as usize);
            let piece = tokio::task::spawn_blocking(read).await;
            let piece = match piece {
                Ok(Ok(bytes)) => Ok(Frame::data(Bytes::from(bytes))),
                Ok(Err(e)) => Err(io::Error::other(e.to_string())),
                Err(e) => Err(io::Error::other(e)),
            };
            let rest = if piece.is_ok() { end..part.end } else { part.end..part.end };
            Some((piece, rest))
        }
    });
    StreamBody::new(pieces.fuse()).boxed_unsync()
}

/// Adds the `ETag`, and omits the body if the client already has this content.
fn tag<T>(request: &Request<T>, mut answer: Response<Body>, etag: &str) -> Response<Body> {
    let etag = format!("\"{etag}\"");
    let known = request.headers().get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let is_known =
        |known: &str| known.split(',').any(|one| matches!(one.trim(), "*") || one.trim() == etag);
    if known.is_some_and(is_known) {
        answer = Response::new(full(""));
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    answer.headers_mut().insert(ETAG, value(etag));
    answer
}

/// The length of a response, from its header or its body.
pub(crate) fn length(answer: &Response<Body>) -> Option<u64> {
    use hyper::body::Body as _;
    let said = answer.headers().get(CONTENT_LENGTH).and_then(|len| len.to_str().ok());
    said.and_then(|len| len.parse().ok()).or_else(|| answer.body().size_hint().exact())
}

fn value(text: String) -> HeaderValue {
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The range that `bytes=1-2`, `bytes=1-` or `bytes=-2` selects; empty if it is out of bounds.
/// `None` for several ranges or an invalid header: then the whole file is sent.
fn range(text: &str, len: u64) -> Option<Range<u64>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (first.trim(), last.trim()) {
        ("", last) => Some(len.saturating_sub(number(last)?)..len),
        (first, "") => Some(number(first)?.min(len)..len),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| first.min(len)..last.saturating_add(1).min(len))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_ranges() {
        let cases = [
            ("bytes=0-0", Some(0..1)),
            ("bytes=2-4", Some(2..5)),
            ("bytes=2-400", Some(2..10)),
            ("bytes=2-", Some(2..10)),
            ("bytes=-3", Some(7..10)),
            ("bytes=-30", Some(0..10)),
            ("bytes=10-20", Some(10..10)),
            ("bytes=10-", Some(10..10)),
            ("bytes=-0", Some(10..10)),
            ("bytes=18446744073709551615-18446744073709551615", Some(10..10)),
            ("bytes=4-2", None),
            ("bytes=1-2,4-5", None),
            ("bytes=a-b", None),
            ("lines=1-2", None),
        ];
        for (text, expected) in cases {
            assert_eq!(range(text, 10), expected, "{text}");
        }
    }
}
