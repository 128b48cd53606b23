//! Writes replies, in the form of RESP2 or RESP3.

/// The replies of a connection that were not sent yet.
#[derive(Debug, Default)]
pub struct Out {
    bytes: Vec<u8>,
    /// Whether the client has chosen RESP3.
    pub is_resp3: bool,
    /// The number of errors so far.
    pub errors: u64,
}

/// A place between two replies: see [`Out::mark`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    len: usize,
    errors: u64,
}

/// Memory that is kept for the next replies.
const KEPT: usize = 64 << 10;

impl Out {
    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes to send.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was written so far.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { len: self.bytes.len(), errors: self.errors }
    }

    /// Removes what was written after a mark.
    pub fn rewind(&mut self, mark: Mark) {
        self.bytes.truncate(mark.len);
        self.errors = mark.errors;
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        match self.bytes.capacity() > KEPT {
            true => self.bytes = Vec::new(),
            false => self.bytes.clear(),
        }
    }

    /// Appends finished replies.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// `OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// A short text without line breaks.
    pub fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An error. Its first word is its kind. Line breaks become spaces.
    pub fn error(&mut self, text: &str) {
        self.errors += 1;
        self.bytes.push(b'-');
        let plain = |c: u8| if c == b'\r' || c == b'\n' { b' ' } else { c };
        self.bytes.extend(text.trim_end_matches(['\r', '\n']).bytes().map(plain));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// A count.
    pub fn count(&mut self, value: u64) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// 1 or 0.
    pub fn flag(&mut self, value: bool) {
        self.integer(i64::from(value));
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, value: &[u8]) {
        self.bytes.reserve(value.len() + 32);
        self.length(b'$', value.len());
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An integer as a string.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// A string, or nothing.
    #[inline]
    pub fn bulk_or_null(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.bulk(value),
            None => self.null(),
        }
    }

    /// A text for people, of which RESP3 clients learn that it is one.
    pub fn verbatim(&mut self, text: &str) {
        if !self.is_resp3 {
            return self.bulk(text.as_bytes());
        }
        self.length(b'=', text.len() + 4);
        self.bytes.extend_from_slice(b"txt:");
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Nothing, in place of a string.
    #[inline]
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Nothing, in place of an array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// The beginning of an array.
    pub fn array(&mut self, len: usize) {
        self.length(b'*', len);
    }

    /// The beginning of a map, followed by keys and values by turns.
    pub fn map(&mut self, len: usize) {
        match self.is_resp3 {
            true => self.length(b'%', len),
            false => self.length(b'*', 2 * len),
        }
    }

    /// The beginning of a set.
    pub fn set(&mut self, len: usize) {
        self.length(if self.is_resp3 { b'~' } else { b'*' }, len);
    }

    #[inline]
    fn length(&mut self, kind: u8, len: usize) {
        self.header(kind, len as i64); // No length is near 2^63.
    }

    #[inline]
    fn header(&mut self, kind: u8, value: i64) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_form_of_the_protocol() {
        let write = |is_resp3| {
            let mut out = Out { is_resp3, ..Out::default() };
            out.ok();
            out.simple("PONG");
            out.error("ERR a\r\nb\r\n");
            out.integer(i64::MIN);
            out.bulk(b"a\0b");
            out.null();
            out.null_array();
            out.map(1);
            out.set(2);
            out.verbatim("x");
            String::from_utf8(out.bytes().to_vec()).unwrap()
        };
        let common = "+OK\r\n+PONG\r\n-ERR a  b\r\n:-9223372036854775808\r\n$3\r\na\0b\r\n";
        let two = "$-1\r\n*-1\r\n*2\r\n*2\r\n$1\r\nx\r\n";
        let three = "_\r\n_\r\n%1\r\n~2\r\n=5\r\ntxt:x\r\n";
        assert_eq!(write(false), format!("{common}{two}"));
        assert_eq!(write(true), format!("{common}{three}"));
    }
}
