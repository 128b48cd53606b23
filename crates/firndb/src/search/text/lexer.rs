//! The tokens of the query language, each with its span in the text:
//!
//! | token | form |
//! |---|---|
//! | word (a keyword or a name) | letters, digits, `_` and `.`; starts with a letter or `_` |
//! | quoted name | `"order by"`; a `"` inside is doubled |
//! | text | `'it''s'`; a `'` inside is doubled |
//! | bytes | `x'00ff'` |
//! | integer | `-5`, `1_000_000`; 64 bits, signed or unsigned |
//! | number | `1.5`, `-1e-6`, `.5` |
//! | symbol | see [`SYMBOLS`] |

use crate::search::model::names::{continues_word, shorten, starts_word};
use crate::search::model::value::{Value, timestamp_from_text};
use crate::{Error, Result};

/// The symbols. A symbol precedes its own prefixes, so that the first match is the longest.
const SYMBOLS: [&str; 13] = ["==", "=", "!=", "<>", "<=", "<", ">=", ">", "(", ")", ",", "-", "*"];

/// Symbols of other languages, with advice for the error message.
const MISTAKES: [(&str, &str); 8] = [
    ("=<", "write `<=`"),
    ("=>", "write `>=`"),
    ("&", "write `and`"),
    ("|", "write `or`"),
    ("!", "write `not`"),
    ("`", "a field's name goes in double quotes"),
    ("\u{2018}", "text goes in straight single quotes"),
    ("\u{201c}", "a field's name goes in straight double quotes"),
];

/// A token of the query language.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// A keyword or an unquoted name; the parser decides which.
    Word(&'a str),
    /// A name in double quotes.
    Name(String),
    /// A number, text or bytes.
    Literal(Value),
    /// One of [`SYMBOLS`].
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// A token and its span, the bytes `start..end` of the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lexeme<'a> {
    pub token: Token<'a>,
    pub start: usize,
    pub end: usize,
}

/// Splits a text into tokens on demand, so that the parser reports the first error in the text.
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

/// An error message, and the number of bytes it is about.
type LexError = (String, usize);

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    /// The next token; at the end of the text, always [`Token::End`].
    pub fn token(&mut self) -> Result<Lexeme<'a>> {
        self.scan(scan)
    }

    /// Everything up to the next white space as one word: the form of a page token.
    pub fn non_space(&mut self) -> Result<Lexeme<'a>> {
        self.scan(|rest| match rest.split(char::is_whitespace).next() {
            Some(word) if !word.is_empty() => Ok((Token::Word(word), word.len())),
            _ => Ok((Token::End, 0)),
        })
    }

    fn scan(
        &mut self,
        scan: impl FnOnce(&'a str) -> Result<(Token<'a>, usize), LexError>,
    ) -> Result<Lexeme<'a>> {
        let rest = self.text[self.at..].trim_start();
        let start = self.text.len() - rest.len();
        let (token, len) = scan(rest)
            .map_err(|(message, len)| Error::invalid(message).with_span(start, start + len))?;
        self.at = start + len;
        Ok(Lexeme { token, start, end: self.at })
    }
}

/// The token at the start of `rest`, and its length in bytes.
fn scan(rest: &str) -> Result<(Token<'_>, usize), LexError> {
    let Some(first) = rest.chars().next() else {
        return Ok((Token::End, 0));
    };
    match first {
        '\'' => quoted(rest, '\'').map(|(text, len)| (Token::Literal(Value::Str(text)), len)),
        '"' => quoted(rest, '"').map(|(name, len)| (Token::Name(name), len)),
        'x' | 'X' if rest[1..].starts_with('\'') => bytes(rest),
        c if starts_word(c) => {
            let len = rest.find(|c| !continues_word(c)).unwrap_or(rest.len());
            Ok((Token::Word(&rest[..len]), len))
        }
        _ if starts_number(rest) => number(rest),
        _ => symbol(rest),
    }
}

fn starts_number(rest: &str) -> bool {
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    rest.strip_prefix('.').unwrap_or(rest).starts_with(|c: char| c.is_ascii_digit())
}

/// The text between two quotes, with doubled quotes resolved, and its length in bytes including
/// the quotes.
fn quoted(rest: &str, quote: char) -> Result<(String, usize), LexError> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return Ok((text, at + 1));
        }
        text.push(c);
    }
    Err((format!("the closing {quote} is missing"), rest.len()))
}

fn bytes(rest: &str) -> Result<(Token<'_>, usize), LexError> {
    let (digits, len) = quoted(&rest[1..], '\'').map_err(|(message, len)| (message, len + 1))?;
    match from_hex(&digits) {
        Some(bytes) => Ok((Token::Literal(Value::Bytes(bytes)), len + 1)),
        None => Err(("bytes are pairs of hexadecimal digits: x'00ff'".to_string(), len + 1)),
    }
}

/// Decodes pairs of hexadecimal digits.
pub(crate) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |d: u8| (d as char).to_digit(16);
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    let byte = |&[high, low]: &[u8; 2]| Some((digit(high)? << 4 | digit(low)?) as u8);
    if odd.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// Reads every character that may belong to a number or an unquoted time, so that an error covers
/// all of it.
fn number(rest: &str) -> Result<(Token<'_>, usize), LexError> {
    let part = |c: char| c.is_alphanumeric() || "_.:+-".contains(c);
    let len = rest.find(|c| !part(c)).unwrap_or(rest.len());
    let text = &rest[..len];
    match parse_number(text) {
        Ok(value) => Ok((Token::Literal(value), len)),
        Err(_) if timestamp_from_text(text).is_some() => {
            Err((format!("a time goes in quotes: '{text}'"), len))
        }
        Err(message) => Err((format!("`{}` {message}", shorten(text)), len)),
    }
}

fn parse_number(text: &str) -> Result<Value, &'static str> {
    const MALFORMED: &str = "is not a number; text goes in single quotes";
    let digits = without_underscores(text).ok_or(MALFORMED)?;
    if digits.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) {
        return match (digits.parse(), digits.parse()) {
            (Ok(signed), _) => Ok(Value::I64(signed)),
            (_, Ok(unsigned)) => Ok(Value::U64(unsigned)),
            _ => Err("does not fit 64 bits; with a fraction (.0) it is a double-precision number"),
        };
    }
    let significant = digits.split(['e', 'E']).next().unwrap_or_default();
    match digits.parse::<f64>() {
        Ok(0.0) if significant.contains(|c: char| ('1'..='9').contains(&c)) => {
            Err("is too small for a double-precision number")
        }
        Ok(value) if value.is_finite() => Ok(Value::F64(value)),
        Ok(_) => Err("is too large for a double-precision number; infinity is written inf"),
        Err(_) => Err(MALFORMED),
    }
}

/// The number without its underscores, which are allowed between digits only.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let mut digits = String::with_capacity(text.len());
    for (i, c) in text.char_indices() {
        match c {
            '_' if i > 0 && digit(i - 1) && digit(i + 1) => {}
            '0'..='9' | '.' | 'e' | 'E' | '+' | '-' => digits.push(c),
            _ => return None,
        }
    }
    Some(digits)
}

fn symbol(rest: &str) -> Result<(Token<'_>, usize), LexError> {
    let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
    let mistake = MISTAKES.into_iter().find(|(mistake, _)| rest.starts_with(mistake));
    match (symbol, mistake) {
        // `!=` is a symbol although `!` is not; `=<` is not one although `=` is.
        (Some(symbol), None | Some(("!", _))) => Ok((Token::Symbol(symbol), symbol.len())),
        (_, Some((mistake, advice))) => {
            Err((format!("`{mistake}` is not part of the query language; {advice}"), mistake.len()))
        }
        (None, None) => {
            let c = rest.chars().next().unwrap_or_default();
            let message = format!("the character `{}` means nothing here", c.escape_debug());
            Err((message, c.len_utf8()))
        }
    }
}
