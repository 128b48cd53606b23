//! Counters: INCR, DECR, INCRBYFLOAT.

use super::strings::int;
use super::{Fail, Outcome, text};
use crate::redis::codec::Args;
use crate::redis::float::{Float, Parsed};
use crate::redis::number::integer;
use crate::redis::reply::Out;
use crate::redis::unit::Unit;

/// INCR key
pub fn incr<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    add(unit, args.at(1), 1, out)
}

/// DECR key
pub fn decr<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    add(unit, args.at(1), -1, out)
}

/// INCRBY key increment
pub fn incrby<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    add(unit, args.at(1), int(args.at(2))?, out)
}

/// DECRBY key decrement
pub fn decrby<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let Some(change) = int(args.at(2))?.checked_neg() else {
        return Err(text("ERR decrement would overflow"));
    };
    add(unit, args.at(1), change, out)
}

fn add<'a>(unit: &mut Unit<'_, 'a>, key: &'a [u8], change: i64, out: &mut Out) -> Outcome {
    let (old, expires) = unit.read(key, |found| match found {
        Some(found) => (integer(found.value), found.expires),
        None => (Some(0), None),
    })?;
    let old = old.ok_or(Fail::NotAnInteger)?;
    let Some(new) = old.checked_add(change) else {
        return Err(text("ERR increment or decrement would overflow"));
    };
    unit.put(key, itoa::Buffer::new().format(new).as_bytes().to_vec(), expires)?;
    out.integer(new);
    Ok(())
}

/// INCRBYFLOAT key increment
pub fn incrbyfloat<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let key = args.at(1);
    let (old, expires) = unit.read(key, |found| match found {
        Some(found) => (Float::parse(found.value), found.expires),
        None => (Float::parse(b"0"), None),
    })?;
    let (old, change) = (old.ok_or(Fail::NotAFloat)?, Float::parse(args.at(2)));
    let sum = match (old, change.ok_or(Fail::NotAFloat)?) {
        (Parsed::Finite(old), Parsed::Finite(change)) => old.plus(change),
        _ => None,
    };
    let Some(sum) = sum else {
        return Err(text("ERR increment would produce NaN or Infinity"));
    };
    let sum = sum.text();
    out.bulk(sum.as_bytes());
    unit.put(key, sum.into_bytes(), expires)?;
    Ok(())
}
