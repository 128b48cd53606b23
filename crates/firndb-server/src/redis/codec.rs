//! Reads commands of the Redis protocol from a buffer, in place.
//!
//! A command is an array of bulk strings, or a line of words ("inline"). The arguments of a parsed
//! command are positions in the connection's buffer; only quoted words of a line are copied. What
//! has arrived of an incomplete command is remembered, so that each byte is looked at once however
//! the stream is cut.

use std::fmt;

/// Longest line of an inline command, as in Redis.
const LINE_MAX: usize = 64 << 10;
/// Longest line with a length: `*`, a sign, 19 digits, and the end of the line.
const HEADER_MAX: usize = 32;
/// Positions from here on are in the copies of quoted words.
const COPIED: usize = 1 << (usize::BITS - 1);
/// Positions that are kept for the next commands.
const KEPT: usize = 4096;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a command, with its lengths.
    pub command_bytes: usize,
    /// Bytes of an argument.
    pub argument_bytes: usize,
    /// Arguments of a command, with its name.
    pub arguments: usize,
    /// Commands that are parsed at a time.
    pub commands: usize,
    /// Whether the client has no credentials yet; then errors say so, as in Redis.
    pub is_unauthenticated: bool,
}

/// Why a stream cannot be understood. The connection has to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError(String);

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.0)
    }
}

fn wrong<T>(message: impl Into<String>) -> Result<T, ProtocolError> {
    Err(ProtocolError(message.into()))
}

/// First and last position of an argument.
type Span = (usize, usize);

/// The arguments of a command, with its name.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    input: &'a [u8],
    copied: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Arguments that are all in one buffer.
    pub fn new(input: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args { input, copied: &[], spans }
    }

    /// The number of arguments, with the name; at least 1.
    #[inline]
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// Argument `n`; 0 is the name. There must be one.
    #[inline]
    pub fn at(&self, n: usize) -> &'a [u8] {
        let (start, end) = self.spans[n];
        match start & COPIED {
            0 => &self.input[start..end],
            _ => &self.copied[start & !COPIED..end & !COPIED],
        }
    }

    /// The arguments from `n` on.
    pub fn from(self, n: usize) -> impl Iterator<Item = &'a [u8]> {
        (n..self.count()).map(move |n| self.at(n))
    }

    /// The total length of all arguments.
    pub fn bytes(&self) -> usize {
        self.spans.iter().map(|(start, end)| end - start).sum()
    }
}

/// Commands that were parsed, and what is known of the next one.
#[derive(Debug, Default)]
pub struct Parser {
    /// The arguments of all commands, one after another.
    spans: Vec<Span>,
    /// For each complete command, the number of spans up to its end.
    ends: Vec<usize>,
    /// Unquoted words.
    copied: Vec<u8>,
    /// Where complete commands end, and where parsing continues.
    complete: usize,
    at: usize,
    /// Arguments that the incomplete command still needs; 0 if none has begun.
    missing: usize,
    /// The length of the argument that has begun.
    bulk: Option<usize>,
}

impl Parser {
    /// Parses complete commands, up to the limit. `input` is the buffer of the last call with more
    /// bytes at its end, less what [`Parser::clear`] said.
    ///
    /// After an error the commands before it are still there.
    pub fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<(), ProtocolError> {
        while self.ends.len() < limits.commands {
            if !self.parse_one(input, limits)? {
                break;
            }
            self.complete = self.at;
            let begun = self.ends.last().copied().unwrap_or(0);
            // Redis ignores empty lines and empty arrays.
            if self.spans.len() > begun {
                self.ends.push(self.spans.len());
            }
        }
        Ok(())
    }

    /// The number of complete commands.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The arguments of complete command `n`.
    #[inline]
    pub fn args<'a>(&'a self, n: usize, input: &'a [u8]) -> Args<'a> {
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        Args { input, copied: &self.copied, spans: &self.spans[start..self.ends[n]] }
    }

    /// Forgets the complete commands. Returns how many bytes at the beginning of the buffer are no
    /// longer needed.
    pub fn clear(&mut self) -> usize {
        let consumed = std::mem::take(&mut self.complete);
        let begun = self.ends.last().copied().unwrap_or(0);
        self.ends.clear();
        self.copied.clear();
        self.spans.drain(..begun);
        self.spans.iter_mut().for_each(|(start, end)| {
            *start -= consumed;
            *end -= consumed;
        });
        if self.spans.is_empty() && self.spans.capacity() > KEPT {
            self.spans = Vec::new();
        }
        self.at -= consumed;
        consumed
    }

    /// How many bytes the incomplete argument still needs.
    pub fn wanted(&self, input: &[u8]) -> usize {
        self.bulk.map_or(0, |length| (self.at + length + 2).saturating_sub(input.len()))
    }

    /// Parses the rest of a command. Returns whether it is complete.
    fn parse_one(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        if self.missing == 0 {
            match input.get(self.at) {
                None => return Ok(false),
                Some(b'*') => {}
                Some(_) => return self.parse_line(input, limits),
            }
            let Some((count, next)) = header(input, self.at, "mbulk")? else { return Ok(false) };
            let most = i64::try_from(limits.arguments).unwrap_or(i64::MAX);
            let Some(count) = count.filter(|count| *count <= most) else {
                return wrong(match limits.is_unauthenticated && count.is_some() {
                    true => "unauthenticated multibulk length",
                    false => "invalid multibulk length",
                });
            };
            self.at = next;
            self.missing = usize::try_from(count).unwrap_or(0);
        }
        while self.missing > 0 {
            if !self.parse_argument(input, limits)? {
                return Ok(false);
            }
            self.missing -= 1;
        }
        Ok(true)
    }

    /// Parses the rest of an argument. Returns whether it is complete.
    fn parse_argument(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let length = match self.bulk {
            Some(length) => length,
            None => {
                match input.get(self.at) {
                    None => return Ok(false),
                    Some(b'$') => {}
                    Some(other) => {
                        let shown = char::from(*other).escape_default();
                        return wrong(format!("expected '$', got '{shown}'"));
                    }
                }
                let Some((length, next)) = header(input, self.at, "bulk")? else {
                    return Ok(false);
                };
                let valid = length.and_then(|length| usize::try_from(length).ok());
                let Some(length) = valid.filter(|length| *length <= limits.argument_bytes) else {
                    return wrong(match limits.is_unauthenticated && valid.is_some() {
                        true => "unauthenticated bulk length",
                        false => "invalid bulk length",
                    });
                };
                if next - self.complete + length > limits.command_bytes {
                    return wrong("too big command");
                }
                self.at = next;
                self.bulk = Some(length);
                length
            }
        };
        let end = self.at + length;
        match input.get(end..end + 2) {
            None => Ok(false),
            Some(b"\r\n") => {
                self.spans.push((self.at, end));
                self.at = end + 2;
                self.bulk = None;
                Ok(true)
            }
            Some(_) => wrong("a bulk string does not end with CRLF"),
        }
    }

    /// Parses a line of words.
    fn parse_line(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let rest = &input[self.at..];
        let within = &rest[..rest.len().min(LINE_MAX)];
        let Some(length) = memchr::memchr(b'\n', within) else {
            return match rest.len() < LINE_MAX {
                true => Ok(false),
                false => wrong("too big inline request"),
            };
        };
        let line = &rest[..length];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let first = self.spans.len();
        if !self.split(line) {
            self.spans.truncate(first);
            return wrong("unbalanced quotes in request");
        }
        if self.spans.len() - first > limits.arguments {
            self.spans.truncate(first);
            return wrong("invalid multibulk length");
        }
        self.at += length + 1;
        Ok(true)
    }

    /// Adds the words of a line. Returns whether its quotes are balanced.
    fn split(&mut self, line: &[u8]) -> bool {
        let mut n = 0;
        loop {
            while line.get(n).is_some_and(|c| is_space(*c)) {
                n += 1;
            }
            if n == line.len() {
                return true;
            }
            let word = &line[n..];
            let end = word.iter().position(|c| is_space(*c)).unwrap_or(word.len());
            if !word[..end].iter().any(|c| matches!(c, b'"' | b'\'')) {
                self.spans.push((self.at + n, self.at + n + end));
                n += end;
                continue;
            }
            let start = self.copied.len();
            let Some(used) = unquote(word, &mut self.copied) else { return false };
            self.spans.push((start | COPIED, self.copied.len() | COPIED));
            n += used;
        }
    }
}

fn is_space(c: u8) -> bool {
    c.is_ascii_whitespace() || c == 0x0b || c == 0
}

/// The number in a line such as `*3` at a position, and the position after it. `None` if the line
/// is incomplete; the number is `None` if it is not one.
fn header(
    input: &[u8],
    at: usize,
    what: &str,
) -> Result<Option<(Option<i64>, usize)>, ProtocolError> {
    let rest = &input[at + 1..];
    let within = &rest[..rest.len().min(HEADER_MAX)];
    let Some(length) = memchr::memchr(b'\r', within) else {
        return match rest.len() < HEADER_MAX {
            true => Ok(None),
            false => wrong(format!("too big {what} count string")),
        };
    };
    match rest.get(length + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((super::number::integer(&rest[..length]), at + length + 3))),
        Some(_) => wrong("a line does not end with CRLF"),
    }
}

/// Appends the first word of a text, which has quotes, without them. Returns the word's length in
/// the text; `None` if a quote is not closed, or is followed by something other than a space.
fn unquote(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let mut n = 0;
    let mut quote = None;
    while let Some(&c) = text.get(n) {
        match (quote, c) {
            (None, b'"' | b'\'') => quote = Some(c),
            (None, _) if is_space(c) => return Some(n),
            (Some(q), _) if q == c => {
                let next = text.get(n + 1);
                return next.is_none_or(|c| is_space(*c)).then_some(n + 1);
            }
            (Some(b'"'), b'\\') => n += unescape(&text[n + 1..], out)?,
            (Some(b'\''), b'\\') if text.get(n + 1) == Some(&b'\'') => {
                out.push(b'\'');
                n += 1;
            }
            _ => out.push(c),
        }
        n += 1;
    }
    quote.is_none().then_some(n)
}

/// Appends the byte that an escape stands for. Returns the length after the backslash.
fn unescape(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    if let Some([b'x', high, low]) = text.get(..3)
        && let (Some(high), Some(low)) =
            (char::from(*high).to_digit(16), (*low as char).to_digit(16))
    {
        out.push((high * 16 + low) as u8);
        return Some(3);
    }
    out.push(match *text.first()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    });
    Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        command_bytes: 200,
        argument_bytes: 100,
        arguments: 5,
        commands: 100,
        is_unauthenticated: false,
    };

    /// Parses a stream that arrives in pieces. Returns the commands and the error.
    fn parse(pieces: &[&[u8]], limits: &Limits) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
        let (mut parser, mut buffer, mut commands) = (Parser::default(), Vec::new(), Vec::new());
        for piece in pieces {
            buffer.extend_from_slice(piece);
            loop {
                let result = parser.parse(&buffer, limits);
                for n in 0..parser.count() {
                    commands.push(parser.args(n, &buffer).from(0).map(<[u8]>::to_vec).collect());
                }
                let count = parser.count();
                let consumed = parser.clear();
                buffer.drain(..consumed);
                match result {
                    Err(error) => return (commands, Some(error.to_string())),
                    Ok(()) if count < limits.commands => break,
                    Ok(()) => {}
                }
            }
        }
        (commands, None)
    }

    const STREAM: &[u8] = b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\nping\r\n\r\n*0\r\n*-1\r\n\
        set \"a\\x20b\\n\" 'it\\'s'\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\nget  a\tb\r\n";

    #[test]
    fn a_stream_gives_the_same_commands_wherever_it_is_cut() {
        let (whole, error) = parse(&[STREAM], &LIMITS);
        let shown = whole.iter().map(|c| c.join(&b'|').escape_ascii().to_string());
        let shown: Vec<String> = shown.collect();
        assert_eq!(error, None);
        let expected =
            [r"GET|a\r\nb", "ping", r"set|a b\n|it\'s", r"SET||\r\n", "get|a|b"].map(String::from);
        assert_eq!(shown, expected);
        for cut in 0..STREAM.len() {
            for second in [cut, cut + 1, (cut + 7).min(STREAM.len())] {
                let second = second.min(STREAM.len());
                let pieces = [&STREAM[..cut], &STREAM[cut..second], &STREAM[second..]];
                assert_eq!(parse(&pieces, &LIMITS), (whole.clone(), None), "{cut} {second}");
            }
        }
        let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(parse(&bytes, &LIMITS), (whole.clone(), None));
        let one = Limits { commands: 1, ..LIMITS };
        assert_eq!(parse(&[STREAM], &one), (whole, None));
    }

    #[test]
    fn what_is_no_command_is_an_error_and_earlier_commands_are_kept() {
        let cases: [(&[u8], &str); 12] = [
            (b"*x\r\n", "invalid multibulk length"),
            (b"*9999999999999999999999\r\n", "invalid multibulk length"),
            (b"*11111111111111111111111111111111111", "too big mbulk count string"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$101\r\n", "invalid bulk length"),
            (b"*1\r\n$01\r\n", "invalid bulk length"),
            (b"*1\r\n:1\r\n", "expected '$', got ':'"),
            (b"*1\r\n$1\r\nabc", "a bulk string does not end with CRLF"),
            (b"*1\rx", "a line does not end with CRLF"),
            (b"*1\r\n$11111111111111111111111111111111111", "too big bulk count string"),
            (b"get \"a\r\n", "unbalanced quotes in request"),
            (b"get \"a\"b\r\n", "unbalanced quotes in request"),
        ];
        for (bytes, message) in cases {
            let stream = [b"*1\r\n$4\r\nPING\r\n", bytes].concat();
            let (commands, error) = parse(&[&stream], &LIMITS);
            assert_eq!(commands, [[b"PING"]], "{message}");
            assert_eq!(error.as_deref(), Some(&*format!("Protocol error: {message}")));
        }
    }

    #[test]
    fn limits_hold_at_n_and_not_at_n_plus_1() {
        let array = |lengths: &[usize]| {
            let mut text = format!("*{}\r\n", lengths.len());
            for length in lengths {
                text += &format!("${length}\r\n{}\r\n", "x".repeat(*length));
            }
            text.into_bytes()
        };
        let parsed = |bytes: &[u8]| parse(&[bytes], &LIMITS).1.is_none();
        assert!(parsed(&array(&[1, 1, 1, 1, 1])) && !parsed(&array(&[1, 1, 1, 1, 1, 1])));
        assert!(parsed(b"a b c d e\n") && !parsed(b"a b c d e f\n"));
        assert!(parsed(&array(&[100])) && !parsed(&array(&[101])));
        // `*2`, `$100` with its argument, and `$86` are 119 bytes.
        assert!(parsed(&array(&[100, 83])) && !parsed(&array(&[100, 84])));
        let line = |length: usize| [vec![b'x'; length], b"\n".to_vec()].concat();
        assert!(parsed(&line(LINE_MAX - 1)) && !parsed(&line(LINE_MAX)));
        let limits = Limits { is_unauthenticated: true, ..LIMITS };
        let message = |bytes: &[u8]| parse(&[bytes], &limits).1.unwrap();
        assert!(message(b"*6\r\n").ends_with("unauthenticated multibulk length"));
        assert!(message(b"*1\r\n$101\r\n").ends_with("unauthenticated bulk length"));
    }
}
