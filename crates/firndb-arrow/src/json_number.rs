//! Numbers of JSON texts in the narrowest type that keeps all of their digits.

use serde_json::Number;

/// A number of a JSON text. If no machine type holds its value, the text is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonNumber {
    /// An integer of 64 bits, signed.
    Int(i64),
    /// An integer beyond the signed range.
    Uint(u64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// `-0`, which would lose its sign as an integer.
    NegativeZero,
    /// The text of any other number: an integer beyond 64 bits, or a number that is too large for
    /// an f64, or so small that it would become zero.
    Other(String),
}

impl From<&Number> for JsonNumber {
    fn from(number: &Number) -> JsonNumber {
        let text = number.as_str();
        match (number.as_i64(), number.as_u64()) {
            (Some(0), _) if text == "-0" => JsonNumber::NegativeZero,
            (Some(v), _) => JsonNumber::Int(v),
            (_, Some(v)) => JsonNumber::Uint(v),
            _ => match parse_f64(text).filter(|_| number.is_f64()) {
                Some(v) => JsonNumber::Float(v),
                None => JsonNumber::Other(text.to_string()),
            },
        }
    }
}

/// Parses a number, or a word for infinity. `None` for a number that overflows an
/// f64, or that is not zero and would become zero.
pub fn parse_f64(text: &str) -> Option<f64> {
    let (text, v) = (text.trim(), text.trim().parse::<f64>().ok()?);
    let is_word = !text.contains(|c: char| c.is_ascii_digit());
    let digits = text.split(['e', 'E']).next().unwrap_or_default();
    let vanishes = v == 0.0 && digits.contains(|c: char| ('1'..='9').contains(&c));
    (v.is_finite() && !vanishes || v.is_infinite() && is_word).then_some(v)
}
