//! Finds where a page starts if its page token comes from a reader of another set.
//!
//! A page token identifies the last document of a page by its keys, its partition and its number.
//! If the partition was replaced, merged or split since, the document may be stored elsewhere now,
//! after the position that the page token names, and would be returned again. In an order that ends
//! in a unique field no other document has the keys of the page token, so the document that has
//! them is where the next page starts.

use crate::Result;
use crate::search::collect::rank;
use crate::search::collect::request::PageRequest;
use crate::search::model::query::{PageToken, Query};
use crate::search::reader::{Hit, Reader};
use std::borrow::Cow;

/// The page token to search after. It is `token` itself if the document at its position has its
/// keys; otherwise the position of the only match with these keys. If several matches have them
/// (possible only if the order has no unique field), it is unknown which was the last one returned,
/// and
/// `token` is used as it is.
pub(crate) fn resume<'a>(
    reader: &Reader,
    query: &Query,
    token: &'a PageToken,
) -> Result<Cow<'a, PageToken>> {
    if token.keys.is_empty() || is_current(reader, query, token)? {
        return Ok(Cow::Borrowed(token));
    }
    let order = rank::resolve(&reader.set, &query.order)?;
    let before_ties = PageToken { keys: token.keys.clone(), partition: String::new(), doc: 0 };
    let request = PageRequest { order: &order, k: 2, after: Some(&before_ties), count: false };
    let (hits, ..) = reader.find(query, &request)?;
    let mut candidates = Vec::with_capacity(hits.len());
    for hit in hits {
        let position = reader.page_token(query, hit)?;
        if has_same_keys(&position, token) {
            candidates.push(position);
        }
    }
    Ok(match candidates.len() {
        1 => Cow::Owned(candidates.remove(0)),
        _ => Cow::Borrowed(token),
    })
}

/// Whether the document at the position of the page token has its keys.
fn is_current(reader: &Reader, query: &Query, token: &PageToken) -> Result<bool> {
    let found = reader.set.names.binary_search(&token.partition);
    let Ok(partition) = found else { return Ok(false) };
    if token.doc >= reader.set.partitions[partition].documents {
        return Ok(false);
    }
    let hit = Hit { partition: partition as u32, doc: token.doc };
    Ok(has_same_keys(&reader.page_token(query, hit)?, token))
}

/// Whether two page tokens have the same keys. 0.0 and -0.0 are different keys.
fn has_same_keys(a: &PageToken, b: &PageToken) -> bool {
    let keys = |token: &PageToken| PageToken { partition: String::new(), doc: 0, ..token.clone() };
    keys(a).to_string() == keys(b).to_string()
}
