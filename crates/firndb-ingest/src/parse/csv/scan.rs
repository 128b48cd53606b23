//! Divides the text of CSV into records and fields (RFC 4180, and the extensions of a [`Dialect`]).

use crate::input::read_error;
use crate::parse::dialect::Dialect;
use crate::parse::text_input::TextInput;
use firndb::{Error, Result};
use std::io::BufRead;
use std::sync::Arc;

/// The fields of a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// The text of the fields, and perhaps delimiters between them.
    bytes: Vec<u8>,
    fields: Vec<Field>,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    start: usize,
    end: usize,
    quoted: bool,
}

impl Record {
    /// Number of fields.
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Bytes of the text.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// A field; `None` if it has no value: no text, and no quotes.
    pub(crate) fn get(&self, field: usize) -> Option<&[u8]> {
        self.fields.get(field).and_then(|field| self.text(*field))
    }

    fn text(&self, Field { start, end, quoted }: Field) -> Option<&[u8]> {
        (quoted || end > start).then(|| &self.bytes[start..end])
    }

    /// All fields, as [`Record::get`] returns them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.fields.iter().map(|field| self.text(*field))
    }

    /// Whether a field was quoted.
    pub(super) fn is_quoted(&self, field: usize) -> bool {
        self.fields.get(field).is_some_and(|field| field.quoted)
    }

    /// Removes fields at the end, or adds fields without values.
    pub(super) fn set_len(&mut self, fields: usize) {
        let end = self.bytes.len();
        self.fields.resize(fields, Field { start: end, end, quoted: false });
    }
}

/// Reads the records of one input.
pub(super) struct Scanner {
    input: TextInput,
    file: Arc<str>,
    dialect: Dialect,
    lexer: Lexer,
}

impl Scanner {
    /// A scanner behind the lines that the dialect skips.
    pub(super) fn new(
        input: TextInput,
        file: Arc<str>,
        dialect: Dialect,
        delimiter: u8,
    ) -> Result<Scanner> {
        dialect.check(delimiter)?;
        let lexer = Lexer::new(&dialect, delimiter);
        let mut scanner = Scanner { input, file, dialect, lexer };
        for _ in 0..scanner.dialect.skip_lines {
            scanner.skip_line()?;
        }
        Ok(scanner)
    }

    /// The line on which the last record starts.
    pub(super) fn start_line(&self) -> u64 {
        self.lexer.start_line
    }

    fn skip_line(&mut self) -> Result<()> {
        loop {
            let chunk = self.input.fill_buf().map_err(|e| read_error(&self.file, e))?;
            let newline = memchr::memchr(b'\n', chunk);
            let used = newline.map_or(chunk.len(), |at| at + 1);
            self.input.consume(used);
            self.lexer.line += u64::from(newline.is_some());
            if newline.is_some() || used == 0 {
                // What is not valid in a skipped line does not matter.
                self.input.malformed();
                return Ok(());
            }
        }
    }

    /// Reads the next record that is not a blank line; `None` at the end. The inner error is the
    /// reason why the record cannot be used.
    pub(super) fn read(
        &mut self,
        record: &mut Record,
    ) -> Result<Option<std::result::Result<(), String>>> {
        loop {
            record.bytes.clear();
            record.fields.clear();
            self.lexer.start();
            if !self.scan(record)? {
                return Ok(None);
            }
            let malformed = self.input.malformed();
            let malformed = malformed.map(|name| format!("the row is not valid {name}"));
            let wrong = self.lexer.wrong.take().or(malformed);
            let is_blank = record.len() == 1 && record.get(0).is_none() && !self.lexer.is_null;
            if !is_blank || wrong.is_some() {
                return Ok(Some(wrong.map_or(Ok(()), Err)));
            }
        }
    }

    /// Reads to the end of the record; false if there is none.
    fn scan(&mut self, record: &mut Record) -> Result<bool> {
        while self.lexer.state != State::End {
            let chunk = self.input.fill_buf().map_err(|e| read_error(&self.file, e))?;
            if chunk.is_empty() {
                let more = self.lexer.end_of_input(record);
                return more.map_err(|reason| {
                    Error::invalid(format!("{}:{}: {reason}", self.file, self.start_line()))
                });
            }
            let used = self.lexer.run(chunk, record);
            self.input.consume(used);
            if self.lexer.raw > self.dialect.max_row {
                let hint = "; a quote in it may not be closed, or the file is not CSV";
                let position = format!("{}:{}", self.file, self.start_line());
                return Err(self.dialect.too_long(&position, hint));
            }
        }
        Ok(true)
    }
}

/// What the bytes before mean for the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    RecordStart,
    Comment,
    FieldStart,
    /// In a field without quotes.
    Plain,
    Quoted,
    /// After a quote in a quoted field: its end, or the first half of a doubled quote.
    Closed,
    /// After a carriage return behind a closed quote.
    ClosedReturn,
    /// After an escape in a quoted or a plain field.
    EscapeQuoted,
    EscapePlain,
    /// The record is complete.
    End,
}

/// Divides text that arrives in chunks.
struct Lexer {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    comment: Option<u8>,
    /// The bytes that end the text of a plain field or part of it: delimiter, newline, escape.
    ends_plain: [bool; 256],
    /// The bytes that end the text of a quoted field or part of it: quote, newline, escape.
    ends_quoted: [bool; 256],
    state: State,
    /// Whether the current field is quoted.
    quoted: bool,
    /// Whether the current field began with an escaped `N`, which is how databases write null.
    is_null: bool,
    /// Where the text of the current field starts in the record.
    field_start: usize,
    /// The end of the last escaped byte in the record.
    escaped: usize,
    /// The current line, and that on which the record starts.
    line: u64,
    start_line: u64,
    /// Bytes of the record, with quotes and delimiters.
    raw: usize,
    /// Why the record cannot be used.
    wrong: Option<String>,
}

impl Lexer {
    fn new(dialect: &Dialect, delimiter: u8) -> Lexer {
        let set = |bytes: [Option<u8>; 3]| {
            let mut set = [false; 256];
            bytes.into_iter().flatten().for_each(|byte| set[usize::from(byte)] = true);
            set
        };
        Lexer {
            delimiter,
            quote: dialect.quote,
            escape: dialect.escape,
            comment: dialect.comment,
            ends_plain: set([Some(delimiter), Some(b'\n'), dialect.escape]),
            ends_quoted: set([dialect.quote, Some(b'\n'), dialect.escape]),
            state: State::RecordStart,
            quoted: false,
            is_null: false,
            field_start: 0,
            escaped: 0,
            line: 1,
            start_line: 1,
            raw: 0,
            wrong: None,
        }
    }

    /// Prepares for the next record.
    fn start(&mut self) {
        self.state = State::RecordStart;
        (self.raw, self.escaped, self.wrong) = (0, 0, None);
        self.start_line = self.line;
    }

    /// Adds fields to the record until it or the chunk ends. Returns the number of bytes used.
    fn run(&mut self, chunk: &[u8], record: &mut Record) -> usize {
        let (mut at, mut start) = (0, 0);
        while at < chunk.len() && self.state != State::End {
            match self.state {
                State::RecordStart if Some(chunk[at]) == self.comment => {
                    self.state = State::Comment;
                }
                State::RecordStart => {
                    (self.start_line, start) = (self.line, at);
                    self.state = State::FieldStart;
                    at += self.plain_line(&chunk[at..], record);
                }
                State::Comment => match memchr::memchr(b'\n', &chunk[at..]) {
                    Some(newline) => {
                        at += newline + 1;
                        self.line += 1;
                        self.state = State::RecordStart;
                    }
                    None => at = chunk.len(),
                },
                State::FieldStart => {
                    let quoted = Some(chunk[at]) == self.quote;
                    self.start_field(quoted, record);
                    at += usize::from(quoted);
                }
                State::Plain => at += self.plain(&chunk[at..], record),
                State::Quoted => at += self.quoted(&chunk[at..], record),
                State::Closed | State::ClosedReturn => {
                    at += usize::from(self.closed(chunk[at], record));
                }
                State::EscapePlain | State::EscapeQuoted => {
                    self.escaped(chunk[at], record);
                    at += 1;
                }
                State::End => {}
            }
        }
        if !matches!(self.state, State::RecordStart | State::Comment) {
            self.raw += at - start;
        }
        at
    }

    /// Takes a whole line if it has neither quotes nor escapes, which is much faster than field by
    /// field. Returns the number of bytes used.
    fn plain_line(&mut self, text: &[u8], record: &mut Record) -> usize {
        let Some(length) = memchr::memchr(b'\n', text) else { return 0 };
        let line = &text[..length];
        let is_in = |byte: Option<u8>| byte.is_some_and(|b| memchr::memchr(b, line).is_some());
        if is_in(self.quote) || is_in(self.escape) {
            return 0;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        record.bytes.extend_from_slice(line);
        let mut start = 0;
        for end in memchr::memchr_iter(self.delimiter, line) {
            record.fields.push(Field { start, end, quoted: false });
            start = end + 1;
        }
        record.fields.push(Field { start, end: line.len(), quoted: false });
        self.is_null = false;
        self.line += 1;
        self.state = State::End;
        length + 1
    }

    /// Adds text of a plain field. Returns the number of bytes used.
    fn plain(&mut self, text: &[u8], record: &mut Record) -> usize {
        let length = text.iter().position(|byte| self.ends_plain[usize::from(*byte)]);
        let length = length.unwrap_or(text.len());
        record.bytes.extend_from_slice(&text[..length]);
        let Some(&byte) = text.get(length) else { return length };
        match byte {
            b'\n' => self.end_record(record),
            _ if byte == self.delimiter => self.end_field(record),
            _ => self.state = State::EscapePlain,
        }
        length + 1
    }

    /// Adds text of a quoted field, and of the quoted fields after it. Returns the number of bytes
    /// used.
    fn quoted(&mut self, text: &[u8], record: &mut Record) -> usize {
        let quote = self.quote.unwrap_or_default();
        let mut at = 0;
        loop {
            let rest = &text[at..];
            let length = self.quoted_length(rest);
            record.bytes.extend_from_slice(&rest[..length]);
            at += length + 1;
            match rest.get(length) {
                None => return text.len(),
                Some(b'\n') => {
                    record.bytes.push(b'\n');
                    self.line += 1;
                }
                Some(byte) if *byte != quote => {
                    self.state = State::EscapeQuoted;
                    return at;
                }
                Some(_) => match text.get(at) {
                    Some(byte) if *byte == quote => {
                        record.bytes.push(quote);
                        at += 1;
                    }
                    Some(byte) if *byte == self.delimiter => {
                        self.end_field(record);
                        at += 1;
                        if text.get(at) != Some(&quote) {
                            return at;
                        }
                        self.start_field(true, record);
                        at += 1;
                    }
                    _ => {
                        self.state = State::Closed;
                        return at;
                    }
                },
            }
        }
    }

    /// The number of bytes before the next quote, escape or newline.
    fn quoted_length(&self, text: &[u8]) -> usize {
        // Most values are shorter than what makes a search by vectors worthwhile.
        let (short, long) = text.split_at(text.len().min(24));
        let near = short.iter().position(|byte| self.ends_quoted[usize::from(*byte)]);
        near.unwrap_or_else(|| {
            let quote = self.quote.unwrap_or_default();
            let escape = self.escape.unwrap_or(quote);
            let far = memchr::memchr3(quote, escape, b'\n', long).unwrap_or(long.len());
            short.len() + far
        })
    }

    fn start_field(&mut self, quoted: bool, record: &Record) {
        (self.quoted, self.is_null, self.field_start) = (quoted, false, record.bytes.len());
        self.state = if quoted { State::Quoted } else { State::Plain };
    }

    /// Takes a byte after a quote in a quoted field. Returns whether it was used.
    fn closed(&mut self, byte: u8, record: &mut Record) -> bool {
        let is_return = self.state == State::ClosedReturn;
        match byte {
            b'\n' => self.end_record(record),
            b'\r' if !is_return => self.state = State::ClosedReturn,
            _ if Some(byte) == self.quote && !is_return => {
                record.bytes.push(byte);
                self.state = State::Quoted;
            }
            _ if byte == self.delimiter && !is_return => self.end_field(record),
            _ => {
                self.wrong.get_or_insert_with(|| {
                    format!(
                        "text follows the closing quote of value {}; write a quote inside a \
                         quoted value twice, or say --quote none if quotes are data",
                        record.len() + 1
                    )
                });
                self.state = State::Plain;
                return false;
            }
        }
        true
    }

    /// Takes the byte after an escape.
    fn escaped(&mut self, byte: u8, record: &mut Record) {
        let is_plain = self.state == State::EscapePlain;
        self.state = if is_plain { State::Plain } else { State::Quoted };
        self.line += u64::from(byte == b'\n');
        let is_first = record.bytes.len() == self.field_start && !self.is_null;
        match byte {
            b'N' if is_plain && is_first => self.is_null = true,
            _ if byte.is_ascii_alphanumeric() => {
                let escape = self.escape.unwrap_or_default().escape_ascii();
                self.wrong.get_or_insert_with(|| {
                    format!(
                        "`{escape}{}` has no meaning in value {}; an escape stands before a \
                         quote, a delimiter, a newline or an escape",
                        char::from(byte),
                        record.len() + 1
                    )
                });
            }
            _ => {
                record.bytes.push(byte);
                self.escaped = record.bytes.len();
            }
        }
    }

    fn end_field(&mut self, record: &mut Record) {
        if self.is_null && record.bytes.len() > self.field_start {
            self.wrong.get_or_insert_with(|| {
                format!("value {} goes on after an escaped N, which is null", record.len() + 1)
            });
        }
        let (start, end) = (self.field_start, record.bytes.len());
        record.fields.push(Field { start, end, quoted: self.quoted });
        self.state = State::FieldStart;
    }

    fn end_record(&mut self, record: &mut Record) {
        self.line += 1;
        self.end_line(record);
    }

    /// Ends the last field, without the carriage return of the line end.
    fn end_line(&mut self, record: &mut Record) {
        if !self.quoted && record.bytes.len() > self.escaped.max(self.field_start) {
            record.bytes.pop_if(|byte| *byte == b'\r');
        }
        self.end_field(record);
        self.state = State::End;
    }

    /// Ends the last record; false if there is none. The error is the reason why the input ends
    /// too early.
    fn end_of_input(&mut self, record: &mut Record) -> std::result::Result<bool, &'static str> {
        match self.state {
            State::RecordStart | State::Comment => return Ok(false),
            State::Quoted | State::EscapeQuoted => {
                return Err("a quote in this row is not closed before the end of the file; close \
                            it, or write \"\" for a quote inside a quoted value");
            }
            State::EscapePlain => {
                self.wrong.get_or_insert("the file ends after an escape".to_string());
            }
            State::FieldStart => self.start_field(false, record),
            _ => {}
        }
        self.end_line(record);
        Ok(true)
    }
}
