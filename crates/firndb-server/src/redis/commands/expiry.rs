//! When keys expire.

use super::strings::int;
use super::{Fail, Outcome, text};
use crate::redis::codec::Args;
use crate::redis::reply::Out;
use crate::redis::unit;

/// The unit of a time, and whether it counts from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Millis,
    /// Seconds since 1970.
    AtSeconds,
    /// Milliseconds since 1970.
    AtMillis,
}

impl Unit {
    /// The unit of an option of SET.
    pub fn parse(name: &[u8]) -> Option<Unit> {
        Some(match name {
            b"EX" => Unit::Seconds,
            b"PX" => Unit::Millis,
            b"EXAT" => Unit::AtSeconds,
            b"PXAT" => Unit::AtMillis,
            _ => return None,
        })
    }

    fn is_seconds(self) -> bool {
        matches!(self, Unit::Seconds | Unit::AtSeconds)
    }

    fn is_relative(self) -> bool {
        matches!(self, Unit::Seconds | Unit::Millis)
    }

    /// The time that an argument of `command` names, in milliseconds since 1970. It must be
    /// positive.
    pub fn parse_time(self, argument: &[u8], now: u64, command: &str) -> Result<u64, Fail> {
        let given = int(argument)?;
        let at = self.time(given, now).filter(|_| given > 0);
        let at = at.and_then(|at| u64::try_from(at).ok()).filter(|at| *at > 0);
        at.ok_or_else(|| invalid_time(command))
    }

    /// The time in milliseconds since 1970; `None` if it is too large or too small.
    fn time(self, given: i64, now: u64) -> Option<i64> {
        let millis = if self.is_seconds() { given.checked_mul(1000)? } else { given };
        match self.is_relative() {
            true => millis.checked_add(i64::try_from(now).ok()?),
            false => Some(millis),
        }
    }
}

fn invalid_time(command: &str) -> Fail {
    Fail::Text(format!("ERR invalid expire time in '{command}' command").into())
}

/// EXPIRE key seconds [NX | XX | GT | LT]
pub fn expire<'a>(unit: &mut unit::Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    change(unit, args, out, Unit::Seconds, "expire")
}

/// PEXPIRE key milliseconds [NX | XX | GT | LT]
pub fn pexpire<'a>(unit: &mut unit::Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    change(unit, args, out, Unit::Millis, "pexpire")
}

/// EXPIREAT key unix-time-seconds [NX | XX | GT | LT]
pub fn expireat<'a>(unit: &mut unit::Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    change(unit, args, out, Unit::AtSeconds, "expireat")
}

/// PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]
pub fn pexpireat<'a>(unit: &mut unit::Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    change(unit, args, out, Unit::AtMillis, "pexpireat")
}

/// On what a change depends.
#[derive(Default)]
struct Flags {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Flags {
    fn parse(args: Args<'_>) -> Result<Flags, Fail> {
        let mut flags = Flags::default();
        for word in args.from(3) {
            match super::uppercase(word, &mut [0; 8]) {
                b"NX" => flags.nx = true,
                b"XX" => flags.xx = true,
                b"GT" => flags.gt = true,
                b"LT" => flags.lt = true,
                _ => {
                    let word = String::from_utf8_lossy(word);
                    return Err(Fail::Text(format!("ERR Unsupported option {word}").into()));
                }
            }
        }
        if flags.nx && (flags.xx || flags.gt || flags.lt) {
            return Err(text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if flags.gt && flags.lt {
            return Err(text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(flags)
    }

    /// Whether a record may expire at another time.
    fn allow(&self, old: Option<u64>, new: i64) -> bool {
        let old = old.map(|old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.nx && old.is_some()
            || self.xx && old.is_none()
            || self.gt && old.is_none_or(|old| new <= old)
            || self.lt && old.is_some_and(|old| new >= old))
    }
}

fn change<'a>(
    unit: &mut unit::Unit<'_, 'a>,
    args: Args<'a>,
    out: &mut Out,
    of: Unit,
    command: &str,
) -> Outcome {
    let flags = Flags::parse(args)?;
    let (given, now) = (int(args.at(2))?, unit.now());
    let new = of.time(given, now).ok_or_else(|| invalid_time(command))?;
    let key = args.at(1);
    let value = unit.read(key, |found| {
        let found = found.filter(|found| flags.allow(found.expires, new));
        found.map(|found| found.value.to_vec())
    })?;
    out.flag(value.is_some());
    let Some(value) = value else { return Ok(()) };
    match u64::try_from(new).ok().filter(|new| *new > now) {
        Some(new) => unit.put(key, value, Some(new))?,
        None => unit.delete(key)?,
    }
    Ok(())
}

/// PERSIST key
pub fn persist<'a>(unit: &mut unit::Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let key = args.at(1);
    let value = unit.read(key, |found| {
        found.filter(|found| found.expires.is_some()).map(|found| found.value.to_vec())
    })?;
    out.flag(value.is_some());
    if let Some(value) = value {
        unit.put(key, value, None)?;
    }
    Ok(())
}

/// TTL key
pub fn ttl<'a>(unit: &mut unit::Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let now = unit.now();
    show(unit, args, out, |at| seconds(at.saturating_sub(now)))
}

/// PTTL key
pub fn pttl<'a>(unit: &mut unit::Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let now = unit.now();
    show(unit, args, out, |at| at.saturating_sub(now))
}

/// EXPIRETIME key
pub fn expiretime<'a>(unit: &mut unit::Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    show(unit, args, out, seconds)
}

/// PEXPIRETIME key
pub fn pexpiretime<'a>(unit: &mut unit::Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    show(unit, args, out, |at| at)
}

/// Milliseconds as seconds, rounded to the nearest.
fn seconds(millis: u64) -> u64 {
    millis.saturating_add(500) / 1000
}

fn show<'a>(
    unit: &mut unit::Unit<'_, 'a>,
    args: Args<'a>,
    out: &mut Out,
    shown: impl FnOnce(u64) -> u64,
) -> Outcome {
    match unit.read(args.at(1), |found| found.map(|found| found.expires))? {
        None => out.integer(-2),
        Some(None) => out.integer(-1),
        Some(Some(at)) => out.count(shown(at)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_to_the_nearest() {
        assert_eq!([0, 499, 500, 1499, 1500].map(seconds), [0, 0, 1, 1, 2]);
        assert_eq!(seconds(u64::MAX), u64::MAX / 1000);
    }

    #[test]
    fn times_beyond_64_bits_are_refused() {
        let parse = |unit: Unit, text: &str| unit.parse_time(text.as_bytes(), 1_000, "set").ok();
        assert_eq!(parse(Unit::Seconds, "2"), Some(3_000));
        assert_eq!(parse(Unit::AtMillis, "1"), Some(1));
        assert_eq!(parse(Unit::Millis, "9223372036854774807"), Some(i64::MAX as u64));
        for text in ["0", "-1", "9223372036854774808", "x"] {
            assert_eq!(parse(Unit::Millis, text), None, "{text}");
        }
        assert_eq!(parse(Unit::Seconds, "9223372036854775"), None);
    }
}
