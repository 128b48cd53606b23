//! Chooses the coordinates in the points of two fields: ordinals or, if the file becomes smaller,
//! values.
//!
//! A value is a key minus the smallest key of the field. If keys have gaps, values take more bits
//! than ordinals. But then the keys and offsets of both fields can be derived from the points, and
//! the file omits them. This pays off for geographic coordinates, where almost every document has
//! its own keys. In memory, points hold values whenever possible, because a query then needs no
//! search for the keys of its window. Fields that are sortable or stored, and fields with few keys,
//! keep ordinals, because their columns hold ordinals.

use crate::bytes::increasing;
use crate::search::codec::column::{MISSING, column_bits};
use crate::search::codec::dictionary::Keys;
use crate::search::codec::points::CoordinateKind;
use crate::search::codec::points::build;
use crate::search::format::PointValues;
use crate::search::format::limits::{MAX_SPAN, SCAN_BITS};
use crate::search::model::schema::Field;

/// Where a partition is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    File,
    /// Speed matters more than size. Ordered fields have columns, too: a look-up in a column is
    /// faster than a search in the offsets.
    Memory,
}

/// Encodes the points of two fields, given their keys and the ordinals (or `MISSING`) of their
/// documents. Also returns the ranges of values, if the points hold values; `may` permits these.
pub(crate) fn encode(
    ords: [&[u32]; 2],
    keys: [&Keys; 2],
    may: bool,
    medium: Medium,
) -> (Vec<u8>, Option<[PointValues; 2]>) {
    let distinct = keys.map(|keys| keys.len() as u32);
    let by_ordinal = || build::encode(ords, distinct, CoordinateKind::Ordinals);
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
    let by_value = build::encode([&x, &y], [a.1.span, b.1.span], CoordinateKind::Values);
    if medium == Medium::Memory {
        return (by_value, Some([a.1, b.1]));
    }
    let bytes = by_ordinal();
    let omitted = |f: usize| {
        let keys = increasing::encode(numbers[f].0.iter().copied());
        keys.len() + increasing::encode(offsets(ords[f], distinct[f]).into_iter()).len()
    };
    match by_value.len() < bytes.len() + omitted(0) + omitted(1) {
        true => (by_value, Some([a.1, b.1])),
        false => (bytes, None),
    }
}

/// Whether the type and roles of a field permit values.
pub(crate) fn may_be_values(field: &Field) -> bool {
    let roles = field.roles;
    roles.filterable && !roles.sortable && !roles.stored && field.ty.is_fixed()
}

/// The keys and their range, if values are possible.
fn values_of(keys: &Keys) -> Option<(&[u64], PointValues)> {
    let Keys::Fixed(keys) = keys else { return None };
    let (&least, &last) = keys.first().zip(keys.last())?;
    let span = u32::try_from(last - least).ok()?.checked_add(1)?;
    let few = column_bits(keys.len(), false) <= SCAN_BITS;
    (!few && span < MAX_SPAN).then_some((keys, PointValues { least, span }))
}

/// For each key the number of documents with smaller keys, then the number of documents with any.
fn offsets(ords: &[u32], distinct: u32) -> Vec<u64> {
    let mut offsets = vec![0; distinct as usize + 1];
    ords.iter().filter(|&&ord| ord != MISSING).for_each(|&ord| offsets[ord as usize + 1] += 1);
    for i in 1..offsets.len() {
        offsets[i] += offsets[i - 1];
    }
    offsets
}
