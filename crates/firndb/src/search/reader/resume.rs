//! Finds where a page starts if its cursor comes from a reader of another set.
//!
//! A cursor identifies the last document of a page by its keys, its partition and its number. If
//! the partition was replaced, merged or split since, the document may be stored elsewhere now,
//! after the position that the cursor names, and would be returned again. In an order that ends in
//! a unique field no other document has the keys of the cursor, so the document that has them is
//! where the next page starts.

use crate::Result;
use crate::search::collect::rank;
use crate::search::collect::request::PageRequest;
use crate::search::model::query::{Cursor, Query};
use crate::search::reader::{Hit, Reader};
use std::borrow::Cow;

/// The cursor to search after. It is `cursor` itself if the document at its position has its keys;
/// otherwise the position of the only match with these keys. If several matches have them (possible
/// only if the order has no unique field), it is unknown which was the last one returned, and
/// `cursor` is used as it is.
pub(crate) fn resume<'a>(
    reader: &Reader,
    query: &Query,
    cursor: &'a Cursor,
) -> Result<Cow<'a, Cursor>> {
    if cursor.keys.is_empty() || is_current(reader, query, cursor)? {
        return Ok(Cow::Borrowed(cursor));
    }
    let order = rank::resolve(&reader.set, &query.order)?;
    let before_ties = Cursor { keys: cursor.keys.clone(), partition: String::new(), doc: 0 };
    let request = PageRequest { order: &order, k: 2, after: Some(&before_ties), count: false };
    let (hits, ..) = reader.find(query, &request)?;
    let mut candidates = Vec::with_capacity(hits.len());
    for hit in hits {
        let position = reader.cursor(query, hit)?;
        if has_same_keys(&position, cursor) {
            candidates.push(position);
        }
    }
    Ok(match candidates.len() {
        1 => Cow::Owned(candidates.remove(0)),
        _ => Cow::Borrowed(cursor),
    })
}

/// Whether the document at the position of the cursor has its keys.
fn is_current(reader: &Reader, query: &Query, cursor: &Cursor) -> Result<bool> {
    let found = reader.set.names.binary_search(&cursor.partition);
    let Ok(partition) = found else { return Ok(false) };
    if cursor.doc >= reader.set.partitions[partition].documents {
        return Ok(false);
    }
    let hit = Hit { partition: partition as u32, doc: cursor.doc };
    Ok(has_same_keys(&reader.cursor(query, hit)?, cursor))
}

/// Whether two cursors have the same keys. 0.0 and -0.0 are different keys.
fn has_same_keys(a: &Cursor, b: &Cursor) -> bool {
    let keys = |cursor: &Cursor| Cursor { partition: String::new(), doc: 0, ..cursor.clone() };
    keys(a).to_string() == keys(b).to_string()
}
