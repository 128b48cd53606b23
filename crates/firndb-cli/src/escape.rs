//! Text for terminals: control bytes of values are shown, and never reach the terminal.
//!
//! A value may hold escape sequences that rename a window, move the cursor or answer for the user.
//! Newlines and tabs pass, all other control characters and bytes that are not UTF-8 become `\xHH`.

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes a stream of bytes, whose characters may be split between two calls.
#[derive(Default)]
pub struct Escaper {
    /// The first bytes of a character whose rest was not seen yet.
    partial: Vec<u8>,
}

impl Escaper {
    /// The text for these bytes, except for an incomplete character at their end.
    pub fn text(&mut self, bytes: &[u8]) -> String {
        let joined = match self.partial.is_empty() {
            true => Cow::Borrowed(bytes),
            false => Cow::Owned([&std::mem::take(&mut self.partial)[..], bytes].concat()),
        };
        let mut shown = String::with_capacity(joined.len());
        let mut chunks = joined.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            push_text(&mut shown, chunk.valid());
            match chunks.peek() {
                None if is_beginning(chunk.invalid()) => self.partial = chunk.invalid().to_vec(),
                _ => push_bytes(&mut shown, chunk.invalid()),
            }
        }
        shown
    }

    /// The text for what is left.
    pub fn finish(&mut self) -> String {
        let mut shown = String::new();
        push_bytes(&mut shown, &std::mem::take(&mut self.partial));
        shown
    }
}

/// Whether further bytes may complete these to a character.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// The text for these bytes.
pub fn escaped(bytes: &[u8]) -> String {
    let mut escaper = Escaper::default();
    escaper.text(bytes) + &escaper.finish()
}

/// JSON without control characters, which JSON allows above U+007E.
pub fn escaped_json(json: String) -> String {
    if !json.chars().any(char::is_control) {
        return json;
    }
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        match c.is_control() {
            // Writing to a text does not fail.
            true => _ = write!(shown, "\\u{:04x}", u32::from(c)),
            false => shown.push(c),
        }
    }
    shown
}

fn push_text(shown: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() => push_bytes(shown, c.encode_utf8(&mut [0; 4]).as_bytes()),
            c => shown.push(c),
        }
    }
}

fn push_bytes(shown: &mut String, bytes: &[u8]) {
    for byte in bytes {
        _ = write!(shown, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(escaped(b"a\x1b[31mb\x07\x7f\r\n\tc"), "a\\x1b[31mb\\x07\\x7f\\x0d\n\tc");
        // U+009B begins an escape sequence, too.
        assert_eq!(escaped("\u{9b}31m".as_bytes()), "\\xc2\\x9b31m");
        assert_eq!(escaped(b"\xff\xfea\xc3"), "\\xff\\xfea\\xc3");
        assert_eq!(escaped("Z\u{fc}rich \u{1f600}".as_bytes()), "Z\u{fc}rich \u{1f600}");
        assert_eq!(escaped_json("{\"a\":\"\u{9b}\u{7f}\"}".into()), r#"{"a":"\u009b\u007f"}"#);
    }

    #[test]
    fn characters_may_be_split_between_calls() {
        let text = "Z\u{fc}rich \u{1f600}\u{9b}".as_bytes();
        for at in 0..text.len() {
            let mut escaper = Escaper::default();
            let shown = escaper.text(&text[..at]) + &escaper.text(&text[at..]) + &escaper.finish();
            assert_eq!(shown, escaped(text), "{at}");
        }
        let mut escaper = Escaper::default();
        assert_eq!(escaper.text(b"\xe2\x82") + &escaper.text(b"a"), "\\xe2\\x82a");
    }
}
