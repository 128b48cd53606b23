//! Cross-origin requests of web pages (CORS): off unless origins are configured.
//!
//! A browser sends a preflight request, `OPTIONS`, before a request with a token or a body of JSON,
//! and shows a page only responses whose headers allow its origin.

use super::reply::{Body, no_content};
use crate::config;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    HeaderMap, HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, Response};

/// What the response to a page of this origin allows: the origin, or `*`. `None` if the request
/// has no origin, or one that is not configured.
pub fn allowed(options: &config::Http, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let known = |known: &&String| *known == "*" || known.as_bytes() == origin.as_bytes();
    match options.cors_origins.iter().find(known)?.as_str() {
        "*" => Some(HeaderValue::from_static("*")),
        _ => Some(origin.clone()),
    }
}

/// Whether this is a preflight request.
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The response to a preflight request of an origin that is allowed. The request itself needs its
/// token nevertheless.
pub fn preflight() -> Response<Body> {
    let mut response = no_content();
    let headers = response.headers_mut();
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, PUT, DELETE"),
        // The wildcard does not include this one header.
        (ACCESS_CONTROL_ALLOW_HEADERS, "authorization, *"),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Shows a response to pages of `origin`.
pub fn allow(response: &mut Response<Body>, origin: HeaderValue) {
    let headers = response.headers_mut();
    if origin != "*" {
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
}
