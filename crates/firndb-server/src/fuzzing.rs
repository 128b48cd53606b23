//! The request side without a network, for the fuzz target `request`.

use crate::config::Http;
use crate::http::{Compression, Form, Route, decode_key, is_own_host, parse_batches, parse_bodies};
use crate::metrics::TextFormat;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderValue};
use hyper::{Method, Uri};

/// The limit on keys of a batch.
const MAX_KEYS: usize = 50;

/// Handles a request of three lines and a body: its target, its header `Host`, and the headers
/// `Accept` and `Accept-Encoding`. Panics if a property does not hold.
pub fn request(data: &[u8]) {
    let mut lines = data.splitn(4, |byte| *byte == b'\n');
    let [target, host, accept, body] = [(); 4].map(|()| lines.next().unwrap_or_default());
    if let Ok(target) = Uri::try_from(target) {
        route(&target);
    }
    if let Ok(host) = std::str::from_utf8(host) {
        let options = Http { hosts: vec!["db.example.org".to_string()], ..Http::default() };
        let is_own = is_own_host(&options, host);
        assert!(!is_own || is_own_host(&options, &host.to_ascii_uppercase()), "{host:?}");
    }
    if let Ok(accept) = HeaderValue::from_bytes(accept) {
        TextFormat::choose(accept.to_str().unwrap_or_default());
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.clone());
        headers.insert(ACCEPT_ENCODING, accept);
        let _ = Form::choose(&headers, &[Form::Json, Form::Ndjson]);
        Compression::choose(&headers);
    }
    parse_batches(body, MAX_KEYS);
    parse_bodies(body);
}

/// A path has a route or none; a key is the same in all its forms.
fn route(target: &Uri) {
    let Ok(route) = Route::parse(target.path()) else { return };
    assert!(!route.name().is_empty());
    for method in [Method::GET, Method::PUT, Method::OPTIONS] {
        crate::http::required_role(&route, &method);
    }
    let Route::Key { key, .. } = route else { return };
    let Ok(bytes) = decode_key(key, target.query()) else { return };
    assert!(bytes.len() <= key.len());
    let hexadecimal = hex::encode(&bytes);
    let percent: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
    for (text, query) in [(&hexadecimal, Some("encoding=hex")), (&percent, None)] {
        assert_eq!(decode_key(text, query).ok().as_ref(), Some(&bytes));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn requests_of_the_seeds_hold_the_properties() {
        for seed in [
            &b"/v1/logs/a/keys/a%2Fb\nlocalhost:7070\napplication/json;q=0.5\n{\"put\":[]}"[..],
            b"/v1/logs/a/keys/00ff?encoding=hex\n[::1]:80\ngzip, zstd;q=0\n",
            b"/v1/tables/a/keys/_-8?encoding=base64url\n\n\n",
            b"/v1/collections/a:search\nevil:x\n\xff\n",
            b"",
            b"\n\n\n\n",
        ] {
            super::request(seed);
        }
    }
}
