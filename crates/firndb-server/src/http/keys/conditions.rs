//! Conditions on the record of a key: `If-Match` and `If-None-Match` (RFC 9110, 13.1).

use crate::http::Problem;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};

/// What a write depends on. A tag is the version of a record in hexadecimal digits.
#[derive(Debug, Default)]
pub struct Conditions {
    matches: Option<Tags>,
    none_match: Option<Tags>,
}

/// The value of a condition.
#[derive(Debug, PartialEq, Eq)]
enum Tags {
    /// `*`: any record.
    Any,
    /// A list, of which the versions of records are kept: no record has another tag.
    Versions(Vec<u64>),
}

/// The tag of a record of a log store.
pub fn version_tag(version: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{version:x}\"")).expect("digits are printable")
}

/// The version that a tag stands for, without its quotes; `None` if it is no record's tag.
pub fn parse_version(text: &str) -> Option<u64> {
    let plain = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    let valid = !text.is_empty() && text.bytes().all(plain);
    valid.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

impl Conditions {
    /// The conditions of a request that writes.
    ///
    /// Errors: status 400 if a header is malformed. It must not be taken for a condition that
    /// always holds.
    pub fn of(headers: &HeaderMap) -> Result<Conditions, Problem> {
        // A weak tag never matches `If-Match`, which compares strongly.
        let matches = tags(headers, IF_MATCH, false)?;
        Ok(Conditions { matches, none_match: tags(headers, IF_NONE_MATCH, true)? })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.matches.is_none() && self.none_match.is_none()
    }

    /// Whether all conditions hold for a key whose record has this version.
    pub fn hold(&self, version: Option<u64>) -> bool {
        let has = |tags: &Tags| match tags {
            Tags::Any => version.is_some(),
            Tags::Versions(all) => version.is_some_and(|version| all.contains(&version)),
        };
        self.matches.as_ref().is_none_or(has) && !self.none_match.as_ref().is_some_and(has)
    }
}

/// The tags of all headers of this name.
fn tags(headers: &HeaderMap, name: HeaderName, weak: bool) -> Result<Option<Tags>, Problem> {
    let mut found = None;
    for value in headers.get_all(&name) {
        let text = value.to_str().unwrap_or("?");
        for tag in text.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
            if tag == "*" {
                found = Some(Tags::Any);
                continue;
            }
            let (is_weak, quoted) = match tag.strip_prefix("W/") {
                Some(quoted) => (true, quoted),
                None => (false, tag),
            };
            let text = quoted.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let text = text.ok_or_else(|| {
                let detail = format!("`{name}` must be `*` or tags in quotes, separated by commas");
                Problem::bad_request(detail)
            })?;
            let version = parse_version(text).filter(|_| weak || !is_weak);
            match found.get_or_insert(Tags::Versions(Vec::new())) {
                Tags::Any => {}
                Tags::Versions(all) => all.extend(version),
            }
        }
        found.get_or_insert(Tags::Versions(Vec::new()));
    }
    Ok(found)
}

/// Whether the client has the value with this tag already, by `If-None-Match` of a read.
pub fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.trim_start_matches("W/").as_bytes() == tag.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(HeaderName, &str)]) -> Option<Conditions> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        Conditions::of(&map).ok()
    }

    #[test]
    fn conditions_are_about_the_version() {
        let holds = |headers: &[(HeaderName, &str)], version| of(headers).unwrap().hold(version);
        let cases: [(&str, [bool; 3]); 7] = [
            ("*", [false, true, true]),
            ("\"a\"", [false, true, false]),
            ("\"A\"", [false, false, false]),
            ("\"a\", \"b\"", [false, true, true]),
            (" \"b\",\"c\" ", [false, false, true]),
            ("\"not-a-version\"", [false, false, false]),
            ("", [false, false, false]),
        ];
        for (text, expected) in cases {
            let versions = [None, Some(10), Some(11)];
            let found = versions.map(|version| holds(&[(IF_MATCH, text)], version));
            assert_eq!(found, expected, "{text}");
            let found = versions.map(|version| !holds(&[(IF_NONE_MATCH, text)], version));
            assert_eq!(found, expected, "{text}");
        }
        assert!(!holds(&[(IF_MATCH, "W/\"a\"")], Some(10)));
        assert!(!holds(&[(IF_NONE_MATCH, "W/\"a\"")], Some(10)));
        assert!(holds(&[(IF_MATCH, "\"1\""), (IF_MATCH, "\"a\"")], Some(10)));
        assert!(!holds(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "\"a\"")], Some(10)));
        assert!(of(&[]).unwrap().is_empty());
        for malformed in ["a", "\"a", "\"a\", b", "\u{e9}"] {
            assert!(of(&[(IF_MATCH, malformed)]).is_none(), "{malformed}");
            assert!(of(&[(IF_NONE_MATCH, malformed)]).is_none(), "{malformed}");
        }
    }

    #[test]
    fn versions_have_one_form() {
        assert_eq!(version_tag(255), "\"ff\"");
        assert_eq!(parse_version("ff"), Some(255));
        for wrong in ["", "+1", "0x1", "FF", "g", "11112222333344445"] {
            assert_eq!(parse_version(wrong), None, "{wrong}");
        }
    }
}
