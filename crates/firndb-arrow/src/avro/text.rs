//! Dates, times, durations and decimals as text.

use crate::avro::Unit;
use firndb::search::timestamp_to_text;
use num_bigint::BigInt;

const DAY: i64 = 86_400_000_000;

/// A day as `2024-01-31`; `None` outside the years -9999 to 9999.
pub(crate) fn date(days: i64) -> Option<String> {
    let text = timestamp_to_text(days.checked_mul(DAY)?);
    text.split_once('T').map(|(date, _)| date.to_string())
}

/// A time of day as `12:34:56`, with a fraction of the second if it is not zero.
pub(crate) fn time(value: i64, unit: Unit) -> String {
    let (sign, seconds, fraction) = split(value, unit);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{fraction}")
}

/// A duration in seconds, as ISO 8601 has it: `PT1.5S`.
pub(crate) fn duration(value: i64, unit: Unit) -> String {
    let (sign, seconds, fraction) = split(value, unit);
    format!("{sign}PT{seconds}{fraction}S")
}

/// The sign, the whole seconds, and the fraction with its point, without zeros at its end.
fn split(value: i64, unit: Unit) -> (&'static str, u64, String) {
    let sign = if value < 0 { "-" } else { "" };
    let second = unit.per_second().unsigned_abs();
    let (seconds, fraction) = (value.unsigned_abs() / second, value.unsigned_abs() % second);
    (sign, seconds, fraction_text(fraction, unit))
}

fn fraction_text(fraction: u64, unit: Unit) -> String {
    let digits = unit.per_second().ilog10() as usize;
    match fraction {
        0 => String::new(),
        fraction => format!(".{fraction:0digits$}").trim_end_matches('0').to_string(),
    }
}

/// A time since 1970 as RFC 3339, without the `Z` for a local time; `None` outside the years -9999
/// to 9999.
pub(crate) fn timestamp(value: i64, unit: Unit, local: bool) -> Option<String> {
    let second = unit.per_second();
    let (seconds, fraction) = (value.div_euclid(second), value.rem_euclid(second));
    let date = date(seconds.div_euclid(86_400))?;
    let time = time(seconds.rem_euclid(86_400), Unit::Seconds);
    let fraction = fraction_text(fraction.unsigned_abs(), unit);
    let zone = if local { "" } else { "Z" };
    Some(format!("{date}T{time}{fraction}{zone}"))
}

/// The decimal number whose unscaled integer is given in two's complement, most significant byte
/// first.
pub(crate) fn decimal(bytes: &[u8], scale: u32) -> String {
    // Conversion is quadratic. No writer of tables needs as many digits.
    if bytes.len() > 128 || scale > 400 {
        return format!("0x{} / 10^{scale}", hex::encode(bytes));
    }
    let unscaled = BigInt::from_signed_bytes_be(bytes);
    let (sign, scale) = (if unscaled < BigInt::ZERO { "-" } else { "" }, scale as usize);
    let digits = format!("{:0>width$}", unscaled.magnitude().to_string(), width = scale + 1);
    match digits.split_at(digits.len() - scale) {
        (whole, "") => format!("{sign}{whole}"),
        (whole, fraction) => format!("{sign}{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_one_range_of_years() {
        assert_eq!(date(0).unwrap(), "1970-01-01");
        assert_eq!(date(-1).unwrap(), "1969-12-31");
        assert_eq!(date(-719_162).unwrap(), "0001-01-01");
        assert_eq!(date(-719_163).unwrap(), "0000-12-31");
        assert_eq!(date(-719_529).unwrap(), "-000001-12-31");
        assert_eq!(date(2_932_896).unwrap(), "9999-12-31");
        assert_eq!((date(2_932_897), date(i64::MAX), date(i64::MIN)), (None, None, None));
        assert_eq!(
            (date(11_015), date(11_016)),
            (Some("2000-02-28".into()), Some("2000-02-29".into()))
        );
        assert_eq!(
            (date(47_540), date(47_541)),
            (Some("2100-02-28".into()), Some("2100-03-01".into()))
        );
    }

    #[test]
    fn times_keep_their_fractions_and_signs() {
        assert_eq!(time(45_296_000_000, Unit::Micros), "12:34:56");
        assert_eq!(time(1_500, Unit::Micros), "00:00:00.0015");
        assert_eq!(time(86_399_999_999_999, Unit::Nanos), "23:59:59.999999999");
        assert_eq!(time(-1, Unit::Millis), "-00:00:00.001");
        assert_eq!(duration(5, Unit::Seconds), "PT5S");
        assert_eq!(duration(-1_500, Unit::Millis), "-PT1.5S");
        assert_eq!(duration(i64::MIN, Unit::Nanos), "-PT9223372036.854775808S");
        assert_eq!(duration(i64::MAX, Unit::Seconds), format!("PT{}S", i64::MAX));
    }

    #[test]
    fn timestamps_are_rfc_3339() {
        let at = |value, unit, local| timestamp(value, unit, local).unwrap();
        assert_eq!(at(0, Unit::Millis, false), "1970-01-01T00:00:00Z");
        assert_eq!(at(1_500, Unit::Millis, true), "1970-01-01T00:00:01.5");
        assert_eq!(at(-1, Unit::Nanos, false), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(at(1_000_000_010, Unit::Nanos, false), "1970-01-01T00:00:01.00000001Z");
        assert_eq!(at(253_402_300_799_999, Unit::Millis, false), "9999-12-31T23:59:59.999Z");
        assert_eq!(at(-62_167_219_200, Unit::Seconds, false), "0000-01-01T00:00:00Z");
        for value in [253_402_300_800_000, i64::MAX, i64::MIN] {
            assert_eq!(timestamp(value, Unit::Millis, true), None);
        }
    }

    #[test]
    fn decimals_keep_all_digits() {
        let decimal = |value: i128, scale| decimal(&value.to_be_bytes(), scale);
        assert_eq!((decimal(12345, 2), decimal(-5, 3)), ("123.45".into(), "-0.005".into()));
        assert_eq!((decimal(0, 2), decimal(-100, 0)), ("0.00".into(), "-100".into()));
        for value in [i128::MAX, i128::MIN, -1, -255, -256, 10_i128.pow(30)] {
            assert_eq!(decimal(value, 0), value.to_string());
        }
    }
}
