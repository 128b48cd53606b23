//! Bytes as text: how clients write keys and values in paths and in JSON.

use crate::http::Problem;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use std::borrow::Cow;

/// How bytes are written in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As text; in responses as hexadecimal digits, under another name, if they are not UTF-8.
    #[default]
    Utf8,
    /// Hexadecimal digits.
    Hex,
    /// base64url; padding is optional in requests.
    Base64url,
}

/// A text of a JSON body, borrowed from it if it has no escapes.
#[derive(Debug, Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl Encoding {
    /// The encoding of this name.
    pub fn of(name: &str) -> Option<Encoding> {
        Some(match name {
            "utf8" => Encoding::Utf8,
            "hex" => Encoding::Hex,
            "base64url" => Encoding::Base64url,
            _ => return None,
        })
    }

    /// The bytes that a text stands for. `name` is what they are, for the message.
    pub fn decode<'a>(self, name: &str, text: Text<'a>) -> Result<Cow<'a, [u8]>, Problem> {
        match self {
            Encoding::Utf8 => Ok(match text.0 {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            }),
            Encoding::Hex => decode_hex(name, &text.0).map(Cow::Owned),
            Encoding::Base64url => decode_base64url(name, &text.0).map(Cow::Owned),
        }
    }

    /// The bytes of a field that has one of two names: `text` in this encoding, or `hex`.
    pub fn either<'a>(
        self,
        name: &str,
        text: Option<Text<'a>>,
        hex: Option<Text<'a>>,
    ) -> Result<Cow<'a, [u8]>, Problem> {
        match (text, hex) {
            (Some(text), None) => self.decode(name, text),
            (None, Some(hex)) => Encoding::Hex.decode(name, hex),
            _ => {
                let detail = format!("give either `{name}` or `{name}_hex`, and only one of them");
                Err(Problem::bad_request(detail))
            }
        }
    }
}

fn decode_hex(name: &str, text: &str) -> Result<Vec<u8>, Problem> {
    let wrong = || format!("the {name} is not an even number of hex digits");
    hex::decode(text).map_err(|_| Problem::bad_request(wrong()))
}

fn decode_base64url(name: &str, text: &str) -> Result<Vec<u8>, Problem> {
    let wrong = || format!("the {name} is not base64url");
    let text = text.trim_end_matches('=');
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Problem::bad_request(wrong()))
}

/// The bytes of a key in a path: percent-encoded, or with `?encoding=hex` or `?encoding=base64url`.
pub fn decode_key<'a>(text: &'a str, query: Option<&str>) -> Result<Cow<'a, [u8]>, Problem> {
    let mut encoding = None;
    for parameter in query.unwrap_or_default().split('&').filter(|p| !p.is_empty()) {
        match parameter.split_once('=') {
            Some(("encoding", name)) if encoding.is_none() => encoding = Some(name),
            _ => {
                let detail = "the only parameter of a key is `encoding`, once";
                return Err(Problem::bad_request(detail));
            }
        }
    }
    match encoding {
        None => percent_decode(text),
        Some("hex") => decode_hex("key", text).map(Cow::Owned),
        Some("base64url") => decode_base64url("key", text).map(Cow::Owned),
        Some(_) => Err(Problem::bad_request("encodings of keys are `hex` and `base64url`")),
    }
}

/// The bytes of a percent-encoded text.
pub fn percent_decode(text: &str) -> Result<Cow<'_, [u8]>, Problem> {
    let mut rest = text.split('%');
    let first = rest.next().unwrap_or_default();
    let valid =
        |part: &str| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit);
    match rest.all(valid) {
        true if first.len() == text.len() => Ok(Cow::Borrowed(text.as_bytes())),
        true => Ok(percent_encoding::percent_decode_str(text).into()),
        false => Err(Problem::bad_request("a percent sign is not followed by two hex digits")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_paths_are_decoded() {
        let key = |text, query| decode_key(text, query).ok().map(Cow::into_owned);
        assert_eq!(key("a/b", None).unwrap(), b"a/b");
        assert_eq!(key("a%2Fb%00%ff", None).unwrap(), b"a/b\0\xff");
        assert_eq!(key("", None).unwrap(), b"");
        assert_eq!(key("00fF", Some("encoding=hex")).unwrap(), [0, 0xff]);
        assert_eq!(key("_-8", Some("encoding=base64url")).unwrap(), [0xff, 0xef]);
        assert_eq!(key("_-8=", Some("&encoding=base64url&")).unwrap(), [0xff, 0xef]);
        for (text, query) in [
            ("%", None),
            ("%4", None),
            ("%4g", None),
            ("a%\u{e9}b", None),
            ("0", Some("encoding=hex")),
            ("0g", Some("encoding=hex")),
            ("+/8", Some("encoding=base64url")),
            ("a", Some("encoding=base64url")),
            ("a", Some("encoding=utf8")),
            ("a", Some("encoding=")),
            ("00", Some("encoding=hex&encoding=hex")),
            ("a", Some("other=1")),
            ("a", Some("encoding")),
        ] {
            assert!(key(text, query).is_none(), "{text} {query:?}");
        }
    }

    #[test]
    fn bytes_of_json_have_one_name() {
        let text = |text: &'static str| Some(Text(Cow::Borrowed(text)));
        let either = |a, b| Encoding::Utf8.either("key", a, b).ok().map(Cow::into_owned);
        assert_eq!(either(text("6b"), None).unwrap(), b"6b");
        assert_eq!(either(None, text("6b")).unwrap(), b"k");
        assert!(either(None, None).is_none() && either(text("k"), text("6b")).is_none());
        let hex = Encoding::Hex.either("key", text("6b"), None);
        assert_eq!(&*hex.unwrap(), b"k");
    }
}
