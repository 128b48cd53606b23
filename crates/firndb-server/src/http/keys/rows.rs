//! Writes keys and values into a response, in the form that the client has chosen.

use super::encoding::Encoding;
use super::frames;
use crate::http::Problem;
use crate::http::negotiate::Form;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firndb::log::{Entry, Expiry};
use firndb_ingest::Shown;

/// A record to write.
pub struct Row<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value; `None` if the key is absent.
    pub value: Option<&'a [u8]>,
    /// The version and the expiry of a record of a log store.
    pub meta: Option<(u64, Expiry)>,
}

impl<'a> Row<'a> {
    /// A record of a log store.
    pub fn of_log(entry: &Entry<'a>) -> Row<'a> {
        let meta = Some((entry.version, entry.expiry));
        Row { key: entry.key, value: Some(entry.value), meta }
    }
}

/// A response with rows.
pub struct Rows<'a> {
    form: Form,
    encoding: Encoding,
    shown: &'a Shown,
    /// Whether rows have the versions of their records.
    versions: bool,
    limit: usize,
    rows: usize,
    out: Vec<u8>,
}

impl<'a> Rows<'a> {
    /// An empty response of this form. In JSON its rows are in the array `name`.
    pub fn new(form: Form, name: &'static str, limit: usize, shown: &'a Shown) -> Rows<'a> {
        let mut out = Vec::new();
        if form == Form::Json {
            out.extend_from_slice(format!("{{\"{name}\":[").as_bytes());
        }
        let encoding = Encoding::default();
        Rows { form, encoding, shown, versions: false, limit, rows: 0, out }
    }

    /// How bytes are written in JSON, and whether rows have versions.
    pub fn with(mut self, encoding: Encoding, versions: bool) -> Rows<'a> {
        (self.encoding, self.versions) = (encoding, versions);
        self
    }

    /// Adds the answer for a key: only its value in the binary form.
    ///
    /// Errors: status 413 if the response exceeds its limit; 500 if a value is damaged.
    pub fn push_answer(&mut self, row: &Row<'_>) -> Result<(), Problem> {
        self.check(row.value.map_or(0, <[u8]>::len))?;
        match self.form {
            Form::Binary => frames::push(&mut self.out, row.value)?,
            _ => self.push_json(row, true)?,
        }
        self.check(0)
    }

    /// Adds a record. Errors as [`Rows::push_answer`].
    pub fn push_record(&mut self, row: &Row<'_>) -> Result<(), Problem> {
        self.check(row.key.len() + row.value.map_or(0, <[u8]>::len))?;
        match self.form {
            Form::Binary => {
                frames::push(&mut self.out, Some(row.key))?;
                frames::push(&mut self.out, row.value)?;
            }
            _ => self.push_json(row, false)?,
        }
        self.check(0)
    }

    /// An error if the response, and `more` bytes, exceed the limit.
    fn check(&self, more: usize) -> Result<(), Problem> {
        match self.out.len() + more > self.limit {
            true => Err(Problem::too_large(format!(
                "the response exceeds the limit of {} bytes: ask for less at a time",
                self.limit
            ))),
            false => Ok(()),
        }
    }

    fn push_json(&mut self, row: &Row<'_>, with_absent: bool) -> Result<(), Problem> {
        if self.rows > 0 && self.form == Form::Json {
            self.out.push(b',');
        }
        self.rows += 1;
        self.out.push(b'{');
        self.push_bytes("key", row.key);
        match row.value {
            Some(value) => {
                self.out.push(b',');
                match self.shown.record(row.key, value)? {
                    Some(json) => {
                        self.out.extend_from_slice(b"\"value\":");
                        self.push_text(&json);
                    }
                    None => self.push_bytes("value", value),
                }
            }
            None if with_absent => self.out.extend_from_slice(b",\"value\":null"),
            None => {}
        }
        if let Some((version, expiry)) = row.meta {
            if self.versions {
                self.out.extend_from_slice(format!(",\"version\":\"{version:x}\"").as_bytes());
            }
            if let Expiry::At(time) = expiry {
                self.out.extend_from_slice(format!(",\"expires\":{time}").as_bytes());
            }
        }
        self.out.push(b'}');
        if self.form == Form::Ndjson {
            self.out.push(b'\n');
        }
        Ok(())
    }

    /// Bytes under a name that says how they are written.
    fn push_bytes(&mut self, name: &str, bytes: &[u8]) {
        match self.encoding {
            Encoding::Utf8 => match std::str::from_utf8(bytes) {
                Ok(text) => {
                    self.push_name(name, "");
                    self.push_text(text);
                }
                Err(_) => self.push_hex(name, bytes),
            },
            Encoding::Hex => self.push_hex(name, bytes),
            Encoding::Base64url => {
                self.push_name(name, "_base64url");
                self.push_text(&URL_SAFE_NO_PAD.encode(bytes));
            }
        }
    }

    /// Hexadecimal digits, which take no detour through a text of their own.
    fn push_hex(&mut self, name: &str, bytes: &[u8]) {
        self.push_name(name, "_hex");
        self.out.push(b'"');
        let start = self.out.len();
        self.out.resize(start + 2 * bytes.len(), 0);
        hex::encode_to_slice(bytes, &mut self.out[start..]).expect("two digits per byte");
        self.out.push(b'"');
    }

    fn push_name(&mut self, name: &str, suffix: &str) {
        for part in ["\"", name, suffix, "\":"] {
            self.out.extend_from_slice(part.as_bytes());
        }
    }

    fn push_text(&mut self, text: &(impl serde::Serialize + ?Sized)) {
        serde_json::to_writer(&mut self.out, text).expect("a vector takes all bytes");
    }

    /// The body. `next` is the cursor of the next page, if the rows are a page.
    pub fn finish(mut self, next: Option<Option<&str>>) -> Vec<u8> {
        if self.form == Form::Json {
            self.out.push(b']');
            if let Some(next) = next {
                self.out.extend_from_slice(b",\"next\":");
                self.push_text(&next);
            }
            self.out.push(b'}');
        }
        self.out
    }
}
