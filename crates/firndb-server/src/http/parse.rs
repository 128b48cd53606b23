//! Bodies of requests: their media types, and JSON with bounded memory.

use super::problem::Problem;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use serde::Deserialize;

/// The form of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// One JSON value.
    Json,
    /// One JSON value per line.
    Ndjson,
    /// Bytes, as docs/server.md describes them for each route.
    Binary,
    /// The text of a query, or of a condition.
    Text,
}

impl Input {
    fn media_type(self) -> &'static str {
        match self {
            Input::Json => "application/json",
            Input::Ndjson => "application/x-ndjson",
            Input::Binary => "application/octet-stream",
            Input::Text => "text/plain",
        }
    }

    /// The form of a body; JSON if the client does not say, or says what curl says of every body.
    ///
    /// Errors: status 415 if it is none of `accepted`.
    pub fn of(headers: &HeaderMap, accepted: &[Input]) -> Result<Input, Problem> {
        let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(Input::Json) };
        let text = value.to_str().unwrap_or_default();
        let name = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if name == "application/x-www-form-urlencoded" {
            return Ok(Input::Json);
        }
        accepted.iter().copied().find(|input| input.media_type() == name).ok_or_else(|| {
            let names: Vec<_> = accepted.iter().map(|input| input.media_type()).collect();
            Problem::media_type(&names.join(", "))
        })
    }
}

/// Commas of a JSON body that are not between elements of its lists, at most.
const OTHER_COMMAS: usize = 64;

/// A JSON object, which may have `max_items` elements of lists, of `fields` fields each.
///
/// Errors: status 400 if it is not a valid JSON object, has unknown or missing keys or values of
/// wrong types; 413 if it has more elements. That is found out before memory is allocated for them.
pub fn json<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    max_items: usize,
    fields: usize,
) -> Result<T, Problem> {
    // A list could be taken for the fields of an object in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::bad_request("this is not a JSON object"));
    }
    if commas(body) > max_items.saturating_mul(fields).saturating_add(OTHER_COMMAS) {
        return Err(too_many(max_items));
    }
    serde_json::from_slice(body).map_err(|error| Problem::bad_request(format!("JSON: {error}")))
}

/// The error for a request with more than `max` keys.
pub fn too_many(max: usize) -> Problem {
    Problem::too_large(format!("the request has more than {max} keys, the limit"))
}

/// The number of commas outside of texts: a bound of the number of elements.
fn commas(body: &[u8]) -> usize {
    let (mut count, mut in_text, mut escaped) = (0, false, false);
    for &byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b',' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn the_form_of_a_body_is_its_media_type() {
        let of = |value: &'static str| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
            Input::of(&headers, &[Input::Json, Input::Binary]).ok()
        };
        assert_eq!(Input::of(&HeaderMap::new(), &[Input::Json]).ok(), Some(Input::Json));
        assert_eq!(of("application/json"), Some(Input::Json));
        assert_eq!(of("Application/JSON; charset=utf-8"), Some(Input::Json));
        assert_eq!(of("application/octet-stream"), Some(Input::Binary));
        assert_eq!(of("application/x-ndjson"), None);
        assert_eq!(of("text/plain"), None);
        let text = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("Text/plain;x"))]);
        assert_eq!(Input::of(&text, &[Input::Json, Input::Text]).ok(), Some(Input::Text));
        assert_eq!(of("application/x-www-form-urlencoded"), Some(Input::Json));
        assert_eq!(of(""), None);
    }

    #[test]
    fn commas_in_texts_do_not_count() {
        assert_eq!(commas(br#"["a,b", "\",", "\\", 1, [2, 3]]"#), 5);
        assert_eq!(commas(br#"","#), 0);
        #[derive(Debug, Deserialize)]
        struct Keys {
            keys: Vec<String>,
        }
        let parse = |body: &[u8]| json::<Keys>(body, 10, 1).map_err(|e| e.to_string());
        assert_eq!(parse(br#" {"keys":["a","b"]}"#).unwrap().keys, ["a", "b"]);
        let many = format!("{{\"keys\":[{}\"\"]}}", "\"\",".repeat(75));
        assert!(parse(many.as_bytes()).unwrap_err().starts_with("413"));
        for wrong in [&b"{\"keys\":[\"\xff\"]}"[..], b"[[\"a\"]]", b"", b"{"] {
            assert!(parse(wrong).unwrap_err().starts_with("400"));
        }
    }
}
