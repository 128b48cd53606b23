//! Integers as Redis reads them.

/// The integer of a text in its only form: digits without a plus sign or leading zeros.
pub fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        _ => (false, text),
    };
    match digits {
        b"0" => return (!is_negative).then_some(0),
        [] | [b'0', ..] => return None,
        _ if digits.len() > 19 => return None,
        _ => {}
    }
    let mut value = 0u64; // 19 digits fit.
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    match is_negative {
        true if value <= 1 << 63 => Some((value as i64).wrapping_neg()),
        true => None,
        false => i64::try_from(value).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::integer;

    #[test]
    fn integers_have_one_form() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN, i64::MIN + 1, 1_000_000_007] {
            assert_eq!(integer(value.to_string().as_bytes()), Some(value));
        }
        let wrong = ["", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "0x1", "9223372036854775808"];
        for text in wrong.into_iter().chain(["-9223372036854775809", "99999999999999999999"]) {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
    }
}
