//! The body of a response while it is written.

use serde_json::Value as Json;
use std::io::{self, Write};

/// The body of a response while it is written. It grows to its limit and not further, so that a
/// page of huge values does not take more memory than the response may.
pub struct Output {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl Output {
    pub fn new(limit: usize) -> Output {
        Output { bytes: Vec::new(), limit, is_full: false }
    }

    /// Whether something did not fit. What follows is not written either.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The number of bytes that still fit.
    pub fn room(&self) -> usize {
        self.limit - self.bytes.len()
    }

    /// Appends text.
    pub fn text(&mut self, text: &str) {
        let _ = self.write_all(text.as_bytes()); // Then it is full.
    }

    /// Appends JSON.
    pub fn json(&mut self, value: &Json) {
        let _ = serde_json::to_writer(self, value); // Fails if it is full.
    }

    /// Appends a line of JSON.
    pub fn line(&mut self, value: &Json) {
        self.json(value);
        self.text("\n");
    }

    /// The body; `None` if it would have exceeded the limit.
    pub fn finish(self) -> Option<Vec<u8>> {
        (!self.is_full).then_some(self.bytes)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_full || bytes.len() > self.room() {
            self.is_full = true;
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_body_ends_at_its_limit() {
        let body = |limit| {
            let mut output = Output::new(limit);
            output.line(&json!({ "a": [1, 2] }));
            output.text("x");
            output.finish()
        };
        assert_eq!(body(13).unwrap(), b"{\"a\":[1,2]}\nx");
        assert_eq!(body(12), None);
        assert_eq!(body(0), None);
        let mut output = Output::new(5);
        output.text("123456");
        assert!(output.is_full());
        output.text("1");
        assert_eq!(output.finish(), None, "what follows does not hide the gap");
    }
}
