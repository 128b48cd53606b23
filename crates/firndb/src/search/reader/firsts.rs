//! The first documents of whole orders, kept for as long as a set lives.
//!
//! "All, order by date desc, limit 20" has one answer a set: a set never changes. In many
//! partitions it takes a look into each whose best key might do, again and again; so the first
//! query of an order finds a few more documents than it needs, and those behind it copy theirs.
//! What is kept is bounded: [`ORDERS`] orders of [`KEPT`] documents, 16 KiB a set.

use crate::search::model::query::{Filter, OrderBy, Query};
use crate::search::reader::{Hit, Page};
use std::sync::OnceLock;

/// Orders that are kept at most; the first that are asked for.
const ORDERS: usize = 8;
/// Documents of each that are kept.
pub(crate) const KEPT: usize = 256;

/// First documents of the orders that queries asked for.
#[derive(Default)]
pub(crate) struct Firsts {
    /// Filled from the front.
    orders: [OnceLock<First>; ORDERS],
}

/// The first documents of an order.
struct First {
    /// As the query names it, so that its fields need not be looked up.
    order: Vec<OrderBy>,
    hits: Box<[Hit]>,
}

/// Whether the page of a query is a part of what would be kept of its order.
fn is_part(query: &Query) -> bool {
    let end = query.limit.and_then(|limit| limit.checked_add(query.skip));
    matches!(query.filter, Filter::All)
        && query.after.is_none()
        && end.is_some_and(|end| end <= KEPT as u64)
}

impl Firsts {
    /// Whether the first documents of a query's order should be found and kept for it.
    pub(crate) fn wants(&self, query: &Query) -> bool {
        is_part(query) && self.orders.iter().any(|place| place.get().is_none())
    }

    /// The page of a query in a set of so many documents, if it is a part of what is kept.
    pub(crate) fn page(&self, query: &Query, documents: u64) -> Option<Page> {
        if !is_part(query) {
            return None;
        }
        let mut orders = self.orders.iter().map_while(OnceLock::get);
        let first = orders.find(|first| first.order == query.order)?;
        Some(first.page(query, documents))
    }

    /// Keeps the first documents of an order: [`KEPT`], or all there are. Gives the page.
    pub(crate) fn keep(&self, query: &Query, documents: u64, hits: Vec<Hit>) -> Page {
        let mut first = First { order: query.order.clone(), hits: hits.into() };
        let page = first.page(query, documents);
        for place in &self.orders {
            match place.set(first) {
                Ok(()) => break,
                // Another thread may have found the same meanwhile.
                Err(_) if place.get().is_some_and(|kept| kept.order == query.order) => break,
                Err(back) => first = back,
            }
        }
        page
    }
}

impl First {
    fn page(&self, query: &Query, documents: u64) -> Page {
        let all = self.hits.len() as u64;
        let start = query.skip.min(all);
        let end = start.saturating_add(query.limit.unwrap_or(0)).min(all);
        let hits = self.hits[start as usize..end as usize].to_vec();
        Page { hits, count: query.count.then_some(documents) }
    }
}
