//! Removes credentials from URLs, for messages and logs.
//!
//! ```text
//! http://user:password@host/a           http://***@host/a
//! https://host/a?X-Amz-Signature=9f&v=1 https://host/a?X-Amz-Signature=***&v=1
//! s3://KEY:SEC/RET@bucket/a             s3://***@bucket/a
//! ```
//! In doubt, it hides too much rather than too little. A text without `://` is never changed.

/// Replaces a secret.
const HIDDEN: &str = "***";

/// Parameters whose names contain one of these, in any case, are secrets.
const SECRETS: [&str; 12] = [
    "sig", "token", "key", "secret", "pass", "pwd", "auth", "cred", "sas", "session", "code", "jwt",
];

/// Replaces the credentials in the URLs of a text by `***`: user and password before `@`, and the
/// values of parameters whose names suggest a signature, a token, a key or a password. A URL ends
/// at white space or at a quotation mark.
pub fn redact(text: &str) -> String {
    walk(text, |rest| {
        let is_end = |c: char| c.is_whitespace() || c.is_control() || "`\"<>".contains(c);
        rest.find(is_end).unwrap_or(rest.len())
    })
}

/// [`redact`] for a text that is a single URL, which may contain any characters.
pub fn redact_url(url: &str) -> String {
    walk(url, str::len)
}

/// Replaces the credentials of each URL. `end` returns the length of a URL after its `://`.
fn walk(text: &str, end: impl Fn(&str) -> usize) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once("://") {
        let (url, then) = after.split_at(end(after));
        out += before;
        out += "://";
        out += &without_secrets(url);
        rest = then;
    }
    out + rest
}

/// Replaces the credentials of a URL, given without scheme and `://`.
fn without_secrets(url: &str) -> String {
    let (user, rest) = url.split_at(end_of_user(url));
    let (path, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let mut out = String::with_capacity(url.len());
    if !user.is_empty() {
        out += HIDDEN;
    }
    out += path;
    for pair in query.split_inclusive(['?', '#', '&', ';']) {
        let (pair, separator) = match pair.strip_suffix(['?', '#', '&', ';']) {
            Some(shorter) => pair.split_at(shorter.len()),
            None => (pair, ""),
        };
        match pair.split_once('=') {
            Some((name, _)) if is_secret(name) => out.extend([name, "=", HIDDEN]),
            _ => out += pair,
        }
        out += separator;
    }
    out
}

/// Offset of the `@` that ends user and password; 0 without them.
fn end_of_user(url: &str) -> usize {
    let authority = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    if let Some(at) = authority.rfind('@') {
        return at;
    }
    // If a colon is not followed by a port, it precedes a password with characters that should have
    // been encoded.
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) || port.ends_with(']');
    match port.is_some_and(|port| !is_port(port)) {
        true => url.rfind('@').unwrap_or(0),
        false => 0,
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_hidden_and_the_rest_is_kept() {
        let cases = [
            ("http://user:secret@host:80/a/b", "http://***@host:80/a/b"),
            ("https://secret@host", "https://***@host"),
            ("http://user:se@cret@host/", "http://***@host/"),
            ("HTTP://user:se/cr?e#t@host/a", "HTTP://***@host/a"),
            ("s3://KEY:sec/ret+x=@bucket/a", "s3://***@bucket/a"),
            ("hdfs://u:secret@h:8020/a", "hdfs://***@h:8020/a"),
            ("http://h/a?sig=secret", "http://h/a?sig=***"),
            (
                "https://h/?v=1&X-Amz-Signature=secret&X-Amz-Security-Token=secret#top",
                "https://h/?v=1&X-Amz-Signature=***&X-Amz-Security-Token=***#top",
            ),
            ("http://h/#access_token=secret;n=2", "http://h/#access_token=***;n=2"),
            ("http://h/?AWSAccessKeyId=secret&n", "http://h/?AWSAccessKeyId=***&n"),
            ("http://host:8080/@scope/x?id=7&mail=a@b", "http://host:8080/@scope/x?id=7&mail=a@b"),
            ("http://[::1]:80/@a", "http://[::1]:80/@a"),
            ("http://[::1]/@a", "http://[::1]/@a"),
            ("s3://bucket/prefix", "s3://bucket/prefix"),
            ("a/b@c:d", "a/b@c:d"),
            ("://", "://"),
            ("http://", "http://"),
            ("http://@h", "http://@h"),
            ("", ""),
        ];
        for (url, shown) in cases {
            assert_eq!(redact_url(url), shown);
            assert_eq!(redact(url), shown);
            let text = |url: &str| format!("a@b: `{url}`, \"{url}\" and <{url}>\n{url} x@y");
            assert_eq!(redact(&text(url)), text(shown));
        }
        assert_eq!(redact_url("http://us er:my secret@host/ a"), "http://***@host/ a");
        assert_eq!(redact("error (http://h/?token=secret): no"), "error (http://h/?token=*** no");
    }
}
