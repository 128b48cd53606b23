//! Separated text: a record per line. The key ends before the first separator, the value is the
//! rest of the line.
//!
//! Bytes are taken as they are, unless the dialect has an encoding. Then they are converted to
//! UTF-8, and a line that is not valid in the encoding is a bad row.

use crate::input::read_error;
use crate::parse::dialect::Dialect;
use crate::parse::text_input::TextInput;
use crate::records::ReadRecords;
use crate::records::batch::{KeyValueBatch, origin};
use crate::records::layout::Layout;
use crate::records::options::RecordOptions;
use firndb::{Error, Result};
use std::io::{BufRead, Read};

/// Reads the lines of one input.
pub(crate) struct TextRecords {
    lines: TextInput,
    input: usize,
    name: String,
    separator: Vec<u8>,
    dialect: Dialect,
    row_number: bool,
    /// Number of the current line, from 1, and its bytes.
    line: u64,
    buffer: Vec<u8>,
}

impl TextRecords {
    pub(crate) fn new(
        lines: TextInput,
        (input, name): (usize, String),
        options: &RecordOptions,
    ) -> TextRecords {
        TextRecords {
            lines,
            input,
            name,
            separator: options.separator.clone(),
            dialect: options.dialect.clone(),
            row_number: options.row_number,
            line: 0,
            buffer: Vec::new(),
        }
    }

    /// Reads the next line with its line end; false at the end of the input.
    fn next_line(&mut self) -> Result<bool> {
        self.buffer.clear();
        self.line += 1;
        let limit = (self.dialect.max_row as u64).saturating_add(1);
        let read = self.lines.by_ref().take(limit).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|e| read_error(&self.name, e))?;
        if read as u64 == limit {
            let position = format!("{}:{}", self.name, self.line);
            return Err(self.dialect.too_long(&position, "; this may not be separated text"));
        }
        Ok(read > 0)
    }
}

impl ReadRecords for TextRecords {
    fn infer_layout(&mut self, _: &RecordOptions) -> Result<Option<Layout>> {
        Ok(Some(Layout::default()))
    }

    fn set_layout(&mut self, layout: &Layout, options: &RecordOptions) -> Result<()> {
        let columns = !options.keys.is_empty() || !options.values.is_empty() || options.record;
        if columns || layout.types.is_some() {
            let name = &self.name;
            let message =
                format!("{name}: separated text has no columns; say what it is: --format");
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    fn fill(&mut self, batch: &mut KeyValueBatch) -> Result<bool> {
        while !batch.is_full() {
            if !self.next_line()? {
                return Ok(false);
            }
            let (line, number) = (self.line, batch.rows() + 1);
            let mut bad =
                |reason: String| batch.push_bad(format!("{}:{line}: {reason}", self.name));
            if let Some(name) = self.lines.malformed() {
                bad(format!("the line is not valid {name}"));
                continue;
            }
            let (text, ended) = match self.buffer.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (&self.buffer[..], false),
            };
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if line == 1 && !ended && text.contains(&b'\r') {
                return Err(Error::invalid(format!(
                    "{}: the only line holds a carriage return; if lines end in it alone, as on \
                     old Macs, convert them first, for example with tr '\\r' '\\n'",
                    self.name
                )));
            }
            if self.row_number {
                batch.push(origin(self.input, line), number.to_string().as_bytes(), text);
                continue;
            }
            match find(text, &self.separator) {
                Some(0) => bad(format!(
                    "the line begins with the separator `{}`, so it has no key",
                    self.separator.escape_ascii()
                )),
                Some(at) => {
                    let value = &text[at + self.separator.len()..];
                    batch.push(origin(self.input, line), &text[..at], value);
                }
                None if text.is_empty() => {}
                None => bad(format!(
                    "there is no separator `{}` in the line; name another with -s",
                    self.separator.escape_ascii()
                )),
            }
        }
        Ok(true)
    }
}

/// The offset of `separator` in `text`.
fn find(text: &[u8], separator: &[u8]) -> Option<usize> {
    match separator {
        [byte] => memchr::memchr(*byte, text),
        separator => memchr::memmem::find(text, separator),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};

    fn read(
        bytes: Vec<u8>,
        separator: &str,
        encoding: Option<&'static Encoding>,
    ) -> (Vec<String>, Vec<String>) {
        let reader = Box::new(std::io::Cursor::new(bytes));
        let dialect = Dialect::default().encoding(encoding);
        let options = RecordOptions::default().separator(separator).dialect(dialect);
        let input = TextInput::new(reader, "a", &options.dialect, true).unwrap();
        let mut text = TextRecords::new(input, (0, "a".to_string()), &options);
        let mut batch = KeyValueBatch::default();
        while text.fill(&mut batch).unwrap() {}
        let show = |(origin, key, value): (u64, &[u8], &[u8])| {
            format!("{origin} {} {}", key.escape_ascii(), value.escape_ascii())
        };
        (batch.iter().map(show).collect(), batch.bad_rows().to_vec())
    }

    #[test]
    fn the_first_separator_ends_the_key() {
        let (records, bad) = read(b"\xef\xbb\xbfa b c\r\n\nd \n e\nf\ng h".to_vec(), " ", None);
        assert_eq!(records, ["1 a b c", "3 d ", "6 g h"]);
        assert_eq!(
            bad,
            [
                "a:4: the line begins with the separator ` `, so it has no key",
                "a:5: there is no separator ` ` in the line; name another with -s"
            ]
        );
        let (records, bad) = read(b"a::b:c\xff\n:::\n".to_vec(), "::", None);
        assert_eq!((records, bad.len()), (vec!["1 a b:c\\xff".to_string()], 1));
    }

    #[test]
    fn lines_are_converted_from_their_encoding() {
        let latin = Encoding::for_label(b"latin1");
        assert_eq!(read(b"a \xe9\n".to_vec(), " ", latin).0, ["1 a \\xc3\\xa9"]);
        let (records, bad) =
            read(b"a b\nc \xff\nd e\n".to_vec(), " ", Encoding::for_label(b"utf-8"));
        assert_eq!(
            (records.len(), &bad[..]),
            (2, &["a:2: the line is not valid UTF-8".into()][..])
        );
        // U+0A0A and U+010A contain the byte of a newline.
        for (encoding, big) in [(UTF_16LE, false), (UTF_16BE, true)] {
            let text = "\u{feff}a \u{a0a}\u{10a}\r\nb \u{1f600}\n\nc d";
            let units = text.encode_utf16();
            let bytes = units.flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() });
            let (records, bad) = read(bytes.collect(), " ", Some(encoding));
            assert_eq!(records.len(), 3, "{bad:?}");
            assert_eq!(records[0], format!("1 a {}", "\u{a0a}\u{10a}".as_bytes().escape_ascii()));
            assert_eq!(
                (records[1].as_str(), records[2].as_str()),
                ("2 b \\xf0\\x9f\\x98\\x80", "4 c d")
            );
        }
    }
}
