//! The form and the compression of a response, by the headers `Accept` and `Accept-Encoding`.

use super::Context;
use super::problem::Problem;
use super::reply::{Body, full, with_type};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue, VARY,
};
use hyper::{Response, StatusCode};
use std::io::Write;

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON object.
    Json,
    /// One JSON object per line.
    Ndjson,
    /// An Arrow IPC stream.
    Arrow,
    /// Bytes, as docs/server.md describes them for each route.
    Binary,
}

impl Form {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Form::Json => "application/json",
            Form::Ndjson => "application/x-ndjson",
            Form::Arrow => "application/vnd.apache.arrow.stream",
            Form::Binary => "application/octet-stream",
        }
    }

    /// The form of `offered` that the client prefers; without a preference the first one.
    ///
    /// Errors: status 406 if the client accepts none of them.
    pub fn choose(headers: &HeaderMap, offered: &[Form]) -> Result<Form, Problem> {
        let Some(accept) = joined(headers, ACCEPT) else { return Ok(offered[0]) };
        let quality = |form: &Form| {
            let name = form.media_type();
            let (kind, _) = name.split_once('/').unwrap_or_default();
            let any = format!("{kind}/*");
            // The most specific range that matches decides (RFC 9110, 12.5.1).
            [name, &any, "*/*"].iter().find_map(|range| quality_of(&accept, range)).unwrap_or(0.0)
        };
        let mut best: Option<(Form, f32)> = None;
        for form in offered {
            let q = quality(form);
            if q > 0.0 && best.is_none_or(|(_, other)| q > other) {
                best = Some((*form, q));
            }
        }
        best.map(|(form, _)| form).ok_or_else(|| {
            let names: Vec<_> = offered.iter().map(|form| form.media_type()).collect();
            let detail = format!("this path offers {}", names.join(", "));
            Problem::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", detail)
        })
    }
}

/// The compression of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// None.
    Identity,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// Smaller bodies are not compressed.
const MIN_COMPRESSED: usize = 1024;
/// Levels of gzip and Zstandard that take little time.
const GZIP_LEVEL: u32 = 1;
const ZSTD_LEVEL: i32 = 1;

impl Compression {
    /// The compression that the client prefers; Zstandard before gzip, because it is faster.
    pub fn choose(headers: &HeaderMap) -> Compression {
        let Some(accept) = joined(headers, ACCEPT_ENCODING) else { return Compression::Identity };
        let quality = |name: &str| {
            let own = quality_of(&accept, name).or_else(|| quality_of(&accept, "*"));
            own.unwrap_or(0.0)
        };
        let (zstd, gzip) = (quality("zstd"), quality("gzip"));
        match (zstd, gzip) {
            (zstd, gzip) if zstd > 0.0 && zstd >= gzip => Compression::Zstd,
            (_, gzip) if gzip > 0.0 => Compression::Gzip,
            _ => Compression::Identity,
        }
    }

    /// A response with a body of this form, compressed. Takes time: call it where work may block.
    ///
    /// Errors: status 413 if the body exceeds the limit of responses.
    pub fn respond(
        self,
        limit: usize,
        status: StatusCode,
        form: Form,
        body: Vec<u8>,
    ) -> Result<Response<Body>, Problem> {
        if body.len() > limit {
            return Err(Problem::too_large(format!(
                "the response has {} bytes, more than the limit of {limit}: ask for less at a time",
                body.len()
            )));
        }
        let (body, name) = match self {
            _ if body.len() < MIN_COMPRESSED => (body, None),
            Compression::Identity => (body, None),
            Compression::Gzip => (gzip(&body), Some("gzip")),
            Compression::Zstd => match zstd::bulk::compress(&body, ZSTD_LEVEL) {
                Ok(small) => (small, Some("zstd")),
                Err(_) => (body, None), // Out of memory for its tables.
            },
        };
        let mut response = with_type(full(status, body), form.media_type());
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        if let Some(name) = name {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
        }
        Ok(response)
    }
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::new(GZIP_LEVEL);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("a vector takes all bytes")
}

/// The values of a header, as one list.
fn joined(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let values = headers.get_all(name);
    let texts: Vec<_> = values.iter().filter_map(|value| value.to_str().ok()).collect();
    (!texts.is_empty()).then(|| texts.join(",").to_ascii_lowercase())
}

/// The quality of an element of a list such as `gzip;q=0.5, br`; `None` if it is not in the list.
fn quality_of(list: &str, name: &str) -> Option<f32> {
    list.split(',').find_map(|element| {
        let mut parts = element.split(';').map(str::trim);
        if parts.next() != Some(name) {
            return None;
        }
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        Some(quality.map_or(1.0, |q| q.trim().parse().unwrap_or(0.0)))
    })
}

impl Context {
    /// The limit of a response in bytes.
    pub fn response_limit(&self) -> usize {
        self.app.config.limits.response_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn the_client_chooses_the_form() {
        let all = [Form::Json, Form::Ndjson, Form::Arrow];
        let choose = |accept: &str| Form::choose(&headers(ACCEPT, accept), &all).ok();
        assert_eq!(Form::choose(&HeaderMap::new(), &all).ok(), Some(Form::Json));
        assert_eq!(choose("*/*"), Some(Form::Json));
        assert_eq!(choose("application/vnd.apache.arrow.stream"), Some(Form::Arrow));
        assert_eq!(choose("application/json;q=0.5, application/x-ndjson"), Some(Form::Ndjson));
        assert_eq!(choose("application/json;q=0, */*;q=0.1"), Some(Form::Ndjson));
        assert_eq!(choose("application/*"), Some(Form::Json));
        assert_eq!(choose("text/html"), None);
        assert_eq!(choose("application/json;q=x"), None);
    }

    #[test]
    fn the_client_chooses_the_compression() {
        let choose = |accept: &str| Compression::choose(&headers(ACCEPT_ENCODING, accept));
        assert_eq!(Compression::choose(&HeaderMap::new()), Compression::Identity);
        assert_eq!(choose("gzip, deflate, br"), Compression::Gzip);
        assert_eq!(choose("gzip, zstd"), Compression::Zstd);
        assert_eq!(choose("gzip, zstd;q=0.5"), Compression::Gzip);
        assert_eq!(choose("*"), Compression::Zstd);
        assert_eq!(choose("zstd;q=0, *"), Compression::Gzip);
        assert_eq!(choose("identity"), Compression::Identity);
    }

    #[test]
    fn compressed_bodies_are_smaller_and_the_same() {
        let body = b"all the same ".repeat(1000);
        for compression in [Compression::Gzip, Compression::Zstd] {
            let small = match compression {
                Compression::Gzip => gzip(&body),
                _ => zstd::bulk::compress(&body, ZSTD_LEVEL).unwrap(),
            };
            assert!(small.len() < body.len() / 10);
            let mut all = Vec::new();
            match compression {
                Compression::Gzip => {
                    std::io::copy(&mut flate2::read::GzDecoder::new(&small[..]), &mut all).unwrap();
                }
                _ => all = zstd::bulk::decompress(&small, body.len()).unwrap(),
            }
            assert_eq!(all, body);
        }
        let refused = Compression::Gzip.respond(body.len() - 1, StatusCode::OK, Form::Json, body);
        assert!(refused.unwrap_err().to_string().starts_with("413"));
    }
}
