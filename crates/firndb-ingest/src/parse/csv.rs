//! CSV and TSV: a header line, then a row per record (quotes as in RFC 4180).

use crate::row::{BadRow, Numbered, Position, RawValue, ReadRows, Row, RowResult};
use csv::{ByteRecord, ReaderBuilder};
use firndb::{Error, Result};
use std::io::{BufRead, Read};
use std::sync::Arc;

/// Appended to every input, as a record of one field without a delimiter that no text contains. If
/// the last record is not this one, an unclosed quote contains it.
const END: &[u8] = b"\n\xff\xfe\xfd\xfc\xfb\xff\n";

const CARRIAGE_RETURN: &str = "holds a carriage return; if lines end in it alone, as on old Macs, \
                               convert them first, for example with tr '\\r' '\\n'";

/// An input that keeps the bytes of its last read and two before them. Whether a carriage return is
/// data depends on quotes and line endings, which the parser does not report.
struct RecentBytes {
    input: Box<dyn BufRead + Send>,
    /// Offset of `bytes` in the input.
    start: u64,
    bytes: Vec<u8>,
}

impl RecentBytes {
    fn byte(&self, offset: u64) -> Option<u8> {
        let i = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(i).copied()
    }
}

impl Read for RecentBytes {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        let passed = self.bytes.len().saturating_sub(2);
        self.bytes.drain(..passed);
        self.start += passed as u64;
        self.bytes.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

/// Reads the records of one input.
pub(crate) struct CsvRows {
    reader: csv::Reader<RecentBytes>,
    file: Arc<str>,
    columns: Arc<[Arc<str>]>,
    record: ByteRecord,
}

impl CsvRows {
    /// Reads the header. The delimiter is `chosen`, else the one of the format (`default`).
    ///
    /// `InvalidArgument` if a column has no name, two have the same, or the only name contains
    /// another delimiter.
    pub(crate) fn new(
        input: Box<dyn BufRead + Send>,
        file: Arc<str>,
        default: u8,
        chosen: Option<u8>,
    ) -> Result<CsvRows> {
        let mut reader = ReaderBuilder::new()
            .delimiter(chosen.unwrap_or(default))
            .flexible(true)
            // The default terminator leaves the second byte of CRLF unread, which breaks the line
            // numbers.
            .terminator(csv::Terminator::Any(b'\n'))
            .buffer_capacity(1 << 17)
            .from_reader(RecentBytes {
                input: Box::new(input.chain(END)),
                start: 0,
                bytes: Vec::new(),
            });
        let mut header = reader.byte_headers().map_err(|e| read_error(&file, e))?.clone();
        if is_end(&header) {
            header.clear();
        }
        check_quotes(&header, &file, 1)?;
        let mut columns: Vec<Arc<str>> = Vec::with_capacity(header.len());
        for (i, name) in header.iter().enumerate() {
            let wrong = |what: &str| {
                Error::invalid(format!("{file}:1: column {} of the header {what}", i + 1))
            };
            let name = std::str::from_utf8(name).map_err(|_| wrong("is not valid UTF-8"))?.trim();
            if name.replace("\r\n", "").contains('\r') {
                return Err(wrong(CARRIAGE_RETURN));
            }
            if name.is_empty() {
                return Err(wrong("has no name; name it"));
            }
            if columns.iter().any(|column| &**column == name) {
                return Err(wrong(&format!("repeats the name `{name}`; rename one of the two")));
            }
            columns.push(name.into());
        }
        if let ([column], None) = (&columns[..], chosen)
            && let Some(other) = column.chars().find(|c| ";|\t,".contains(*c))
        {
            return Err(Error::invalid(format!(
                "{file}:1: the header has one column, `{column}`; if `{0}` divides columns, say \
                 --delimiter '{0}'",
                other.escape_default()
            )));
        }
        Ok(CsvRows { reader, file, columns: columns.into(), record: ByteRecord::new() })
    }
}

/// Parses the name of a delimiter: an ASCII character, `\t` or `tab`.
///
/// # Errors
///
/// The reason, for anything else, and for quotes and line ends.
pub fn parse_delimiter(text: &str) -> std::result::Result<u8, String> {
    match text.as_bytes() {
        b"\\t" | b"tab" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err("a delimiter is one ASCII character, or \\t".to_string()),
    }
}

impl CsvRows {
    /// The line on which the current record starts. The parser's position is that of the blank lines
    /// before it.
    fn line(&self) -> u64 {
        let newlines = self.record.as_slice().iter().filter(|b| **b == b'\n').count() as u64;
        let last = self.reader.position().line().saturating_sub(1);
        let start = self.record.position().map_or(0, |position| position.line());
        start.max(last.saturating_sub(newlines))
    }

    /// The byte `back` bytes before the end of what was parsed. Byte 1 is the newline.
    fn raw_end(&self, back: u64) -> Option<u8> {
        self.reader.get_ref().byte(self.reader.position().byte().checked_sub(back)?)
    }

    /// Names of the columns.
    pub(crate) fn columns(&self) -> &[Arc<str>] {
        &self.columns
    }

    /// The next record with the line that it starts on, or the reason why it cannot be used; `None`
    /// at the end.
    pub(crate) fn next_record(&mut self) -> Result<Option<Numbered<&ByteRecord>>> {
        loop {
            let more = self.reader.read_byte_record(&mut self.record);
            if !more.map_err(|e| read_error(&self.file, e))? {
                return Ok(None);
            }
            if is_end(&self.record) {
                return Ok(None);
            }
            // A line with a carriage return alone is blank, unless the carriage return is quoted.
            let blank = self.record.as_slice() == b"\r" && self.raw_end(2) == Some(b'\r');
            if self.record.len() > 1 || !blank || self.raw_end(3) == Some(b'"') {
                break;
            }
        }
        let line = self.line();
        check_quotes(&self.record, &self.file, line)?;
        if self.record.len() != self.columns.len() {
            let reason = format!(
                "the row has {} values where the header names {}; check its quotes and separators",
                self.record.len(),
                self.columns.len()
            );
            return Ok(Some((line, Err(reason))));
        }
        if self.record.as_slice().ends_with(b"\r") && self.raw_end(2) == Some(b'\r') {
            let last = self.record.len() - 1;
            let end = self.record[last].len().saturating_sub(1);
            let cell = self.record[last][..end].to_vec();
            self.record.truncate(last);
            self.record.push_field(&cell);
        }
        Ok(Some((line, Ok(&self.record))))
    }
}

impl ReadRows for CsvRows {
    fn next_row(&mut self) -> Result<Option<RowResult>> {
        let (file, columns) = (self.file.clone(), self.columns.clone());
        let Some((line, record)) = self.next_record()? else { return Ok(None) };
        let position = Position { file, line };
        let record = match record {
            Ok(record) => record,
            Err(reason) => return Ok(Some(Err(BadRow::whole(position, reason)))),
        };
        let mut cells = Vec::with_capacity(columns.len());
        for (column, cell) in columns.iter().zip(record) {
            let Ok(text) = std::str::from_utf8(cell) else {
                let column = Some(column.to_string());
                let reason = "the value is not valid UTF-8; convert the file to UTF-8".to_string();
                return Ok(Some(Err(BadRow { position, column, reason })));
            };
            cells.push((column.clone(), RawValue::Text(text.to_string())));
        }
        Ok(Some(Ok(Row { position, cells, json: None })))
    }
}

fn is_end(record: &ByteRecord) -> bool {
    record.len() == 1 && record[0] == *END.trim_ascii()
}

/// `InvalidArgument` if a quote in this record is not closed, so that the record contains all rows
/// after it.
fn check_quotes(record: &ByteRecord, file: &str, line: u64) -> Result<()> {
    if !record.as_slice().ends_with(END) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{file}:{line}: a quote in this row is not closed before the end of the file; close it, or \
         write \"\" for a quote inside a quoted value"
    )))
}

fn read_error(file: &str, error: csv::Error) -> Error {
    let text = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(e) => Error::io("read", file.as_ref(), e),
        _ => Error::invalid(format!("{file}: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &'static [u8]) -> Vec<RowResult> {
        let mut rows = CsvRows::new(Box::new(text), "a.csv".into(), b',', None).unwrap();
        std::iter::from_fn(|| rows.next_row().unwrap()).collect()
    }

    #[test]
    fn records_have_the_numbers_of_their_first_lines() {
        let rows = rows(b"\xef\xbb\xbfa,b\r\n1,\"x\ny\"\r\n\n\r\n2,z\r\n3\n4,\xff\n");
        let first = rows[0].as_ref().unwrap();
        assert_eq!((first.position.line, &*first.cells[0].0), (2, "a"));
        assert_eq!(first.cells[1].1, RawValue::Text("x\ny".into()));
        assert_eq!(rows[1].as_ref().unwrap().cells[1].1, RawValue::Text("z".into()));
        assert_eq!(rows[1].as_ref().unwrap().position.line, 6);
        let short = rows[2].as_ref().unwrap_err().to_string();
        assert!(
            short.starts_with("a.csv:7: the row has 1 values where the header names 2"),
            "{short}"
        );
        let bytes = rows[3].as_ref().unwrap_err().to_string();
        assert!(bytes.starts_with("a.csv:8: column `b`: the value is not valid UTF-8"), "{bytes}");
    }

    #[test]
    fn a_carriage_return_in_quotes_is_data() {
        let last = |input: &'static [u8]| -> Vec<String> {
            let text = |row: RowResult| match row.unwrap().cells.pop() {
                Some((_, RawValue::Text(text))) => text,
                other => panic!("{other:?}"),
            };
            rows(input).into_iter().map(text).collect()
        };
        assert_eq!(last(b"a,b\n1,\"x\r\"\n2,y\r\n3,\"z\"\r\n"), ["x\r", "y", "z"]);
        assert_eq!(last(b"a,b\n1,\"x\r\"\r\n\"2\",\"y\r\""), ["x\r", "y\r"]);
        assert_eq!(last(b"a\n\"\r\"\n\r\n\"\"\r\n\"\"\nx\r\n"), ["\r", "", "", "x"]);
        // The newline arrives in a later read than the rest of its line.
        let mut reader = RecentBytes { input: Box::new(&b"ab"[..]), start: 0, bytes: Vec::new() };
        for read in [1, 1, 0] {
            assert_eq!(reader.read(&mut [0]).unwrap(), read);
        }
        assert_eq!(
            (reader.byte(0), reader.byte(1), reader.byte(2)),
            (Some(b'a'), Some(b'b'), None)
        );
    }

    #[test]
    fn lines_that_end_in_carriage_returns_alone_are_refused() {
        for text in ["a,b\r1,2\r3,4\r", "a\r1\r", "a,b\r1,2\n"] {
            let rows = CsvRows::new(Box::new(text.as_bytes()), "a.csv".into(), b',', None);
            let error = rows.err().unwrap().to_string();
            assert!(error.contains("holds a carriage return"), "{error}");
        }
        assert_eq!(rows(b"a,\"b\r\nc\"\r\n1,2\r\n").len(), 1);
    }

    #[test]
    fn an_unclosed_quote_is_an_error() {
        for (text, line) in [("a,b\n1,2\n3,\"x\n4,5\n", 3), ("a,b\n1,2\n3,\"x", 3)] {
            let mut rows =
                CsvRows::new(Box::new(text.as_bytes()), "a.csv".into(), b',', None).unwrap();
            assert!(rows.next_row().unwrap().unwrap().is_ok());
            let error = rows.next_row().unwrap_err().to_string();
            assert!(error.contains(&format!("a.csv:{line}: a quote in this row")), "{error}");
        }
        assert!(CsvRows::new(Box::new(&b"a,\"b\n1,2\n"[..]), "a.csv".into(), b',', None).is_err());
        assert_eq!(rows(b"a,b\n1,\"x\"\"\n\"").len(), 1);
        assert_eq!(
            (rows(b"a\n\"x\"").len(), rows(b"a\r\nx\r\n").len(), rows(b"").len()),
            (1, 1, 0)
        );
    }

    #[test]
    fn a_header_of_one_column_that_looks_like_several_is_refused() {
        let header = |text: &'static str, chosen| {
            let rows = CsvRows::new(Box::new(text.as_bytes()), "a.csv".into(), b',', chosen);
            rows.map(|rows| rows.columns().len()).map_err(|e| e.to_string())
        };
        assert!(header("k;x\n1;2\n", None).unwrap_err().contains("say --delimiter ';'"));
        assert_eq!(header("k;x\n1;2\n", Some(b';')), Ok(2));
        let mut rows =
            CsvRows::new(Box::new(&b"k x\n1 2\n"[..]), "a".into(), b',', Some(b' ')).unwrap();
        assert!(rows.next_row().unwrap().unwrap().is_ok() && rows.next_row().unwrap().is_none());
        assert_eq!(header("k;x\n1\n", Some(b',')), Ok(1));
        assert_eq!(parse_delimiter("\\t"), Ok(b'\t'));
        assert!(["", ";;", "\"", "\u{e9}"].iter().all(|text| parse_delimiter(text).is_err()));
    }

    #[test]
    fn headers_must_name_every_column_once() {
        for (text, what) in [("a,,b\n", "has no name"), ("a,b,a\n", "repeats the name `a`")] {
            let error =
                CsvRows::new(Box::new(text.as_bytes()), "a.csv".into(), b',', None).err().unwrap();
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}
