//! Separated text: a record per line. The key ends before the first separator, the value is the
//! rest of the line.
//!
//! Bytes are taken as they are, unless the options have an encoding. Then each line is converted to
//! UTF-8, and a line that is not valid in the encoding is a bad row.

use crate::records::ReadRecords;
use crate::records::batch::{KeyValueBatch, origin};
use crate::records::layout::Layout;
use crate::records::options::RecordOptions;
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use firndb::{Error, Result};
use std::borrow::Cow;
use std::io::{BufRead, Read};
use std::path::Path;

/// Maximum bytes of a line. An input with a longer one is not text.
const MAX_LINE: u64 = 1 << 30;

/// Reads the lines of one input.
pub(crate) struct TextRecords {
    lines: Lines,
    input: usize,
    name: String,
    separator: Vec<u8>,
    encoding: Option<&'static Encoding>,
}

impl TextRecords {
    pub(crate) fn new(
        reader: Box<dyn BufRead + Send>,
        (input, name): (usize, String),
        options: &RecordOptions,
    ) -> TextRecords {
        let (encoding, separator) = (options.encoding, options.separator.clone());
        let wide = match encoding {
            Some(e) if e == UTF_16LE => Wide::Little,
            Some(e) if e == UTF_16BE => Wide::Big,
            _ => Wide::No,
        };
        let lines = Lines { reader, wide, line: 0, buffer: Vec::new() };
        TextRecords { lines, input, name, separator, encoding }
    }
}

impl ReadRecords for TextRecords {
    fn infer_layout(&mut self, _: &RecordOptions) -> Result<Option<Layout>> {
        Ok(Some(Layout::default()))
    }

    fn set_layout(&mut self, layout: &Layout, options: &RecordOptions) -> Result<()> {
        let columns = options.key.is_some() || !options.values.is_empty() || options.record;
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
            let more = self.lines.next().map_err(|e| Error::io("read", Path::new(&self.name), e));
            if !more? {
                return Ok(false);
            }
            let line = self.lines.line;
            let mut bad =
                |reason: String| batch.push_bad(format!("{}:{line}: {reason}", self.name));
            if self.lines.buffer.len() as u64 >= MAX_LINE {
                return Err(Error::invalid(format!(
                    "{}:{line}: the line is longer than 1 GiB; this is not separated text",
                    self.name
                )));
            }
            let Some(text) = decode(self.encoding, &self.lines.buffer, line == 1) else {
                let name = self.encoding.map_or("", |encoding| encoding.name());
                bad(format!("the line is not valid {name}"));
                continue;
            };
            let (text, ended) = match text.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (&text[..], false),
            };
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if line == 1 && !ended && text.contains(&b'\r') {
                return Err(Error::invalid(format!(
                    "{}: the only line holds a carriage return; if lines end in it alone, as on \
                     old Macs, convert them first, for example with tr '\\r' '\\n'",
                    self.name
                )));
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

/// Bytes as UTF-8; `None` if they are not valid in the encoding. A byte order mark is removed if
/// the bytes are the first of the input (`first`).
pub(crate) fn decode<'a>(
    encoding: Option<&'static Encoding>,
    bytes: &'a [u8],
    first: bool,
) -> Option<Cow<'a, [u8]>> {
    let Some(encoding) = encoding else {
        let mark = first && bytes.starts_with(b"\xef\xbb\xbf");
        return Some(Cow::Borrowed(if mark { &bytes[3..] } else { bytes }));
    };
    let mark = Encoding::for_bom(bytes).filter(|(found, _)| first && *found == encoding);
    let bytes = &bytes[mark.map_or(0, |(_, length)| length)..];
    let text = encoding.decode_without_bom_handling_and_without_replacement(bytes)?;
    Some(match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    })
}

/// Whether code units have two bytes, and their order.
#[derive(Clone, Copy, PartialEq)]
enum Wide {
    No,
    Little,
    Big,
}

struct Lines {
    reader: Box<dyn BufRead + Send>,
    wide: Wide,
    /// Number of the current line, from 1.
    line: u64,
    buffer: Vec<u8>,
}

impl Lines {
    /// Reads the next line into the buffer, with its line end. False at the end of the input.
    fn next(&mut self) -> std::io::Result<bool> {
        self.buffer.clear();
        self.line += 1;
        loop {
            let mut limited = self.reader.by_ref().take(MAX_LINE);
            let read = limited.read_until(b'\n', &mut self.buffer)?;
            if self.wide == Wide::Little && self.buffer.last() == Some(&b'\n') {
                self.reader.by_ref().take(1).read_to_end(&mut self.buffer)?;
            }
            let end = match self.wide {
                Wide::No => true,
                Wide::Little => {
                    self.buffer.ends_with(b"\n\0") && self.buffer.len().is_multiple_of(2)
                }
                Wide::Big => self.buffer.ends_with(b"\0\n") && self.buffer.len().is_multiple_of(2),
            };
            if end || read == 0 || self.buffer.len() as u64 >= MAX_LINE {
                return Ok(!self.buffer.is_empty());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        bytes: Vec<u8>,
        separator: &str,
        encoding: Option<&'static Encoding>,
    ) -> (Vec<String>, Vec<String>) {
        let reader = Box::new(std::io::Cursor::new(bytes));
        let options = RecordOptions::default().separator(separator).encoding(encoding);
        let mut text = TextRecords::new(reader, (0, "a".to_string()), &options);
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
