//! Floating-point numbers of 80 bits, in which Redis computes INCRBYFLOAT.
//!
//! Redis uses `long double` of x86: 64 bits of precision. Its results must come out the same, so
//! the arithmetic is done here on whole numbers: exactly, and rounded once to 64 bits.

use num_bigint::BigUint;
use std::cmp::Ordering;

/// A finite number: `mantissa * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Float {
    is_negative: bool,
    mantissa: u64,
    exponent: i32,
}

/// A number, or infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A number.
    Finite(Float),
    /// A sign and nothing else.
    Infinite,
}

/// The exponents of the largest and the smallest numbers.
const EXPONENT_MAX: i64 = 16_383 - 63;
const EXPONENT_MIN: i64 = -16_382 - 63;
/// Longest text of a number.
const TEXT_MAX: usize = 5 * 1024 - 1;
/// Digits after the point.
const DECIMALS: usize = 17;

impl Float {
    /// The number of a text, as `strtold` reads it. `None` if it is not a number, or is too large
    /// or too small.
    pub fn parse(text: &[u8]) -> Option<Parsed> {
        let (is_negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if text.len() > TEXT_MAX {
            return None;
        }
        if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
            return Some(Parsed::Infinite);
        }
        let (value, exponent, base) = match digits {
            [b'0', b'x' | b'X', hex @ ..] => {
                let (value, places, exponent) = scan(hex, 16, *b"pP")?;
                (value, exponent - 4 * places, 2u32)
            }
            _ => {
                let (value, places, exponent) = scan(digits, 10, *b"eE")?;
                (value, exponent - places, 10)
            }
        };
        let zero = Float { is_negative, mantissa: 0, exponent: 0 };
        if value == BigUint::ZERO {
            return Some(Parsed::Finite(zero));
        }
        // Beyond this the number is too large or too small whatever its digits are.
        let power = u32::try_from(exponent.unsigned_abs()).ok().filter(|e| *e < 60_000)?;
        let power = BigUint::from(base).pow(power);
        let one = BigUint::from(1u8);
        let (above, below) = if exponent < 0 { (value, power) } else { (value * power, one) };
        Float::round(is_negative, &above, &below).filter(|f| f.mantissa != 0).map(Parsed::Finite)
    }

    /// The sum; `None` if it is too large.
    pub fn plus(self, other: Float) -> Option<Float> {
        let lowest = self.exponent.min(other.exponent);
        let whole = |f: Float| BigUint::from(f.mantissa) << (f.exponent - lowest) as u32;
        let (a, b) = (whole(self), whole(other));
        let (is_negative, sum) = match (self.is_negative == other.is_negative, a.cmp(&b)) {
            (true, _) => (self.is_negative, a + b),
            (false, Ordering::Equal) => (false, BigUint::ZERO),
            (false, Ordering::Greater) => (self.is_negative, a - b),
            (false, Ordering::Less) => (other.is_negative, b - a),
        };
        if sum == BigUint::ZERO {
            return Some(Float { is_negative, mantissa: 0, exponent: 0 });
        }
        let (above, below) = scaled(sum, lowest);
        Float::round(is_negative, &above, &below)
    }

    /// The text with up to 17 digits after the point, and without zeros at its end.
    pub fn text(self) -> String {
        let value = BigUint::from(self.mantissa) * BigUint::from(10u8).pow(DECIMALS as u32);
        let (above, below) = scaled(value, self.exponent);
        let (mut digits, rest) = (&above / &below, &above % &below);
        let half = (rest * 2u8).cmp(&below);
        if half == Ordering::Greater || (half == Ordering::Equal && digits.bit(0)) {
            digits += 1u8;
        }
        let digits = format!("{:0>1$}", digits.to_string(), DECIMALS + 1);
        let (whole, decimals) = digits.split_at(digits.len() - DECIMALS);
        let decimals = decimals.trim_end_matches('0');
        let text = match decimals.is_empty() {
            true => whole.to_string(),
            false => format!("{whole}.{decimals}"),
        };
        if self.is_negative && text != "0" { format!("-{text}") } else { text }
    }

    /// The number nearest to a fraction that is not 0; the even one of two. `None` if it is too
    /// large.
    fn round(is_negative: bool, above: &BigUint, below: &BigUint) -> Option<Float> {
        // With this shift the quotient has 64 or 65 bits.
        let mut shift = 64 - (above.bits() as i64 - below.bits() as i64);
        let divide = |shift: i64| match u64::try_from(shift) {
            Ok(left) => ((above << left) / below, (above << left) % below, below.clone()),
            Err(_) => {
                let below = below << shift.unsigned_abs();
                (above / &below, above % &below, below)
            }
        };
        if divide(shift).0.bits() == 65 {
            shift -= 1;
        }
        shift = shift.min(-EXPONENT_MIN);
        let (quotient, rest, below) = divide(shift);
        let mut mantissa = u64::try_from(quotient).ok()?;
        let half = (rest * 2u8).cmp(&below);
        if half == Ordering::Greater || (half == Ordering::Equal && mantissa & 1 == 1) {
            mantissa = match mantissa.checked_add(1) {
                Some(more) => more,
                None => {
                    shift -= 1;
                    1 << 63
                }
            };
        }
        let exponent = -shift;
        let valid = exponent <= EXPONENT_MAX;
        valid.then_some(Float { is_negative, mantissa, exponent: exponent as i32 })
    }
}

/// `value * 2^exponent` as a fraction.
fn scaled(value: BigUint, exponent: i32) -> (BigUint, BigUint) {
    let one = BigUint::from(1u8);
    match u32::try_from(exponent) {
        Ok(left) => (value << left, one),
        Err(_) => (value, one << exponent.unsigned_abs()),
    }
}

/// The digits of a text without its point, the number of digits after the point, and the exponent.
fn scan(text: &[u8], radix: u32, marks: [u8; 2]) -> Option<(BigUint, i64, i64)> {
    let end = text.iter().position(|c| marks.contains(c)).unwrap_or(text.len());
    let (number, exponent) = text.split_at(end);
    let point = number.iter().position(|c| *c == b'.').unwrap_or(number.len());
    let places = number.len().saturating_sub(point + 1);
    let digits: Vec<u8> = [&number[..point], &number[number.len() - places..]].concat();
    if digits.is_empty() || !digits.iter().all(|c| char::from(*c).is_digit(radix)) {
        return None;
    }
    let value = BigUint::parse_bytes(&digits, radix)?;
    let exponent = match exponent {
        [] => 0,
        [_, sign @ (b'+' | b'-'), digits @ ..] => {
            let size = exponent_size(digits)?;
            if *sign == b'-' { -size } else { size }
        }
        [_, digits @ ..] => exponent_size(digits)?,
    };
    Some((value, places as i64, exponent))
}

/// An exponent's digits; a large one counts as one that is too large.
fn exponent_size(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let text = std::str::from_utf8(digits).ok()?;
    Some(text.parse::<i64>().map_or(1 << 40, |size| size.min(1 << 40)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finite(text: &str) -> Option<Float> {
        match Float::parse(text.as_bytes()) {
            Some(Parsed::Finite(float)) => Some(float),
            _ => None,
        }
    }

    fn sum(a: &str, b: &str) -> Option<String> {
        finite(a)?.plus(finite(b)?).map(Float::text)
    }

    #[test]
    fn sums_are_those_of_redis() {
        // From a server of version 7.0.15 on x86-64.
        let cases = [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3", "0"),
            ("-0", "-0", "0"),
            ("1e20", "1", "100000000000000000000"),
            ("1e-18", "0", "0"),
            ("0x10", "0x1p-1", "16.5"),
            (".5", "5.", "5.5"),
            ("1e-17", "5e-18", "0.00000000000000002"),
            ("9.999999999999999999", "0", "10"),
            ("0x.8", "0x1.8p1", "3.5"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1e19", "0.1", "10000000000000000000"),
        ];
        for (a, b, expected) in cases {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
    }

    #[test]
    fn what_is_not_a_finite_number_is_refused() {
        let wrong =
            ["", "-", ".", "e5", "1e", "1e+", "1 ", " 1", "1f", "nan", "0x", "1e5000", "--1"];
        for text in wrong.into_iter().chain(["1e-5000", "1e99999999999999999999", "0x1p", "1,5"]) {
            assert_eq!(Float::parse(text.as_bytes()), None, "{text}");
        }
        for text in ["inf", "-Inf", "+INFINITY"] {
            assert_eq!(Float::parse(text.as_bytes()), Some(Parsed::Infinite));
        }
        let most = finite("1.189731495357231765e4932").unwrap();
        assert_eq!(most.plus(most), None);
        assert_eq!(Float::parse(b"1.1898e4932"), None);
        assert!(finite("0e99999999999999").is_some() && finite("4e-4951").is_some());
    }
}
