//! The binary form of bodies: lengths and bytes.
//!
//! ```text
//! SIZE  FIELD
//! 4     length of the bytes, little-endian
//! n     the bytes
//! ```
//!
//! The body of a `:mget` is one such field per key. Its response has one field per key, in the same
//! order, which holds the value; the length 0xFFFFFFFF, without bytes, means that the key is
//! absent. The response of a `:scan` has two fields per record, the key and the value; the value is
//! absent if only keys were asked for.

use crate::http::Problem;

/// The length that means "absent".
pub const ABSENT: u32 = u32::MAX;

/// Reads fields from a body.
pub struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    /// Reads a body.
    pub fn new(body: &'a [u8]) -> Frames<'a> {
        Frames { rest: body }
    }

    /// Whether the body ends here.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let (first, rest) = self.rest.split_first_chunk().ok_or_else(truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    /// A length and its bytes.
    pub fn field(&mut self) -> Result<&'a [u8], Problem> {
        let len = u32::from_le_bytes(self.array()?) as usize;
        let (field, rest) = self.rest.split_at_checked(len).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(field)
    }
}

fn truncated() -> Problem {
    Problem::bad_request("the body ends within a field: a length is wrong")
}

/// Appends a field; `None` is absent.
pub fn push(out: &mut Vec<u8>, field: Option<&[u8]>) -> Result<(), Problem> {
    let Some(bytes) = field else {
        out.extend_from_slice(&ABSENT.to_le_bytes());
        return Ok(());
    };
    let len = u32::try_from(bytes.len()).ok().filter(|len| *len != ABSENT);
    let len = len.ok_or_else(|| Problem::too_large("a value is too long for the binary form"))?;
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_lengths() {
        let mut out = Vec::new();
        for field in [Some(&b"ab"[..]), Some(b""), None] {
            push(&mut out, field).unwrap();
        }
        #[rustfmt::skip]
        assert_eq!(out, [
            2, 0, 0, 0, b'a', b'b',
            0, 0, 0, 0,
            0xff, 0xff, 0xff, 0xff,     // absent
        ]);
        let mut frames = Frames::new(&out[..10]);
        assert_eq!(frames.field().unwrap(), b"ab");
        assert!(!frames.is_empty());
        assert_eq!(frames.field().unwrap(), b"");
        assert!(frames.is_empty());
    }

    #[test]
    fn truncated_fields_are_errors() {
        for body in [&[1][..], &[1, 0, 0], &[1, 0, 0, 0], &[0xff; 8], &[3, 0, 0, 0, 1, 2]] {
            assert!(Frames::new(body).field().is_err(), "{body:?}");
        }
        assert!(Frames::new(&[]).field().is_err());
    }
}
