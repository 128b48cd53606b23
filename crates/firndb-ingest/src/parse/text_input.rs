//! The bytes of a text input, converted to UTF-8 if its encoding is known.

use crate::input::read_error;
use crate::parse::dialect::Dialect;
use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use firndb::{Error, Result};
use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

/// Bytes of an input that are converted at a time.
const CHUNK: usize = 1 << 16;

/// The bytes of a text input, without a byte order mark.
pub(crate) struct TextInput {
    reader: Box<dyn BufRead + Send>,
    decoding: Option<Decoding>,
}

struct Decoding {
    decoder: Decoder,
    /// UTF-8, from which `at` bytes were consumed.
    text: Vec<u8>,
    at: usize,
    /// Bytes of UTF-8 before `text`.
    before: u64,
    /// Offsets in the UTF-8 of bytes that are not valid in the encoding.
    malformed: VecDeque<u64>,
    is_done: bool,
}

impl TextInput {
    /// `plain`: without an encoding in the dialect the bytes are taken as they are, even if they
    /// begin like UTF-16. `name` is used in messages.
    pub(crate) fn new(
        mut reader: Box<dyn BufRead + Send>,
        name: &str,
        dialect: &Dialect,
        plain: bool,
    ) -> Result<TextInput> {
        let head = reader.fill_buf().map_err(|e| read_error(name, e))?;
        let is_wide = |encoding| encoding == UTF_16LE || encoding == UTF_16BE;
        let mark = Encoding::for_bom(head);
        let is_four =
            head.starts_with(&[0xff, 0xfe, 0, 0]) || head.starts_with(&[0, 0, 0xfe, 0xff]);
        let encoding = match (dialect.encoding, mark) {
            (None, _) if is_four && !plain => {
                let message = "this looks like UTF-32, which cannot be read; convert it to UTF-8, \
                               for example with iconv -f utf-32 -t utf-8";
                return Err(Error::invalid(format!("{name}: {message}")));
            }
            // The byte order mark takes precedence over the byte order of the named encoding.
            (Some(chosen), Some((found, _))) if is_wide(chosen) && is_wide(found) => Some(found),
            (None, Some((found, _))) if is_wide(found) && !plain => Some(found),
            (chosen, _) => chosen,
        };
        match (encoding, mark) {
            (encoding, Some((found, length))) if found == encoding.unwrap_or(UTF_8) => {
                reader.consume(length);
            }
            _ => {}
        }
        let decoding = encoding.map(|encoding| Decoding {
            decoder: encoding.new_decoder_without_bom_handling(),
            text: Vec::new(),
            at: 0,
            before: 0,
            malformed: VecDeque::new(),
            is_done: false,
        });
        Ok(TextInput { reader, decoding })
    }

    /// The name of the encoding, if what was consumed since the last call is not valid in it.
    pub(crate) fn malformed(&mut self) -> Option<&'static str> {
        let decoding = self.decoding.as_mut()?;
        let mut is_malformed = false;
        while decoding
            .malformed
            .front()
            .is_some_and(|at| *at < decoding.before + decoding.at as u64)
        {
            decoding.malformed.pop_front();
            is_malformed = true;
        }
        is_malformed.then(|| decoding.decoder.encoding().name())
    }
}

impl Decoding {
    /// Converts more bytes of the input if all of the text was consumed.
    fn fill(&mut self, reader: &mut dyn BufRead) -> io::Result<()> {
        while self.at == self.text.len() && !self.is_done {
            self.before += self.text.len() as u64;
            (self.at, self.text) = (0, std::mem::take(&mut self.text));
            self.text.clear();
            let bytes = reader.fill_buf()?;
            let bytes = &bytes[..bytes.len().min(CHUNK)];
            let (is_last, length) = (bytes.is_empty(), bytes.len());
            let mut rest = bytes;
            loop {
                let (start, more) = (self.text.len(), rest.len() * 3 + 16);
                self.text.resize(start + more, 0);
                let (result, read, written) = self.decoder.decode_to_utf8_without_replacement(
                    rest,
                    &mut self.text[start..],
                    is_last,
                );
                self.text.truncate(start + written);
                rest = &rest[read..];
                match result {
                    DecoderResult::InputEmpty => break,
                    DecoderResult::OutputFull => {}
                    DecoderResult::Malformed(..) => {
                        self.malformed.push_back(self.before + self.text.len() as u64);
                        self.text.extend_from_slice("\u{fffd}".as_bytes());
                    }
                }
            }
            reader.consume(length);
            self.is_done = is_last;
        }
        Ok(())
    }
}

impl Read for TextInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let length = available.len().min(buffer.len());
        buffer[..length].copy_from_slice(&available[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for TextInput {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match &mut self.decoding {
            None => self.reader.fill_buf(),
            Some(decoding) => {
                decoding.fill(&mut *self.reader)?;
                Ok(&decoding.text[decoding.at..])
            }
        }
    }

    fn consume(&mut self, amount: usize) {
        match &mut self.decoding {
            None => self.reader.consume(amount),
            Some(decoding) => decoding.at += amount,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// The text, with `capacity` bytes a read, and whether it has malformed bytes.
    fn read(bytes: &[u8], encoding: &str, capacity: usize) -> (String, bool) {
        let reader = BufReader::with_capacity(capacity, io::Cursor::new(bytes.to_vec()));
        let encoding = Encoding::for_label(encoding.as_bytes());
        let dialect = Dialect::default().encoding(encoding);
        let mut input = TextInput::new(Box::new(reader), "a", &dialect, false).unwrap();
        let mut text = String::new();
        input.read_to_string(&mut text).unwrap();
        (text, input.malformed().is_some())
    }

    #[test]
    fn encodings_are_converted_whatever_the_size_of_reads() {
        let wide = |text: &str, big: bool| -> Vec<u8> {
            let bytes = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
            text.encode_utf16().flat_map(bytes).collect()
        };
        let text = "a,\u{a0a}\u{1f600}\n\u{e9}\n";
        let marked = format!("\u{feff}{text}");
        for capacity in [4, 5, 7, 100] {
            assert_eq!(read(&wide(text, false), "utf-16", capacity), (text.to_string(), false));
            assert_eq!(read(&wide(text, true), "utf-16be", capacity), (text.to_string(), false));
            // The byte order mark decides, with and without a named encoding.
            for encoding in ["", "utf-16le", "utf-16be"] {
                for big in [false, true] {
                    let found = read(&wide(&marked, big), encoding, capacity);
                    assert_eq!(found, (text.to_string(), false), "{encoding} {big}");
                }
            }
            assert_eq!(read(marked.as_bytes(), "", capacity).0, text);
            assert_eq!(read(marked.as_bytes(), "utf-8", capacity).0, text);
            assert_eq!(read(b"\xe9\x80", "latin1", capacity).0, "\u{e9}\u{20ac}");
            // The second byte of this character is that of `|`.
            assert_eq!(read(b"\x8a\x7c", "shift_jis", capacity), ("\u{639b}".to_string(), false));
            assert_eq!(read(b"a\xffb", "utf-8", capacity), ("a\u{fffd}b".to_string(), true));
            assert_eq!(read(b"a\0b", "utf-16le", capacity), ("a\u{fffd}".to_string(), true));
        }
    }

    #[test]
    fn malformed_bytes_belong_to_what_was_consumed() {
        let dialect = Dialect::default().encoding(encoding_rs::UTF_8);
        let bytes = Box::new(&b"a\xff\nb\n\xff"[..]);
        let mut input = TextInput::new(bytes, "a", &dialect, false).unwrap();
        let mut lines = Vec::new();
        let mut line = Vec::new();
        while input.read_until(b'\n', &mut line).unwrap() > 0 {
            lines.push(input.malformed().is_some());
        }
        assert_eq!(lines, [true, false, true]);
    }

    #[test]
    fn four_bytes_a_character_are_refused() {
        let bytes = Box::new(&b"\xff\xfe\0\0a\0\0\0"[..]);
        let refused = TextInput::new(bytes, "a", &Dialect::default(), false).err().unwrap();
        assert!(refused.to_string().contains("UTF-32"), "{refused}");
        assert!(TextInput::new(Box::new(&b"\xff\xfe"[..]), "a", &Dialect::default(), true).is_ok());
    }
}
