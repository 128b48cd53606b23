//! `POST /v1/logs/NAME:mput`: writes and removes many keys in one atomic batch, if keys have the
//! versions that the client expects.
//!
//! The binary form of the body is a sequence of operations:
//!
//! ```text
//! SIZE  FIELD
//! 1     operation: 1 put, 2 put with an expiry, 3 delete, 4 if version, 5 if absent
//! 8     2: expiry in milliseconds since 1970; 4: the version; little-endian
//! 4+n   the key: its length, little-endian, and its bytes
//! 4+n   1 and 2: the value, in the same way
//! ```
//!
//! Operations 4 and 5 are conditions. The batch is written if all of them hold, wherever they are.

use super::conditions::parse_version;
use super::encoding::{Encoding, Text};
use super::frames::Frames;
use super::{Lifetime, is_sync, lifetime, ttl_of, with_sync, writable};
use crate::app::Deadline;
use crate::http::parse::{self, Input};
use crate::http::problem::Problem;
use crate::http::reply::{Reply, no_content};
use crate::http::{Context, body};
use firndb::log::{Batch, Expiry, WriteOptions};
use hyper::Request;
use hyper::body::Incoming;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::mem;

/// The JSON body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changes<'a> {
    #[serde(borrow, default)]
    put: Vec<Put<'a>>,
    #[serde(borrow, default)]
    delete: Vec<Text<'a>>,
    #[serde(borrow, default, rename = "if")]
    conditions: Vec<Condition<'a>>,
    #[serde(default)]
    encoding: Encoding,
    #[serde(default)]
    sync: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `key` and `value`")]
struct Put<'a> {
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    key_hex: Option<Text<'a>>,
    #[serde(borrow)]
    value: Option<Text<'a>>,
    #[serde(borrow)]
    value_hex: Option<Text<'a>>,
    ttl: Option<f64>,
    expires: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `key` and `version`")]
struct Condition<'a> {
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    key_hex: Option<Text<'a>>,
    /// `null` for an absent key. It has to be given.
    #[serde(deserialize_with = "nullable")]
    version: Option<String>,
}

/// A field that may be null, but must not be missing.
fn nullable<'de, D: Deserializer<'de>>(input: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(input)
}

/// A line of a body of lines: a record, or a key to remove.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    key_hex: Option<Text<'a>>,
    #[serde(borrow)]
    value: Option<Text<'a>>,
    #[serde(borrow)]
    value_hex: Option<Text<'a>>,
    ttl: Option<f64>,
    expires: Option<u64>,
    #[serde(default)]
    delete: bool,
}

/// The fields of a put, for the bound of commas in a body.
const FIELDS: usize = 6;
/// Operations of the binary form.
const PUT: u8 = 1;
const PUT_EXPIRING: u8 = 2;
const DELETE: u8 = 3;
const IF_VERSION: u8 = 4;
const IF_ABSENT: u8 = 5;

/// Handles a batch: status 204 if it was written, 412 if a condition does not hold.
pub async fn mput(context: &Context, store: &str, request: Request<Incoming>) -> Reply {
    let entry = writable(context, store)?;
    let (parts, body) = request.into_parts();
    let input = Input::of(&parts.headers, &[Input::Json, Input::Ndjson, Input::Binary])?;
    let sync = is_sync(&parts.headers)?;
    let body = body::read(context, body).await?;
    let max_keys = context.app.config.limits.keys;
    let work = move |deadline: Deadline| {
        let write = || -> Result<bool, Problem> {
            let mut write = Write { sync, ..Write::default() };
            match input {
                Input::Json => write.add_json(&body, max_keys)?,
                Input::Ndjson => write.add_lines(&body, max_keys)?,
                _ => write.add_binary(&body, max_keys)?,
            }
            deadline.check()?;
            let options = with_sync(WriteOptions::new(), write.sync);
            Ok(entry.log()?.write_if_with(&write.conditions, &write.batch, options)?)
        };
        Ok(write())
    };
    match context.app.work(work).await?? {
        true => Ok(no_content()),
        false => Err(Problem::precondition()),
    }
}

/// Parses a body in all forms, for the fuzz target. Panics if a batch is larger than the limit.
pub fn parse_batches(body: &[u8], max_keys: usize) {
    for parse in [Write::add_json, Write::add_lines, Write::add_binary] {
        let mut write = Write::default();
        let _ = parse(&mut write, body, max_keys);
        assert!(write.batch.len() + write.conditions.len() <= max_keys + 1);
    }
}

/// A batch and its conditions.
#[derive(Default)]
struct Write<'a> {
    batch: Batch,
    conditions: Vec<(Cow<'a, [u8]>, Option<u64>)>,
    sync: bool,
}

impl<'a> Write<'a> {
    fn check(&self, max_keys: usize) -> Result<(), Problem> {
        match self.batch.len() + self.conditions.len() > max_keys {
            true => Err(parse::too_many(max_keys)),
            false => Ok(()),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8], lifetime: Lifetime) {
        match lifetime {
            Lifetime::Never => self.batch.push_put(key, value),
            Lifetime::Ttl(ttl) => self.batch = mem::take(&mut self.batch).put_ttl(key, value, ttl),
            Lifetime::Until(time) => {
                let batch = mem::take(&mut self.batch);
                self.batch = batch.put_expiring(key, value, Expiry::At(time));
            }
        }
    }

    /// Puts first, then deletes: a key that is in both is removed.
    fn add_json(&mut self, body: &'a [u8], max_keys: usize) -> Result<(), Problem> {
        let changes: Changes<'a> = parse::json(body, max_keys, FIELDS)?;
        let encoding = changes.encoding;
        if changes.put.len() + changes.delete.len() + changes.conditions.len() > max_keys {
            return Err(parse::too_many(max_keys));
        }
        for put in changes.put {
            let key = encoding.either("key", put.key, put.key_hex)?;
            let value = encoding.either("value", put.value, put.value_hex)?;
            let ttl = put.ttl.map(|ttl| ttl_of(Some(ttl))).transpose()?;
            self.put(&key, &value, lifetime(ttl, put.expires)?);
        }
        for key in changes.delete {
            self.batch.push_delete(encoding.decode("key", key)?);
        }
        for condition in changes.conditions {
            let key = encoding.either("key", condition.key, condition.key_hex)?;
            let version = match condition.version {
                None => None,
                // A text that is no version belongs to no record.
                Some(text) => Some(parse_version(&text).ok_or_else(Problem::precondition)?),
            };
            self.conditions.push((key, version));
        }
        self.sync |= changes.sync;
        Ok(())
    }

    fn add_lines(&mut self, body: &'a [u8], max_keys: usize) -> Result<(), Problem> {
        for (number, line) in body.split(|&byte| byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            self.add_line(line).map_err(|e| e.in_line(number + 1))?;
            self.check(max_keys)?;
        }
        Ok(())
    }

    fn add_line(&mut self, line: &'a [u8]) -> Result<(), Problem> {
        let line: Line<'a> = parse::json(line, 1, FIELDS)?;
        let encoding = Encoding::default();
        let key = encoding.either("key", line.key, line.key_hex)?;
        let ttl = line.ttl.map(|ttl| ttl_of(Some(ttl))).transpose()?;
        let lifetime = lifetime(ttl, line.expires)?;
        if line.delete {
            let plain = matches!(lifetime, Lifetime::Never);
            if !plain || line.value.is_some() || line.value_hex.is_some() {
                let detail = "a key to remove has neither a value nor an expiry";
                return Err(Problem::bad_request(detail));
            }
            self.batch.push_delete(key);
            return Ok(());
        }
        let value = encoding.either("value", line.value, line.value_hex)?;
        self.put(&key, &value, lifetime);
        Ok(())
    }

    fn add_binary(&mut self, body: &'a [u8], max_keys: usize) -> Result<(), Problem> {
        let mut frames = Frames::new(body);
        while !frames.is_empty() {
            let [operation] = frames.array()?;
            let number = match operation {
                PUT_EXPIRING | IF_VERSION => u64::from_le_bytes(frames.array()?),
                PUT | DELETE | IF_ABSENT => 0,
                _ => {
                    let detail = format!("{operation} is not an operation: they are 1 to 5");
                    return Err(Problem::bad_request(detail));
                }
            };
            let key = frames.field()?;
            match operation {
                PUT => self.put(key, frames.field()?, Lifetime::Never),
                PUT_EXPIRING => self.put(key, frames.field()?, Lifetime::Until(number)),
                DELETE => self.batch.push_delete(key),
                IF_VERSION => self.conditions.push((Cow::Borrowed(key), Some(number))),
                _ => self.conditions.push((Cow::Borrowed(key), None)),
            }
            self.check(max_keys)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_the_binary_form() {
        #[rustfmt::skip]
        let body = [
            1, 1, 0, 0, 0, b'a', 2, 0, 0, 0, b'x', b'y',                    // put a = xy
            2, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'b', 0, 0, 0, 0,        // put b, expires at 9
            3, 1, 0, 0, 0, b'c',                                            // delete c
            4, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'd',                 // if d has version 255
            5, 0, 0, 0, 0,                                                  // if "" is absent
        ];
        let mut write = Write::default();
        write.add_binary(&body, 5).unwrap();
        assert_eq!(write.batch.len(), 3);
        let conditions: Vec<_> = write.conditions.iter().map(|(key, v)| (&key[..], *v)).collect();
        assert_eq!(conditions, [(&b"d"[..], Some(255)), (&b""[..], None)]);
        let error = |body: &[u8], max| {
            Write::default().add_binary(body, max).map_err(|e| e.to_string()).unwrap_err()
        };
        assert!(error(&body, 4).starts_with("413"));
        for end in 1..12 {
            assert!(error(&body[..end], 5).starts_with("400"), "{end}");
        }
        assert!(error(&[0, 0, 0, 0, 0], 5).contains("not an operation"));
    }

    /// Mutated bodies are errors or batches, never panics.
    #[test]
    fn damaged_bodies_are_no_danger() {
        let json = br#"{"put":[{"key":"a","value":"\u00e9","ttl":1.5},{"key_hex":"ff",
            "value_hex":"00","expires":9}],"delete":["b"],"if":[{"key":"c","version":"ff"},
            {"key":"d","version":null}],"encoding":"utf8","sync":true}"#;
        let lines = b"{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"delete\":true}\n";
        let binary = [&[1, 1, 0, 0, 0, b'a', 1, 0, 0, 0, b'b', 3, 0, 0, 0, 0, 4][..], &[0; 12]];
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let (mut good, mut bad) = (0, 0);
        for round in 0..30_000 {
            let mut body = match round % 3 {
                0 => json.to_vec(),
                1 => lines.to_vec(),
                _ => binary.concat(),
            };
            for _ in 0..random(4) {
                let at = random(body.len());
                match random(4) {
                    0 => body.truncate(at + 1),
                    1 => body[at] = random(256) as u8,
                    2 => body.insert(at, b"\"{}[],:\\\xff"[random(9)]),
                    _ => body[at] ^= 1 << random(8),
                }
            }
            let mut write = Write::default();
            let parsed = match round % 3 {
                0 => write.add_json(&body, 5),
                1 => write.add_lines(&body, 5),
                _ => write.add_binary(&body, 5),
            };
            assert!(write.batch.len() + write.conditions.len() <= 6, "round {round}");
            if parsed.is_ok() { good += 1 } else { bad += 1 }
        }
        assert!(good > 1000 && bad > 1000, "{good} {bad}");
    }
}
