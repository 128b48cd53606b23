//! Chooses what the points of two fields hold: ordinals or, if that makes the file smaller, values.
//!
//! A value is a key less the least key of the field. Leaves of values take more bits than those of
//! ordinals wherever keys have gaps; but the keys and the offsets of both fields can then be told from
//! the points, and are left out. Coordinates are like that: almost every document has keys of its
//! own. In memory points hold values wherever they can: a window is then found without a search for
//! its keys. Fields that are sortable or stored are read back through ordinals, and so are those of
//! few keys through their columns: both stay as they are.

use crate::bytes::monotonic;
use crate::search::codec::column::{MISSING, column_bits};
use crate::search::codec::dictionary::Keys;
use crate::search::codec::points::Numbers;
use crate::search::codec::points::build;
use crate::search::format::PointValues;
use crate::search::format::limits::{MAX_SPAN, SCAN_BITS};
use crate::search::model::schema::Field;

/// Where a partition will be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    File,
    /// Ordered fields keep their columns, too: to look into one is faster than to search the offsets.
    Memory,
}

/// The points of two fields of these keys, by the ordinals (or `MISSING`) of their documents; and
/// the values that they hold, which `may` be chosen.
pub(crate) fn encode(
    ords: [&[u32]; 2],
    keys: [&Keys; 2],
    may: bool,
    medium: Medium,
) -> (Vec<u8>, Option<[PointValues; 2]>) {
    let distinct = keys.map(|keys| keys.len() as u32);
    let by_ordinal = || build::encode(ords, distinct, Numbers::Ordinals);
    let [Some(a), Some(b)] = keys.map(|keys| values_of(keys).filter(|_| may)) else {
        return (by_ordinal(), None);
    };
    let numbers = [a, b].map(|(fixed, of)| (fixed, of.least));
    let [x, y] = [0, 1].map(|f| -> Vec<u32> {
        let (fixed, least) = numbers[f];
        let value = |&ord: &u32| match ord {
            MISSING => MISSING,
            ord => (fixed[ord as usize] - least) as u32,
        };
        ords[f].iter().map(value).collect()
    });
    let by_value = build::encode([&x, &y], [a.1.span, b.1.span], Numbers::Values);
    if medium == Medium::Memory {
        return (by_value, Some([a.1, b.1]));
    }
    let bytes = by_ordinal();
    let beside = |f: usize| {
        let keys = monotonic::encode(numbers[f].0.iter().copied());
        keys.len() + monotonic::encode(offsets(ords[f], distinct[f]).into_iter()).len()
    };
    match by_value.len() < bytes.len() + beside(0) + beside(1) {
        true => (by_value, Some([a.1, b.1])),
        false => (bytes, None),
    }
}

/// Whether the roles of a field leave the choice.
pub(crate) fn may_be_values(field: &Field) -> bool {
    let roles = field.roles;
    roles.filterable && !roles.sortable && !roles.stored && field.ty.is_fixed()
}

/// Keys that may be values.
fn values_of(keys: &Keys) -> Option<(&[u64], PointValues)> {
    let Keys::Fixed(keys) = keys else { return None };
    let (&least, &last) = keys.first().zip(keys.last())?;
    let span = u32::try_from(last - least).ok()?.checked_add(1)?;
    let few = column_bits(keys.len(), false) <= SCAN_BITS;
    (!few && span < MAX_SPAN).then_some((keys, PointValues { least, span }))
}

/// How many documents have a key before each, and at the end how many have any.
fn offsets(ords: &[u32], distinct: u32) -> Vec<u64> {
    let mut offsets = vec![0; distinct as usize + 1];
    ords.iter().filter(|&&ord| ord != MISSING).for_each(|&ord| offsets[ord as usize + 1] += 1);
    for i in 1..offsets.len() {
        offsets[i] += offsets[i - 1];
    }
    offsets
}
