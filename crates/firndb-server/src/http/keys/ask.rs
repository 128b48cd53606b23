//! What a request for a page of keys asks for: the JSON body of a `POST`, or the parameters of a
//! `GET` like `:scan?prefix=user/&limit=10`.

use super::encoding::{Encoding, Text, percent_decode};
use crate::http::parse;
use crate::http::problem::Problem;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firndb::KeyRange;
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;
use std::ops::Bound;

/// The request for a page.
pub struct Ask {
    pub cursor: Cursor,
    pub limit: Option<usize>,
    pub encoding: Encoding,
    /// Whether values are wanted.
    pub values: bool,
    /// Whether versions of records are wanted.
    pub versions: bool,
    /// The keys of a scan in the order of keys.
    range: KeyRange,
    /// Whether these are wanted from the last to the first.
    pub reverse: bool,
}

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// In a scan in no particular order: a number of the store.
    Number(u128),
    /// In a scan in the order of keys: after this key, or at the first.
    Keys(Option<Vec<u8>>),
}

/// The JSON body. The names of parameters are the same.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Fields<'a> {
    #[serde(borrow)]
    cursor: Option<Cow<'a, str>>,
    limit: Option<usize>,
    encoding: Encoding,
    values: bool,
    versions: bool,
    #[serde(borrow)]
    prefix: Option<Text<'a>>,
    #[serde(borrow)]
    from: Option<Text<'a>>,
    #[serde(borrow)]
    to: Option<Text<'a>>,
    reverse: Option<bool>,
}

impl Default for Fields<'_> {
    fn default() -> Self {
        let (cursor, limit, prefix, from, to, reverse) = Default::default();
        let (encoding, values, versions) = (Encoding::default(), true, false);
        Fields { cursor, limit, encoding, values, versions, prefix, from, to, reverse }
    }
}

/// The bounds of a scan in the order of keys.
struct Bounds {
    prefix: Option<Vec<u8>>,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl Ask {
    /// What a body asks for; an empty one for the first page of all keys.
    pub fn of_body(body: &[u8]) -> Result<Ask, Problem> {
        let mut fields: Fields<'_> = match body.trim_ascii().is_empty() {
            true => Fields::default(),
            false => parse::json(body, 1, 1)?,
        };
        let encoding = fields.encoding;
        let bytes = |name, text: Option<Text<'_>>| {
            text.map(|text| encoding.decode(name, text).map(Cow::into_owned)).transpose()
        };
        let bounds = Bounds {
            prefix: bytes("prefix", fields.prefix.take())?,
            from: bytes("bound `from`", fields.from.take())?,
            to: bytes("bound `to`", fields.to.take())?,
        };
        Ask::new(fields, bounds)
    }

    /// What parameters ask for. Bytes are percent-encoded, unless `encoding` says how they are
    /// written. A plus sign is a space, as most libraries that build queries write it.
    pub fn of_query(query: &str) -> Result<Ask, Problem> {
        let (mut fields, mut texts) = (Fields::default(), [None; 3]);
        let mut seen = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, text) = parameter.split_once('=').unwrap_or((parameter, ""));
            if seen.contains(&name) {
                return Err(Problem::bad_request(format!("the parameter `{name}` is given twice")));
            }
            seen.push(name);
            match name {
                "cursor" => fields.cursor = Some(Cow::Borrowed(text)),
                "limit" => fields.limit = Some(parameter_of(name, text, text.parse().ok())?),
                "encoding" => fields.encoding = parameter_of(name, text, Encoding::of(text))?,
                "values" => fields.values = parameter_of(name, text, text.parse().ok())?,
                "versions" => fields.versions = parameter_of(name, text, text.parse().ok())?,
                "reverse" => fields.reverse = Some(parameter_of(name, text, text.parse().ok())?),
                "prefix" => texts[0] = Some(text),
                "from" => texts[1] = Some(text),
                "to" => texts[2] = Some(text),
                _ => {
                    let detail = format!(
                        "unknown parameter `{name}`: the parameters are cursor, limit, encoding, \
                         values, versions, prefix, from, to and reverse"
                    );
                    return Err(Problem::bad_request(detail));
                }
            }
        }
        let encoding = fields.encoding;
        let bytes = |name, text: Option<&str>| {
            let decode = |text: &str| match encoding {
                Encoding::Utf8 => percent_decode(&text.replace('+', " ")).map(Cow::into_owned),
                _ => encoding.decode(name, Text(Cow::Borrowed(text))).map(Cow::into_owned),
            };
            text.map(decode).transpose()
        };
        let [prefix, from, to] = texts;
        let bounds = Bounds {
            prefix: bytes("prefix", prefix)?,
            from: bytes("bound `from`", from)?,
            to: bytes("bound `to`", to)?,
        };
        Ask::new(fields, bounds)
    }

    fn new(fields: Fields<'_>, bounds: Bounds) -> Result<Ask, Problem> {
        let Bounds { prefix, from, to } = bounds;
        let is_ordered =
            prefix.is_some() || from.is_some() || to.is_some() || fields.reverse.is_some();
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        let prefix = prefix.map_or(KeyRange::from(..), KeyRange::prefix);
        let range = prefix.and(&KeyRange::new(from, to));
        let cursor = match fields.cursor.as_deref() {
            None | Some("0") if is_ordered => Cursor::Keys(None),
            None => Cursor::Number(0),
            Some(text) => Cursor::parse(text)?,
        };
        if is_ordered != matches!(cursor, Cursor::Keys(_)) {
            let detail = "the cursor is of another scan: repeat `prefix`, `from`, `to` and \
                          `reverse` as they were for the page that returned it";
            return Err(Problem::bad_request(detail));
        }
        let Fields { limit, encoding, values, versions, reverse, .. } = fields;
        let reverse = reverse.unwrap_or(false);
        Ok(Ask { cursor, limit, encoding, values, versions, range, reverse })
    }

    /// The keys that a scan in the order of keys has not shown yet.
    pub fn rest(&self) -> KeyRange {
        let none = Bound::<&[u8]>::Unbounded;
        match (&self.cursor, self.reverse) {
            (Cursor::Keys(Some(last)), false) => {
                self.range.and(&KeyRange::new(Bound::Excluded(last), none))
            }
            (Cursor::Keys(Some(last)), true) => {
                self.range.and(&KeyRange::new(none, Bound::Excluded(last)))
            }
            _ => self.range.clone(),
        }
    }
}

/// The value of a parameter, or what is wrong with it.
fn parameter_of<T>(name: &str, text: &str, value: Option<T>) -> Result<T, Problem> {
    value.ok_or_else(|| Problem::bad_request(format!("the parameter `{name}` cannot be `{text}`")))
}

impl Cursor {
    fn parse(text: &str) -> Result<Cursor, Problem> {
        let wrong = || {
            Problem::bad_request(
                "`cursor` is not a cursor: \"0\" begins a scan, others come from pages",
            )
        };
        if let Some(key) = text.strip_prefix('k') {
            let key = URL_SAFE_NO_PAD.decode(key).map_err(|_| wrong())?;
            return Ok(Cursor::Keys(Some(key)));
        }
        let is_plain = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        let number = Some(text).filter(|_| is_plain).and_then(|text| text.parse().ok());
        number.map(Cursor::Number).ok_or_else(wrong)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cursor::Number(number) => write!(f, "{number}"),
            Cursor::Keys(key) => {
                write!(f, "k{}", URL_SAFE_NO_PAD.encode(key.as_deref().unwrap_or_default()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_numbers_or_keys() {
        for cursor in [
            Cursor::Number(0),
            Cursor::Number(u128::MAX),
            Cursor::Keys(Some(vec![])),
            Cursor::Keys(Some(b"a\xff\0".to_vec())),
        ] {
            assert_eq!(Cursor::parse(&cursor.to_string()).ok(), Some(cursor));
        }
        for wrong in
            ["", "-1", "+1", " 1", "0x1", "1.0", "a", "k=", "k*", "K", &format!("{}0", u128::MAX)]
        {
            assert!(Cursor::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_query_asks_for_what_a_body_asks_for() {
        for (query, body, range) in [
            ("", "", KeyRange::from(..)),
            ("prefix=a%2Fb", r#"{"prefix":"a/b"}"#, KeyRange::prefix("a/b")),
            ("prefix=a+b%2B", r#"{"prefix":"a b+"}"#, KeyRange::prefix("a b+")),
            ("from=a&to=b", r#"{"from":"a","to":"b"}"#, KeyRange::from("a".."b")),
            (
                "encoding=hex&prefix=ff",
                r#"{"encoding":"hex","prefix":"ff"}"#,
                KeyRange::prefix([255]),
            ),
            ("prefix=%ff", r#"{"encoding":"base64url","prefix":"_w"}"#, KeyRange::prefix([255])),
            ("reverse=true", r#"{"reverse":true}"#, KeyRange::from(..)),
        ] {
            let (a, b) = (Ask::of_query(query).unwrap(), Ask::of_body(body.as_bytes()).unwrap());
            assert_eq!((&a.range, &a.cursor, a.reverse), (&range, &b.cursor, b.reverse), "{query}");
            assert_eq!((&b.range, b.limit, b.values), (&range, a.limit, a.values), "{query}");
        }
        for wrong in [
            "prefix=a&prefix=b",
            "prefixes=a",
            "limit=x",
            "limit=-1",
            "values=1",
            "prefix=%f",
            "encoding=hex&prefix=f",
            "cursor=ka",
            "cursor=5&prefix=a",
            "reverse",
        ] {
            assert!(Ask::of_query(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_rest_of_a_scan_begins_after_the_cursor() {
        let rest = |query: &str| Ask::of_query(query).unwrap().rest();
        let cursor = Cursor::Keys(Some(b"ab".to_vec())).to_string();
        let forward = rest(&format!("prefix=a&cursor={cursor}"));
        assert!(forward.contains(b"ab\0") && !forward.contains(b"ab") && !forward.contains(b"b"));
        let backward = rest(&format!("prefix=a&reverse=true&cursor={cursor}"));
        assert!(backward.contains(b"aa") && !backward.contains(b"ab") && backward.contains(b"a"));
    }
}
