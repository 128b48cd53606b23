//! The forms in which records leave a store: separated text, CSV, JSON lines.

use super::{put_bytes, shown_key};
use crate::output::{Out, hex, stdout_error};
use clap::ValueEnum;
use csv::{ByteRecord, Writer};
use firndb::log::Entry;
use firndb::{Error, Result};
use firndb_ingest::EXPIRES_AT;
use flate2::write::GzEncoder;
use serde_json::{Map, Value as Json};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Form of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// By the file's name; JSON lines if it says nothing.
    #[default]
    Auto,
    /// KEY, separator, VALUE and a newline.
    Text,
    /// The header `key,value`, then a row a record.
    Csv,
    /// A JSON object a line; `key_hex` and `value_hex` stand for bytes that are not text, and
    /// `expires_at` is when a record expires, in milliseconds since 1970.
    Jsonl,
}

impl Form {
    /// The form that a file's name promises.
    pub fn of(self, path: Option<&Path>) -> Form {
        if self != Form::Auto {
            return self;
        }
        let name = path.and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let name = name.to_ascii_lowercase();
        let plain = [".gz", ".zst", ".zstd"].iter().find_map(|s| name.strip_suffix(s));
        match plain.unwrap_or(&name).rsplit_once('.') {
            Some((_, "csv")) => Form::Csv,
            Some((_, "txt" | "text" | "tsv" | "tab")) => Form::Text,
            _ => Form::Jsonl,
        }
    }
}

/// Where bytes go.
pub enum Sink {
    Out(Out),
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl Sink {
    /// A new file, compressed as `name` says.
    pub fn file(path: &Path, name: &Path) -> Result<Sink> {
        let fail = |e| Error::io("create", path, e);
        let file = BufWriter::with_capacity(1 << 17, File::create_new(path).map_err(fail)?);
        Ok(match name.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Sink::Gzip(GzEncoder::new(file, flate2::Compression::default())),
            Some("zst" | "zstd") => Sink::Zstd(zstd::Encoder::new(file, 3).map_err(fail)?),
            _ => Sink::Plain(file),
        })
    }

    /// Writes what is left, and makes a file durable.
    fn finish(self) -> io::Result<()> {
        let file = match self {
            Sink::Out(mut out) => return out.flush(),
            Sink::Plain(file) => file,
            Sink::Gzip(encoder) => encoder.finish()?,
            Sink::Zstd(encoder) => encoder.finish()?,
        };
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Out(out) => out.write(bytes),
            Sink::Plain(file) => file.write(bytes),
            Sink::Gzip(encoder) => encoder.write(bytes),
            Sink::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Out(out) => out.flush(),
            Sink::Plain(file) => file.flush(),
            Sink::Gzip(encoder) => encoder.flush(),
            Sink::Zstd(encoder) => encoder.flush(),
        }
    }
}

/// How records are written.
pub struct Style {
    pub form: Form,
    /// Stands between key and value in text.
    pub separator: Vec<u8>,
    /// All bytes as hexadecimal digits.
    pub hex: bool,
    /// Refuse a record that `firn log load` would not read back as it is.
    pub is_exact: bool,
    pub keys_only: bool,
    /// Leave out when records expire.
    pub without_expiry: bool,
}

/// Stands for the empty key in hexadecimal digits, where nothing at all is a missing key.
pub const NO_DIGITS: &[u8] = b"0x";

/// Writes records.
pub struct Records {
    style: Style,
    to: To,
    /// Of the file; `None` for standard output.
    path: Option<PathBuf>,
    is_first: bool,
    /// Records that expire and were written as if they did not.
    unexpiring: u64,
}

enum To {
    Lines(Box<Sink>),
    Csv(Box<Writer<Sink>>),
}

impl Records {
    pub fn new(sink: Sink, path: Option<PathBuf>, style: Style) -> Result<Records> {
        let mut to = match style.form {
            Form::Csv => To::Csv(Box::new(Writer::from_writer(sink))),
            _ => To::Lines(Box::new(sink)),
        };
        if let To::Csv(writer) = &mut to {
            let header: &[&str] = if style.keys_only { &["key"] } else { &["key", "value"] };
            writer.write_record(header).map_err(|e| failure(path.as_deref(), csv_error(e)))?;
        }
        Ok(Records { style, to, path, is_first: true, unexpiring: 0 })
    }

    pub fn write(&mut self, entry: Entry<'_>) -> Result<()> {
        if self.style.is_exact {
            self.check(entry)?;
        }
        self.is_first = false;
        let Entry { key, value, expiry, .. } = entry;
        let shown = |bytes| match self.style.hex {
            true => Cow::Owned(hex(bytes).into_bytes()),
            false => Cow::Borrowed(bytes),
        };
        let shown_key = match self.style.hex && key.is_empty() {
            true => Cow::Borrowed(NO_DIGITS),
            false => shown(key),
        };
        let value = (!self.style.keys_only).then_some(value);
        let has_time = self.style.form == Form::Jsonl && !self.style.without_expiry;
        self.unexpiring += u64::from(!has_time && expiry.millis().is_some());
        let written = match &mut self.to {
            To::Csv(writer) => {
                let mut row = ByteRecord::new();
                row.push_field(&shown_key);
                value.iter().for_each(|value| row.push_field(&shown(value)));
                writer.write_byte_record(&row).map_err(csv_error)
            }
            To::Lines(sink) if self.style.form == Form::Jsonl => {
                let mut object = Map::new();
                for (name, bytes) in [("key", Some(key)), ("value", value)] {
                    match bytes {
                        Some(bytes) if self.style.hex => {
                            object.insert(format!("{name}_hex"), Json::from(hex(bytes)));
                        }
                        Some(bytes) => put_bytes(&mut object, name, bytes),
                        None => {}
                    }
                }
                let time = expiry.millis().filter(|_| has_time && value.is_some());
                if let Some(time) = time {
                    object.insert(EXPIRES_AT.to_string(), Json::from(time));
                }
                writeln!(sink, "{}", Json::Object(object))
            }
            To::Lines(sink) => {
                let separator = value.map_or(&b""[..], |_| &self.style.separator);
                let value = value.map_or(Cow::Borrowed(&b""[..]), shown);
                let parts = [&shown_key, separator, &value, b"\n"];
                parts.iter().try_for_each(|part| sink.write_all(part))
            }
        };
        written.map_err(|e| failure(self.path.as_deref(), e))
    }

    /// `InvalidArgument` if the form cannot hold this record.
    fn check(&self, Entry { key, value, expiry, .. }: Entry<'_>) -> Result<()> {
        let Style { form, separator, hex, without_expiry, .. } = &self.style;
        if *form == Form::Jsonl {
            return Ok(());
        }
        if expiry.millis().is_some() && !without_expiry {
            return Err(Error::invalid(format!(
                "the record of {} expires, which this form cannot say; use --format jsonl, or \
                 --without-expiry to write such records as if they stayed",
                shown_key(key)
            )));
        }
        let marked = self.is_first && key.starts_with(b"\xef\xbb\xbf");
        let what = match form {
            _ if *hex => return Ok(()),
            Form::Jsonl | Form::Auto => return Ok(()),
            _ if key.is_empty() => "an empty key",
            _ if value.ends_with(b"\r") => "a value that ends with a carriage return",
            Form::Csv => return Ok(()),
            Form::Text if key.contains(&b'\n') || value.contains(&b'\n') => "a newline",
            Form::Text if !ends_at(key, separator) => "a separator in its key",
            Form::Text if marked => "a key that begins like a byte order mark",
            Form::Text => return Ok(()),
        };
        Err(Error::invalid(format!(
            "the record of {} has {what}, which does not come back from this form; use --format \
             jsonl, or --hex",
            shown_key(key)
        )))
    }

    /// Must be called at the end. Returns how many records expire and were written as if they did
    /// not.
    pub fn finish(self) -> Result<u64> {
        let finished = match self.to {
            To::Lines(sink) => sink.finish(),
            To::Csv(writer) => match writer.into_inner() {
                Ok(sink) => sink.finish(),
                Err(e) => Err(e.into_error()),
            },
        };
        finished.map_err(|e| failure(self.path.as_deref(), e))?;
        Ok(self.unexpiring)
    }
}

/// Whether the first separator in the line of this key is the one behind it. It is not if the key
/// holds one, or ends like one begins.
fn ends_at(key: &[u8], separator: &[u8]) -> bool {
    let line = [key, separator].concat();
    let first = line.windows(separator.len()).position(|w| w == separator);
    first == Some(key.len())
}

fn failure(path: Option<&Path>, error: io::Error) -> Error {
    match path {
        None => stdout_error(error),
        Some(path) => Error::io("write", path, error),
    }
}

fn csv_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(e) => e,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_go_by_the_name() {
        let of = |name: &str| Form::Auto.of(Some(Path::new(name)));
        assert_eq!(
            (of("a/b.CSV.gz"), of("b.txt"), of("b.zst")),
            (Form::Csv, Form::Text, Form::Jsonl)
        );
        assert_eq!(
            (Form::Text.of(Some(Path::new("a.csv"))), Form::Auto.of(None)),
            (Form::Text, Form::Jsonl)
        );
    }

    #[test]
    fn the_separator_must_be_the_first() {
        assert!(ends_at(b"a", b"::") && ends_at(b"a:b", b"::") && ends_at(b"", b"\t"));
        assert!(!ends_at(b"a:", b"::") && !ends_at(b"a::b", b"::"));
    }
}
