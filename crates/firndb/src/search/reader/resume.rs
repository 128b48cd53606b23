//! Where a page begins whose predecessor was one of another set.
//!
//! A cursor names the last document of a page by its keys, its partition and its number. If the
//! partition was replaced, merged or taken apart, the same document may stand elsewhere now, behind
//! the place that the cursor names, and would come again. In an order that ends in a unique field
//! no other document has its keys: so the one that has them is where the page goes on.

use crate::Result;
use crate::search::collect::rank;
use crate::search::collect::request::PageRequest;
use crate::search::model::query::{Cursor, Query};
use crate::search::reader::{Hit, Reader};
use std::borrow::Cow;

/// The place behind which a page begins: that of the cursor if a document with its keys is
/// there; else that of the one match that has these keys. Of several matches with these keys,
/// which an order of unique keys does not have, nobody knows which was the last.
pub(crate) fn resume<'a>(
    reader: &Reader,
    query: &Query,
    cursor: &'a Cursor,
) -> Result<Cow<'a, Cursor>> {
    if cursor.keys.is_empty() || is_at(reader, query, cursor)? {
        return Ok(Cow::Borrowed(cursor));
    }
    let order = rank::resolve(&reader.set, &query.order)?;
    let first = Cursor { keys: cursor.keys.clone(), partition: String::new(), doc: 0 };
    let wanted = PageRequest { order: &order, k: 2, after: Some(&first), count: false };
    let (hits, ..) = reader.find(query, &wanted)?;
    let mut alike = Vec::with_capacity(hits.len());
    for hit in hits {
        let place = reader.cursor(query, hit)?;
        if is_alike(&place, cursor) {
            alike.push(place);
        }
    }
    Ok(match alike.len() {
        1 => Cow::Owned(alike.remove(0)),
        _ => Cow::Borrowed(cursor),
    })
}

/// Whether the document in the place of a cursor has its keys.
fn is_at(reader: &Reader, query: &Query, cursor: &Cursor) -> Result<bool> {
    let found = reader.set.names.binary_search(&cursor.partition);
    let Ok(partition) = found else { return Ok(false) };
    if cursor.doc >= reader.set.partitions[partition].documents {
        return Ok(false);
    }
    let hit = Hit { partition: partition as u32, doc: cursor.doc };
    Ok(is_alike(&reader.cursor(query, hit)?, cursor))
}

/// Whether two cursors have the same keys. Zero and minus zero are not the same.
fn is_alike(a: &Cursor, b: &Cursor) -> bool {
    let keys = |cursor: &Cursor| Cursor { partition: String::new(), doc: 0, ..cursor.clone() };
    keys(a).to_string() == keys(b).to_string()
}
