//! Keys: whether they exist, and removing them.

use super::Outcome;
use crate::redis::codec::Args;
use crate::redis::reply::Out;
use crate::redis::unit::Unit;

/// EXISTS key [key ...], TOUCH key [key ...]
pub fn exists<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let mut count = 0;
    for key in args.from(1) {
        count += u64::from(unit.read(key, |found| found.is_some())?);
    }
    out.count(count);
    Ok(())
}

/// DEL key [key ...], UNLINK key [key ...]
pub fn del<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    args.from(1).try_for_each(super::check_key)?;
    let mut count = 0;
    for key in args.from(1) {
        if unit.read(key, |found| found.is_some())? {
            unit.delete(key)?;
            count += 1;
        }
    }
    out.count(count);
    Ok(())
}

/// TYPE key
pub fn type_of<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let exists = unit.read(args.at(1), |found| found.is_some())?;
    out.simple(if exists { "string" } else { "none" });
    Ok(())
}
