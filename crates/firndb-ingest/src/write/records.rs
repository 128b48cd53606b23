//! Keys and values as text, CSV, TSV or JSON lines.

use crate::records::EXPIRES_AT;
use crate::value::{put_bytes, shown_key};
use crate::write::delimited::CsvWriter;
use firndb::log::Entry;
use firndb::{Error, Result};
use serde_json::{Map, Value as Json};
use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The format of written records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFormat {
    /// Key, separator, value and a newline.
    Text,
    /// The header `key,value`, then a row per record.
    Csv,
    /// The same with tabs.
    Tsv,
    /// A JSON object per line. `key_hex` and `value_hex` are bytes that are not text, and
    /// `expires_at` is the time of expiry in milliseconds since 1970.
    #[default]
    JsonLines,
}

impl RecordFormat {
    /// The format by the name of a file; JSON lines if the name does not decide.
    pub fn of_path(path: &Path) -> RecordFormat {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_ascii_lowercase();
        let plain = [".gz", ".zst", ".zstd"].iter().find_map(|s| name.strip_suffix(s));
        match plain.unwrap_or(&name).rsplit_once('.') {
            Some((_, "csv")) => RecordFormat::Csv,
            Some((_, "tsv" | "tab")) => RecordFormat::Tsv,
            Some((_, "txt" | "text")) => RecordFormat::Text,
            _ => RecordFormat::JsonLines,
        }
    }
}

/// Options of a [`RecordWriter`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordWriterOptions {
    /// The format.
    pub format: RecordFormat,
    /// Separates key and value in text.
    pub separator: Vec<u8>,
    /// Writes all bytes as hexadecimal digits.
    pub hex: bool,
    /// Refuses records that a [`RecordReader`](crate::RecordReader) would not read back exactly.
    pub exact: bool,
    /// Omits values.
    pub keys_only: bool,
    /// Omits expiry times.
    pub without_expiry: bool,
}

impl Default for RecordWriterOptions {
    fn default() -> RecordWriterOptions {
        RecordWriterOptions {
            format: RecordFormat::default(),
            separator: b"\t".to_vec(),
            hex: false,
            exact: true,
            keys_only: false,
            without_expiry: false,
        }
    }
}

impl RecordWriterOptions {
    /// Sets [`RecordWriterOptions::format`].
    pub fn format(mut self, format: RecordFormat) -> Self {
        self.format = format;
        self
    }

    /// Sets [`RecordWriterOptions::separator`].
    pub fn separator(mut self, separator: impl Into<Vec<u8>>) -> Self {
        self.separator = separator.into();
        self
    }

    /// Sets [`RecordWriterOptions::hex`].
    pub fn hex(mut self, hex: bool) -> Self {
        self.hex = hex;
        self
    }

    /// Sets [`RecordWriterOptions::exact`].
    pub fn exact(mut self, exact: bool) -> Self {
        self.exact = exact;
        self
    }

    /// Sets [`RecordWriterOptions::keys_only`].
    pub fn keys_only(mut self, keys_only: bool) -> Self {
        self.keys_only = keys_only;
        self
    }

    /// Sets [`RecordWriterOptions::without_expiry`].
    pub fn without_expiry(mut self, without_expiry: bool) -> Self {
        self.without_expiry = without_expiry;
        self
    }
}

/// The empty key in hexadecimal digits. An empty text would be a missing key.
pub const NO_DIGITS: &[u8] = b"0x";

/// Writes records as text, CSV, TSV or JSON lines, which a [`RecordReader`](crate::RecordReader)
/// reads.
pub struct RecordWriter<W: Write> {
    options: RecordWriterOptions,
    to: To<W>,
    /// Name of the output in messages.
    name: PathBuf,
    is_first: bool,
    /// Records that expire and were written without their time of expiry.
    unexpiring: u64,
}

enum To<W: Write> {
    Lines(W),
    Csv(CsvWriter<W>),
}

impl<W: Write> RecordWriter<W> {
    /// A writer to `out`. Writes the header of CSV and TSV. `name` is used in messages.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn new(
        out: W,
        name: impl Into<PathBuf>,
        options: RecordWriterOptions,
    ) -> Result<RecordWriter<W>> {
        let name = name.into();
        let to = match options.format {
            RecordFormat::Csv | RecordFormat::Tsv => {
                let is_csv = options.format == RecordFormat::Csv;
                let delimiter = if is_csv { b',' } else { b'\t' };
                let mut writer = CsvWriter::new(out, name.clone(), delimiter);
                let header: &[&str] = if options.keys_only { &["key"] } else { &["key", "value"] };
                writer.header(header)?;
                To::Csv(writer)
            }
            _ => To::Lines(out),
        };
        Ok(RecordWriter { options, to, name, is_first: true, unexpiring: 0 })
    }

    /// Writes a record.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a record that the format cannot express, with
    /// [`RecordWriterOptions::exact`]; `Io`.
    pub fn write(&mut self, entry: Entry<'_>) -> Result<()> {
        if self.options.exact {
            self.check(entry)?;
        }
        self.is_first = false;
        let Entry { key, value, expiry, .. } = entry;
        let shown = |bytes| match self.options.hex {
            true => Cow::Owned(hex::encode(bytes).into_bytes()),
            false => Cow::Borrowed(bytes),
        };
        let shown_key = match self.options.hex && key.is_empty() {
            true => Cow::Borrowed(NO_DIGITS),
            false => shown(key),
        };
        let value = (!self.options.keys_only).then_some(value);
        let has_time =
            self.options.format == RecordFormat::JsonLines && !self.options.without_expiry;
        self.unexpiring += u64::from(!has_time && expiry.millis().is_some());
        let written = match &mut self.to {
            To::Csv(writer) => {
                // No value is missing, so an empty one needs no quotes.
                let value = value.map(|value| Some(shown(value)).filter(|text| !text.is_empty()));
                return writer.row(std::iter::once(Some(shown_key)).chain(value));
            }
            To::Lines(out) if self.options.format == RecordFormat::JsonLines => {
                let mut object = Map::new();
                for (name, bytes) in [("key", Some(key)), ("value", value)] {
                    match bytes {
                        Some(bytes) if self.options.hex => {
                            object.insert(format!("{name}_hex"), Json::from(hex::encode(bytes)));
                        }
                        Some(bytes) => put_bytes(&mut object, name, bytes),
                        None => {}
                    }
                }
                let time = expiry.millis().filter(|_| has_time && value.is_some());
                if let Some(time) = time {
                    object.insert(EXPIRES_AT.to_string(), Json::from(time));
                }
                writeln!(out, "{}", Json::Object(object))
            }
            To::Lines(out) => {
                let separator = value.map_or(&b""[..], |_| &self.options.separator);
                let value = value.map_or(Cow::Borrowed(&b""[..]), shown);
                let parts = [&shown_key, separator, &value, b"\n"];
                parts.iter().try_for_each(|part| out.write_all(part))
            }
        };
        written.map_err(|e| Error::io("write", &self.name, e))
    }

    /// `InvalidArgument` if the format cannot express the record.
    fn check(&self, Entry { key, value, expiry, .. }: Entry<'_>) -> Result<()> {
        let RecordWriterOptions { format, separator, hex, without_expiry, .. } = &self.options;
        if *format == RecordFormat::JsonLines {
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
        let what = match format {
            _ if *hex => return Ok(()),
            RecordFormat::JsonLines => return Ok(()),
            _ if key.is_empty() => "an empty key",
            _ if value.ends_with(b"\r") => "a value that ends with a carriage return",
            RecordFormat::Csv | RecordFormat::Tsv => return Ok(()),
            RecordFormat::Text if key.contains(&b'\n') || value.contains(&b'\n') => "a newline",
            RecordFormat::Text if !ends_at(key, separator) => "a separator in its key",
            RecordFormat::Text if marked => "a key that begins like a byte order mark",
            RecordFormat::Text => return Ok(()),
        };
        Err(Error::invalid(format!(
            "the record of {} has {what}, which does not come back from this form; use --format \
             jsonl, or --hex",
            shown_key(key)
        )))
    }

    /// Writes buffered records. Returns the output, and the number of records that expire and were
    /// written without their time of expiry.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn finish(self) -> Result<(W, u64)> {
        let fail = |e| Error::io("write", &self.name, e);
        let out = match self.to {
            To::Lines(mut out) => out.flush().map_err(fail).map(|()| out)?,
            To::Csv(writer) => writer.finish()?,
        };
        Ok((out, self.unexpiring))
    }
}

impl<W: Write> fmt::Debug for RecordWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordWriter").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Whether the first separator in the line of the key is the one after it. It is not if the key
/// contains a separator, or ends with the beginning of one.
fn ends_at(key: &[u8], separator: &[u8]) -> bool {
    let line = [key, separator].concat();
    memchr::memmem::find(&line, separator) == Some(key.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_detected_by_name() {
        let of = |name: &str| RecordFormat::of_path(Path::new(name));
        assert_eq!(
            (of("a/b.CSV.gz"), of("b.txt"), of("b.zst")),
            (RecordFormat::Csv, RecordFormat::Text, RecordFormat::JsonLines)
        );
    }

    #[test]
    fn the_first_separator_must_be_the_one_after_the_key() {
        assert!(ends_at(b"a", b"::") && ends_at(b"a:b", b"::") && ends_at(b"", b"\t"));
        assert!(!ends_at(b"a:", b"::") && !ends_at(b"a::b", b"::"));
    }
}
