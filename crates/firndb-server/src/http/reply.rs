//! Responses.

use super::problem::Problem;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::Value as Json;

/// The body of a response: all of it. Its size is bounded by `limits.response_bytes`.
pub type Body = Full<Bytes>;

/// What a handler returns.
pub type Reply = Result<Response<Body>, Problem>;

/// A response with a body, without a content type.
pub fn full(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}

/// A response without a body.
pub fn no_content() -> Response<Body> {
    full(StatusCode::NO_CONTENT, Bytes::new())
}

/// A response in JSON.
pub fn json(status: StatusCode, body: &Json) -> Response<Body> {
    with_type(full(status, body.to_string()), "application/json")
}

/// A text.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    with_type(full(status, body), "text/plain; charset=utf-8")
}

/// Sets the content type of a response.
pub fn with_type(mut response: Response<Body>, name: &'static str) -> Response<Body> {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(name));
    response
}
