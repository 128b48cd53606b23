//! Errors as responses: `application/problem+json` (RFC 9457).

use super::reply::{Body, full};
use crate::app::PANICKED;
use firndb::{Error, ErrorKind};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde_json::json;
use std::fmt;

/// An error as a response.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    /// A stable name for programs: that of an [`ErrorKind`], or one of the server's own.
    kind: &'static str,
    detail: String,
    /// The bytes of the query text that the error is about.
    span: Option<(usize, usize)>,
    /// In a box, so that results of handlers are small.
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl Problem {
    /// An error with a status, a name for programs and an explanation.
    pub fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Problem {
        Problem { status, kind, detail: detail.into(), span: None, header: None }
    }

    /// A request that cannot be understood.
    pub fn bad_request(detail: impl Into<String>) -> Problem {
        let kind = ErrorKind::InvalidArgument.name();
        Problem::new(StatusCode::BAD_REQUEST, kind, detail)
    }

    /// A path that nothing is served at.
    pub fn no_route() -> Problem {
        let detail = "nothing is served at this path; /openapi.json describes all paths";
        Problem::new(StatusCode::NOT_FOUND, "no_such_path", detail)
    }

    /// A key that is absent.
    pub fn no_key() -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "no_such_key", "the key is absent")
    }

    /// A method that the path does not have.
    pub fn method(allowed: &'static str) -> Problem {
        let detail = format!("this path has the methods {allowed}");
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
            .with_header(ALLOW, HeaderValue::from_static(allowed))
    }

    /// A condition in the headers that does not hold.
    pub fn precondition() -> Problem {
        let detail = "the record is not the one that the condition names";
        Problem::new(StatusCode::PRECONDITION_FAILED, "precondition_failed", detail)
    }

    /// A write to a store that the server may not write to.
    pub fn read_only(store: &str) -> Problem {
        let detail = format!("`{store}` is open for reading only");
        Problem::new(StatusCode::LOCKED, ErrorKind::Locked.name(), detail)
    }

    /// A cursor of a table that was replaced.
    pub fn cursor_expired() -> Problem {
        let detail = "the table was replaced since the cursor was returned: begin again with 0";
        Problem::new(StatusCode::GONE, "cursor_expired", detail)
    }

    /// A body of a type that the path does not take.
    pub fn media_type(allowed: &str) -> Problem {
        let detail = format!("the body must have one of these types: {allowed}");
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
    }

    /// A request that exceeds a limit.
    pub fn too_large(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    }

    /// A client whose token is missing or unknown.
    pub fn unauthorized() -> Problem {
        let detail = "a token is needed: `Authorization: Bearer TOKEN`";
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
            .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// A client that may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// Says in which line of the body the error is.
    pub fn in_line(mut self, line: usize) -> Problem {
        self.detail = format!("line {line}: {}", self.detail);
        self
    }

    /// A request that failed because of a bug.
    pub fn internal() -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", PANICKED)
    }

    /// A request for which there is no room at the moment.
    pub fn busy(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Failed.name(), detail)
            .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// Adds a header to the response.
    fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Problem {
        self.header = Some(Box::new((name, value)));
        self
    }

    /// The response.
    pub fn response(self, id: &str) -> Response<Body> {
        let mut body = json!({
            "type": format!("urn:firndb:error:{}", self.kind),
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "kind": self.kind,
            "detail": self.detail,
            "request_id": id,
        });
        if let Some((start, end)) = self.span {
            body["span"] = json!([start, end]);
        }
        let mut response = full(self.status, body.to_string());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some((name, value)) = self.header.map(|header| *header) {
            headers.insert(name, value);
        }
        response
    }
}

impl From<Error> for Problem {
    /// The response has no path of the server; its log has.
    fn from(error: Error) -> Problem {
        let kind = error.kind();
        if error.message() == PANICKED {
            return Problem::internal();
        }
        let status =
            StatusCode::from_u16(kind.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() && kind != ErrorKind::Cancelled {
            tracing::error!(%error, "a request failed");
        }
        // A full disk: nothing was written, and the store stays usable.
        let status = if error.is_disk_full() { StatusCode::INSUFFICIENT_STORAGE } else { status };
        let mut problem = Problem::new(status, kind.name(), error.message());
        problem.span = error.span();
        match kind {
            ErrorKind::Failed | ErrorKind::Cancelled => {
                problem.with_header(RETRY_AFTER, HeaderValue::from_static("1"))
            }
            _ => problem,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.detail)
    }
}
