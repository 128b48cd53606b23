//! The text form of a page token, which needs no escaping in a URL, a shell or a query.
//!
//! Parts are separated by `~`: one per sort key, then the partition, then the document. A part is a
//! letter for its kind, followed by its content:
//!
//! | letter | part | content |
//! |---|---|---|
//! | `n` | a sort key without a value | nothing |
//! | `b` | bool | `0` or `1` |
//! | `i`, `u`, `t` | i64, u64, timestamp | decimal |
//! | `f` | f64 | the 64 bits as 16 hexadecimal digits |
//! | `s`, `x` | string, bytes | text |
//! | `p` | name of the partition | text |
//! | `d` | number of the document | decimal |
//!
//! In text, ASCII letters, digits, `_` and `-` stand for themselves; any other byte is written as
//! `.` and two hexadecimal digits. Example: `i-5~n~smoscow~ppart-0001~d17`.

use crate::search::model::query::{OrderBy, PageToken};
use crate::search::model::value::Value;
use crate::search::text::lexer::from_hex;
use crate::{Error, Result};
use std::fmt;

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for key in &self.keys {
            match key {
                None => f.write_str("n")?,
                Some(Value::Bool(v)) => write!(f, "b{}", u8::from(*v))?,
                Some(Value::I64(v)) => write!(f, "i{v}")?,
                Some(Value::U64(v)) => write!(f, "u{v}")?,
                Some(Value::F64(v)) => write!(f, "f{:016x}", v.to_bits())?,
                Some(Value::Timestamp(v)) => write!(f, "t{v}")?,
                Some(Value::Str(v)) => write!(f, "s{}", Escaped(v.as_bytes()))?,
                Some(Value::Bytes(v)) => write!(f, "x{}", Escaped(v))?,
            }
            f.write_str("~")?;
        }
        write!(f, "p{}~d{}", Escaped(self.partition.as_bytes()), self.doc)
    }
}

impl PageToken {
    /// Parses the text form that `to_string` writes. `InvalidArgument` for any other text.
    pub fn parse(text: &str) -> Result<PageToken> {
        let token = || {
            let mut parts: Vec<&str> = text.split('~').collect();
            let doc = parts.pop()?.strip_prefix('d')?.parse().ok()?;
            let partition = String::from_utf8(unescape(parts.pop()?.strip_prefix('p')?)?).ok()?;
            let keys = parts.into_iter().map(key).collect::<Option<_>>()?;
            Some(PageToken { keys, partition, doc })
        };
        token().ok_or_else(|| {
            Error::invalid("this is not a page token; pass it as an earlier page returned it")
        })
    }

    /// `InvalidArgument` unless the page token has one key per field of the order. Repeated fields
    /// count once, because they do not affect the order.
    pub(crate) fn check(&self, order: &[OrderBy]) -> Result<()> {
        let repeated = |i: usize| order[..i].iter().any(|key| key.field == order[i].field);
        let keys = (0..order.len()).filter(|&i| !repeated(i)).count();
        if self.keys.len() == keys {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the page token has {} keys, the order has {keys}; repeat the order of the query that \
             gave it",
            self.keys.len(),
        )))
    }
}

/// The sort key of a part; the outer `None` if the part is invalid.
fn key(part: &str) -> Option<Option<Value>> {
    let mut chars = part.chars();
    let kind = chars.next()?;
    let content = chars.as_str();
    Some(Some(match kind {
        'n' if content.is_empty() => return Some(None),
        'b' if content == "0" || content == "1" => Value::Bool(content == "1"),
        'i' => Value::I64(content.parse().ok()?),
        'u' => Value::U64(content.parse().ok()?),
        'f' => Value::F64(float(content)?),
        't' => Value::Timestamp(content.parse().ok()?),
        's' => Value::Str(String::from_utf8(unescape(content)?).ok()?),
        'x' => Value::Bytes(unescape(content)?),
        _ => return None,
    }))
}

fn float(digits: &str) -> Option<f64> {
    let bytes: [u8; 8] = from_hex(digits)?.try_into().ok()?;
    let value = f64::from_bits(u64::from_be_bytes(bytes));
    (!value.is_nan()).then_some(value)
}

struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => write!(f, "{}", byte as char),
            _ => write!(f, ".{byte:02x}"),
        })
    }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut pieces = text.split('.');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, plain) = piece.split_at_checked(2)?;
        bytes.extend(from_hex(digits)?);
        bytes.extend(plain.as_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::model::types::Type;
    use crate::search::testing::Rng;

    #[test]
    fn page_tokens_round_trip_as_text() {
        let mut rng = Rng(0xC0_2502);
        println!("seed {:#x}", rng.0);
        for _ in 0..10_000 {
            let types: Vec<Type> = (0..rng.below(4)).map(|_| *rng.pick(&Type::ALL)).collect();
            let key = |ty| Some(rng.value(ty)).filter(|_| rng.below(4) > 0);
            let keys = types.into_iter().map(key).collect();
            let token = PageToken { keys, partition: rng.text(), doc: rng.next() as u32 };
            let text = token.to_string();
            assert_eq!(PageToken::parse(&text).unwrap(), token, "{text}");
            assert!(
                text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c)),
                "{text}"
            );
        }
    }

    #[test]
    fn text_form_of_a_page_token() {
        let keys = vec![Some(Value::I64(-5)), None, Some("moscow 1".into())];
        let token = PageToken { keys, partition: "part-0001".into(), doc: 17 };
        assert_eq!(token.to_string(), "i-5~n~smoscow.201~ppart-0001~d17");
        let zero = PageToken { keys: vec![Some((-0.0).into())], partition: String::new(), doc: 0 };
        assert_eq!(zero.to_string(), "f8000000000000000~p~d0");
    }

    #[test]
    fn invalid_page_tokens_are_rejected() {
        for text in [
            "",
            "d1",
            "pa",
            "d1~pa",
            "pa~d-1",
            "pa~d4294967296",
            "q~pa~d1",
            "~pa~d1",
            "n1~pa~d1",
            "b2~pa~d1",
            "i~pa~d1",
            "i9223372036854775808~pa~d1",
            "f00~pa~d1",
            "s.f~pa~d1",
            "s.zz~pa~d1",
            "s.ff~pa~d1",
            "p.\u{e9}~d1",
            "f7ff8000000000000~pa~d1",
            "pa~d1~",
        ] {
            assert!(PageToken::parse(text).is_err(), "{text}");
        }
    }
}
