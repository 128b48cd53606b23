//! Values: SET, GET and what is between them.

use super::{Fail, Outcome, expiry, text};
use crate::redis::codec::Args;
use crate::redis::number::integer;
use crate::redis::reply::Out;
use crate::redis::unit::Unit;

/// GET key
pub fn get<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    unit.read(args.at(1), |found| out.bulk_or_null(found.map(|found| found.value)))?;
    Ok(())
}

/// STRLEN key
pub fn strlen<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let length = unit.read(args.at(1), |found| found.map_or(0, |found| found.value.len()))?;
    out.count(length as u64);
    Ok(())
}

/// GETRANGE key start end
pub fn getrange<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let (start, end) = (int(args.at(2))?, int(args.at(3))?);
    unit.read(args.at(1), |found| {
        let value = found.map_or(&[][..], |found| found.value);
        out.bulk(range(value, start, end));
    })?;
    Ok(())
}

/// The bytes from `start` to `end`; negative positions count from the end.
fn range(value: &[u8], start: i64, end: i64) -> &[u8] {
    let length = value.len() as i64; // No value is near 2^63 bytes.
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let absolute = |n: i64| if n < 0 { n.saturating_add(length).max(0) } else { n };
    let (start, end) = (absolute(start), absolute(end).min(length - 1));
    match start <= end {
        true => &value[start as usize..=end as usize],
        false => &[],
    }
}

/// MGET key [key ...]
pub fn mget<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    out.array(args.count() - 1);
    let most = out.len().saturating_add(unit.limits.response_bytes);
    unit.read_many(args, 1, |value| {
        out.bulk_or_null(value);
        out.len() <= most
    })?;
    match out.len() <= most {
        true => Ok(()),
        false => Err(Fail::TooLarge),
    }
}

/// What the words after the value of SET, or the key of GETEX, say.
#[derive(Default)]
struct Options<'a> {
    must_be_absent: bool,
    must_exist: bool,
    returns_old: bool,
    keeps_expiry: bool,
    persists: bool,
    expiry: Option<(expiry::Unit, &'a [u8])>,
}

impl<'a> Options<'a> {
    /// Parses the words from argument `first` on; some are for SET alone.
    fn parse(args: Args<'a>, first: usize, is_set: bool) -> Result<Options<'a>, Fail> {
        let mut options = Options::default();
        let mut words = args.from(first);
        while let Some(word) = words.next() {
            let mut name = [0; 8];
            let is_timed = options.expiry.is_some();
            match super::uppercase(word, &mut name) {
                b"NX" if is_set && !options.must_exist => options.must_be_absent = true,
                b"XX" if is_set && !options.must_be_absent => options.must_exist = true,
                b"GET" if is_set => options.returns_old = true,
                b"KEEPTTL" if is_set && !is_timed => options.keeps_expiry = true,
                b"PERSIST" if !is_set && !is_timed => options.persists = true,
                name => {
                    let unit = expiry::Unit::parse(name);
                    let same = |unit| options.expiry.is_none_or(|(known, _)| known == unit);
                    let free = !options.keeps_expiry && !options.persists;
                    let unit = unit.filter(|unit| free && same(*unit)).ok_or(Fail::Syntax)?;
                    options.expiry = Some((unit, words.next().ok_or(Fail::Syntax)?));
                }
            }
        }
        Ok(options)
    }
}

/// SET key value [NX | XX] [GET] [EX | PX | EXAT | PXAT time | KEEPTTL]
pub fn set<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    let options = Options::parse(args, 3, true)?;
    let new = match options.expiry {
        Some((of, time)) => Some(of.parse_time(time, unit.now(), "set")?),
        None => None,
    };
    let depends = options.must_be_absent || options.must_exist || options.keeps_expiry;
    let mut expires = new;
    if depends || options.returns_old {
        let (exists, old) = unit.read(key, |found| {
            if options.returns_old {
                out.bulk_or_null(found.map(|found| found.value));
            }
            (found.is_some(), found.and_then(|found| found.expires))
        })?;
        if (options.must_be_absent && exists) || (options.must_exist && !exists) {
            if !options.returns_old {
                out.null();
            }
            return Ok(());
        }
        if options.keeps_expiry {
            expires = old;
        }
    }
    unit.put(key, value, expires)?;
    if !options.returns_old {
        out.ok();
    }
    Ok(())
}

/// SETNX key value
pub fn setnx<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let exists = unit.read(args.at(1), |found| found.is_some())?;
    if !exists {
        unit.put(args.at(1), args.at(2), None)?;
    }
    out.flag(!exists);
    Ok(())
}

/// SETEX key seconds value
pub fn setex<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    set_for(unit, args, out, expiry::Unit::Seconds, "setex")
}

/// PSETEX key milliseconds value
pub fn psetex<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    set_for(unit, args, out, expiry::Unit::Millis, "psetex")
}

fn set_for<'a>(
    unit: &mut Unit<'_, 'a>,
    args: Args<'a>,
    out: &mut Out,
    of: expiry::Unit,
    command: &str,
) -> Outcome {
    let expires = of.parse_time(args.at(2), unit.now(), command)?;
    unit.put(args.at(1), args.at(3), Some(expires))?;
    out.ok();
    Ok(())
}

/// GETSET key value
pub fn getset<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    get(unit, args, out)?;
    unit.put(args.at(1), args.at(2), None)?;
    Ok(())
}

/// GETDEL key
pub fn getdel<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let exists = unit.read(args.at(1), |found| {
        out.bulk_or_null(found.map(|found| found.value));
        found.is_some()
    })?;
    if exists {
        unit.delete(args.at(1))?;
    }
    Ok(())
}

/// GETEX key [EX | PX | EXAT | PXAT time | PERSIST]
pub fn getex<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let options = Options::parse(args, 2, false)?;
    let key = args.at(1);
    let found = unit.read(key, |found| found.map(|f| (f.value.to_vec(), f.expires)))?;
    let Some((value, old)) = found else {
        out.null();
        return Ok(());
    };
    let now = unit.now();
    let new = match options.expiry {
        Some((of, time)) => Some(of.parse_time(time, now, "getex")?),
        None => None,
    };
    out.bulk(&value);
    match new {
        Some(at) if at <= now => unit.delete(key)?,
        Some(_) => unit.put(key, value, new)?,
        None if options.persists && old.is_some() => unit.put(key, value, None)?,
        None => {}
    }
    Ok(())
}

/// APPEND key value
pub fn append<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let (key, more) = (args.at(1), args.at(2));
    let most = unit.limits.body_bytes;
    let longer = unit.read(key, |found| {
        let (old, expires) = found.map_or((&[][..], None), |found| (found.value, found.expires));
        let fits = old.len() + more.len() <= most;
        fits.then(|| ([old, more].concat(), expires))
    })?;
    let Some((value, expires)) = longer else {
        return Err(text("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    };
    out.count(value.len() as u64);
    unit.put(key, value, expires)?;
    Ok(())
}

/// MSET key value [key value ...]
pub fn mset<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    put_all(unit, args, "mset")?;
    out.ok();
    Ok(())
}

/// MSETNX key value [key value ...]
pub fn msetnx<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    if args.count().is_multiple_of(2) {
        return Err(Fail::arity("msetnx"));
    }
    for key in args.from(1).step_by(2) {
        if unit.read(key, |found| found.is_some())? {
            out.flag(false);
            return Ok(());
        }
    }
    put_all(unit, args, "msetnx")?;
    out.flag(true);
    Ok(())
}

fn put_all<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, command: &str) -> Outcome {
    if args.count().is_multiple_of(2) {
        return Err(Fail::arity(command));
    }
    // Either all keys can be written or none is.
    args.from(1).step_by(2).try_for_each(super::check_key)?;
    for n in (1..args.count()).step_by(2) {
        unit.put(args.at(n), args.at(n + 1), None)?;
    }
    Ok(())
}

/// An integer argument.
pub fn int(text: &[u8]) -> Result<i64, Fail> {
    integer(text).ok_or(Fail::NotAnInteger)
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_are_those_of_redis() {
        let cases = [
            (0, 3, "This"),
            (-3, -1, "ing"),
            (0, -1, "This is a string"),
            (10, 100, "string"),
            (-100, 3, "This"),
            (5, 3, ""),
            (-1, -5, ""),
            (i64::MIN, i64::MAX, "This is a string"),
            (16, 20, ""),
            (-5, -100, ""),
            (0, i64::MIN, "T"),
        ];
        for (start, end, expected) in cases {
            assert_eq!(
                range(b"This is a string", start, end),
                expected.as_bytes(),
                "{start} {end}"
            );
        }
        assert_eq!(range(b"", 0, -1), b"");
        assert_eq!(range(b"", i64::MIN, i64::MIN), b"");
    }
}
