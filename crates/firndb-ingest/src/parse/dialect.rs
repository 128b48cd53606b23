//! The dialect of text inputs: how CSV and TSV are written, the encoding, and the longest row.

use encoding_rs::Encoding;
use firndb::{Error, Result};

/// The default of [`Dialect::max_row`]: 256 MiB.
const MAX_ROW: usize = 256 << 20;

/// How text inputs are written. All options but [`Dialect::encoding`] and [`Dialect::max_row`]
/// concern CSV and TSV only.
///
/// ```
/// use firndb_ingest::{Dialect, RowOptions, Rows};
///
/// let dialect = Dialect::default().delimiter(b';').quote(b'\'').comment(b'#');
/// let text = &b"# prices\nid;name\n7;'a;b'\n"[..];
/// let mut rows = Rows::from_reader("a.csv", text, RowOptions::default().dialect(dialect));
/// let row = rows.next_row()?.unwrap().unwrap();
/// assert_eq!(row.get("name"), Some(&firndb_ingest::RawValue::Text("a;b".to_string())));
/// # Ok::<(), firndb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dialect {
    /// Separates columns; `None` is a comma in CSV and a tab in TSV.
    pub delimiter: Option<u8>,
    /// Encloses values; a quote within a value is doubled. `None`: quotes are data.
    pub quote: Option<u8>,
    /// Makes the quote, delimiter, newline or escape after it data. `None`: no byte does.
    pub escape: Option<u8>,
    /// Lines that begin with this byte are skipped.
    pub comment: Option<u8>,
    /// Whether the first row has the names of the columns. Otherwise they are `column1`,
    /// `column2`, and so on.
    pub header: bool,
    /// Number of lines before the header, or before the first row, that are skipped.
    pub skip_lines: u64,
    /// Rows with fewer values than there are columns.
    pub ragged: Ragged,
    /// Encoding of text, CSV, TSV and JSON lines, which are converted to UTF-8. `None` takes bytes
    /// as they are; CSV, TSV and JSON lines that begin with a byte order mark of UTF-16 are
    /// converted.
    pub encoding: Option<&'static Encoding>,
    /// Maximum number of bytes of a row of any format; a longer row ends the input with an error.
    pub max_row: usize,
}

/// What becomes of rows of CSV and TSV with fewer values than there are columns. Rows with more
/// values are bad rows, unless all values that have no column are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ragged {
    /// They are bad rows.
    #[default]
    Error,
    /// Their last columns have no value.
    Fill,
}

impl Default for Dialect {
    fn default() -> Dialect {
        Dialect {
            delimiter: None,
            quote: Some(b'"'),
            escape: None,
            comment: None,
            header: true,
            skip_lines: 0,
            ragged: Ragged::Error,
            encoding: None,
            max_row: MAX_ROW,
        }
    }
}

impl Dialect {
    /// Sets [`Dialect::delimiter`].
    pub fn delimiter(mut self, delimiter: impl Into<Option<u8>>) -> Self {
        self.delimiter = delimiter.into();
        self
    }

    /// Sets [`Dialect::quote`].
    pub fn quote(mut self, quote: impl Into<Option<u8>>) -> Self {
        self.quote = quote.into();
        self
    }

    /// Sets [`Dialect::escape`].
    pub fn escape(mut self, escape: impl Into<Option<u8>>) -> Self {
        self.escape = escape.into();
        self
    }

    /// Sets [`Dialect::comment`].
    pub fn comment(mut self, comment: impl Into<Option<u8>>) -> Self {
        self.comment = comment.into();
        self
    }

    /// Sets [`Dialect::header`].
    pub fn header(mut self, header: bool) -> Self {
        self.header = header;
        self
    }

    /// Sets [`Dialect::skip_lines`].
    pub fn skip_lines(mut self, lines: u64) -> Self {
        self.skip_lines = lines;
        self
    }

    /// Sets [`Dialect::ragged`].
    pub fn ragged(mut self, ragged: Ragged) -> Self {
        self.ragged = ragged;
        self
    }

    /// Sets [`Dialect::encoding`].
    pub fn encoding(mut self, encoding: impl Into<Option<&'static Encoding>>) -> Self {
        self.encoding = encoding.into();
        self
    }

    /// Sets [`Dialect::max_row`].
    pub fn max_row(mut self, bytes: usize) -> Self {
        self.max_row = bytes;
        self
    }

    /// `InvalidArgument` if two of the special characters are the same. `delimiter` is the one in
    /// use.
    pub(crate) fn check(&self, delimiter: u8) -> Result<()> {
        let chars = [
            ("delimiter", Some(delimiter)),
            ("quote", self.quote),
            ("escape", self.escape),
            ("comment", self.comment),
        ];
        for (n, (one, char)) in chars.iter().enumerate().filter(|(_, (_, char))| char.is_some()) {
            if let Some((other, _)) = chars[..n].iter().find(|(_, other)| other == char) {
                let shown = char.unwrap_or_default().escape_ascii();
                let message = format!("`{shown}` is both the {other} and the {one} of CSV");
                return Err(Error::invalid(message));
            }
        }
        Ok(())
    }

    /// Whether an option says that the input is CSV or TSV.
    pub fn is_delimited(&self) -> bool {
        let Dialect { encoding, max_row, .. } = *self;
        *self != Dialect { encoding, max_row, ..Dialect::default() }
    }

    /// The first row and what follows in the first bytes of an input, as far as they are there.
    pub(crate) fn first_row<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        let mut rest = head;
        let is_comment = |rest: &[u8]| self.comment.is_some_and(|byte| rest.starts_with(&[byte]));
        let mut skipped = 0;
        while skipped < self.skip_lines || is_comment(rest) {
            let Some(newline) = memchr::memchr(b'\n', rest) else { return &[] };
            rest = &rest[newline + 1..];
            skipped += 1;
        }
        rest
    }

    /// The error for a row that is longer than [`Dialect::max_row`].
    pub(crate) fn too_long(&self, position: &str, hint: &str) -> Error {
        let bytes = self.max_row;
        let limit = match bytes {
            _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => {
                format!("{} MiB", bytes >> 20)
            }
            _ => format!("{bytes} bytes"),
        };
        Error::invalid(format!(
            "{position}: the row is longer than {limit}, which --max-row sets{hint}"
        ))
    }
}

/// Parses the name of a delimiter, an escape or a comment character: an ASCII character, `\t` or
/// `tab`.
///
/// # Errors
///
/// The reason, for anything else, and for quotes and line ends.
pub fn parse_delimiter(text: &str) -> std::result::Result<u8, String> {
    parse_char(text).filter(|byte| *byte != b'"').ok_or_else(|| wrong("a delimiter", ""))
}

/// Parses the name of a character with a special meaning in CSV: an ASCII character, `\t` or `tab`.
///
/// # Errors
///
/// The reason, for anything else, and for line ends.
pub fn parse_special(text: &str) -> std::result::Result<u8, String> {
    parse_char(text).ok_or_else(|| wrong("this", ""))
}

/// Parses the name of a quote: an ASCII character, or `none`.
///
/// # Errors
///
/// The reason, for anything else, and for line ends.
pub fn parse_quote(text: &str) -> std::result::Result<Option<u8>, String> {
    match text {
        "none" => Ok(None),
        text => parse_char(text).map(Some).ok_or_else(|| wrong("a quote", ", or none")),
    }
}

/// Parses the name of an encoding on the web, such as `latin1`, `utf-16le` or `gbk`.
///
/// # Errors
///
/// The reason, for anything else.
pub fn parse_encoding(name: &str) -> std::result::Result<&'static Encoding, String> {
    Encoding::for_label(name.as_bytes())
        .filter(|encoding| *encoding != encoding_rs::REPLACEMENT)
        .ok_or_else(|| format!("`{name}` is not the name of an encoding; try utf-8 or latin1"))
}

fn parse_char(text: &str) -> Option<u8> {
    match text.as_bytes() {
        b"\\t" | b"tab" => Some(b'\t'),
        [byte] if byte.is_ascii() && !b"\r\n".contains(byte) => Some(*byte),
        _ => None,
    }
}

fn wrong(what: &str, or: &str) -> String {
    format!("{what} is one ASCII character, or \\t{or}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_parsed() {
        assert_eq!((parse_delimiter("\\t"), parse_delimiter("tab")), (Ok(b'\t'), Ok(b'\t')));
        assert!(["", ";;", "\"", "\u{e9}", "\n"].iter().all(|text| parse_delimiter(text).is_err()));
        assert_eq!((parse_quote("none"), parse_quote("'")), (Ok(None), Ok(Some(b'\''))));
        assert_eq!((parse_special("\\"), parse_special("\"")), (Ok(b'\\'), Ok(b'"')));
        assert!(parse_special("\\n").is_err() && parse_quote("").is_err());
        assert_eq!(parse_encoding("UTF-16").unwrap(), encoding_rs::UTF_16LE);
        assert!(parse_encoding("klingon").is_err() && parse_encoding("iso-2022-kr").is_err());
    }

    #[test]
    fn special_characters_differ() {
        let dialect = Dialect::default().escape(b'\\').comment(b'#');
        assert!(dialect.check(b',').is_ok());
        let same = dialect.comment(b'\\').check(b',').unwrap_err().to_string();
        assert!(same.contains("`\\\\` is both the escape and the comment of CSV"), "{same}");
        assert!(Dialect::default().quote(b';').check(b';').is_err());
        assert!(Dialect::default().quote(None).check(b'"').is_ok());
    }
}
