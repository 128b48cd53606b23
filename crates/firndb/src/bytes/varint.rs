//! Encodes numbers below 2^21 as LEB128, and converts the first bytes of a key to a number.

/// Appends a number: 7 bits per byte, the lowest first; all bytes but the last have bit 7.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut v: usize) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Decodes the number at `at` and moves `at` to its end. `None` if it is truncated or too large.
#[inline(always)]
pub(crate) fn varint(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 { Some(first.into()) } else { long_varint(bytes, first, at) }
}

#[cold]
fn long_varint(bytes: &[u8], first: u8, at: &mut usize) -> Option<usize> {
    let mut value = usize::from(first & 0x7F);
    for shift in [7, 14] {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= usize::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The first eight bytes of a key as a big-endian number; a shorter key is padded with zeros. Where
/// the numbers of two keys differ, they have the order of the keys.
#[inline]
pub(crate) fn beginning(key: &[u8]) -> u64 {
    u64::from_be_bytes(first_bytes(key))
}

/// [`beginning`] of 16 bytes.
#[inline]
pub(crate) fn long_beginning(key: &[u8]) -> u128 {
    u128::from_be_bytes(first_bytes(key))
}

/// The first `N` bytes of a key; a shorter key is padded with zeros.
#[inline]
fn first_bytes<const N: usize>(key: &[u8]) -> [u8; N] {
    key.first_chunk().copied().unwrap_or_else(|| {
        let mut bytes = [0; N];
        bytes[..key.len()].copy_from_slice(key);
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_two_to_21_round_trip() {
        for v in [0, 1, 127, 128, 300, (1 << 14) - 1, 1 << 14, (1 << 21) - 1] {
            let mut bytes = vec![7];
            put_varint(&mut bytes, v);
            let mut at = 1;
            assert_eq!((varint(&bytes, &mut at), at), (Some(v), bytes.len()));
            for length in 1..bytes.len() {
                assert_eq!(varint(&bytes[..length], &mut 1), None, "{v}, {length} bytes");
            }
        }
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 300);
        assert_eq!(bytes, [0xAC, 2]);
        assert_eq!(varint(&[0xFF, 0xFF, 0xFF, 1], &mut 0), None, "too large");
    }

    #[test]
    fn beginnings_have_the_order_of_keys() {
        assert_eq!(beginning(b""), 0);
        assert_eq!(beginning(&[1, 2]), 0x0102 << 48);
        assert_eq!(beginning(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 0x0102_0304_0506_0708);
        assert_eq!(long_beginning(b""), 0);
        assert_eq!(long_beginning(&[1, 2]), 0x0102 << 112);
        assert_eq!(long_beginning(&[7; 17]), u128::from_be_bytes([7; 16]));
    }
}
