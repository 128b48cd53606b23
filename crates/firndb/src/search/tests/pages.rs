//! Paging by page token while partitions are replaced, merged and split.

use super::{Store, store};
use crate::search::model::query::{all, asc, desc};
use crate::search::testing::Rng;
use crate::search::{
    Document, Field, OrderBy, PageToken, PartitionBuilder, Query, Reader, Roles, Schema, Type,
};
use std::collections::{BTreeMap, BTreeSet};

const SEED: u64 = 0x5EED_0A6E;

/// The price of each document by its id. Some have none.
type Prices = BTreeMap<u64, Option<u64>>;

fn builder(ids: &[u64], prices: &Prices) -> PartitionBuilder {
    let price = Field::new("price", Type::U64, Roles::SORTABLE).nullable();
    let id = Field::new("id", Type::U64, Roles::SORTABLE);
    let mut builder = PartitionBuilder::new(Schema::new([price, id]).unwrap());
    for id in ids {
        let document = Document::new().set("id", *id);
        let document = match prices[id] {
            Some(price) => document.set("price", price),
            None => document,
        };
        builder.add(&document).unwrap();
    }
    builder
}

fn ids(reader: &Reader, query: &Query) -> (Vec<u64>, Option<PageToken>) {
    let hits = reader.search(query).unwrap().hits;
    let id = |hit| reader.value(hit, "id").unwrap().unwrap().to_string().parse().unwrap();
    let next = hits.last().map(|hit| reader.page_token(query, *hit).unwrap());
    (hits.into_iter().map(id).collect(), next)
}

/// Puts all documents into new partitions in random order, or merges all partitions.
fn shuffle(store: &Store, rng: &mut Rng, prices: &Prices, merge: bool) {
    let mut ids: Vec<u64> = prices.keys().copied().collect();
    rng.shuffle(&mut ids);
    let mut change = store.collection.change().unwrap();
    if merge && !store.collection.reader().is_empty() {
        // A merge leaves the documents unchanged.
        let names: Vec<String> = change.names().into_iter().map(str::to_string).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        change.merge(&names, &format!("merged-{}", rng.next())).unwrap();
        change.commit().unwrap();
        return;
    }
    change.clear();
    let parts = 1 + rng.below(4);
    for (n, ids) in ids.chunks(ids.len().div_ceil(parts)).enumerate() {
        change.put(["a", "b", "c", "d"][n], builder(ids, prices)).unwrap();
    }
    change.commit().unwrap();
}

#[test]
fn pages_in_a_total_order_have_each_unchanged_document_exactly_once() {
    let mut rng = Rng(SEED);
    let orders: [Vec<OrderBy>; 4] = [
        vec![asc("price"), asc("id")],
        vec![desc("price"), desc("id")],
        vec![asc("id")],
        vec![desc("price"), asc("id")],
    ];
    let mut changes = 0;
    for round in 0..60 {
        let store = store();
        let price = |rng: &mut Rng| Some(rng.below(4u64)).filter(|price| *price > 0);
        let mut prices: Prices = (0..30).map(|id| (id, price(&mut rng))).collect();
        let mut stay: BTreeSet<u64> = prices.keys().copied().collect();
        shuffle(&store, &mut rng, &prices, false);
        let mut query = Query::new(all());
        query.order = orders[round % orders.len()].clone();
        query.limit = Some(1 + rng.below(5u64));
        let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
        loop {
            let (page, next) = ids(&store.collection.reader(), &query);
            page.iter().for_each(|id| *seen.entry(*id).or_default() += 1);
            let Some(next) = next else { break };
            query.after = Some(next);
            // Documents are removed and added. The removed one may be the last of the page.
            let change = rng.below(2) == 0;
            if change {
                let gone = *rng.pick(&page);
                prices.remove(&gone);
                stay.remove(&gone);
                prices.insert(100 + rng.below(1000u64), price(&mut rng));
            }
            let merge = !change && rng.below(2) == 0;
            shuffle(&store, &mut rng, &prices, merge);
            changes += 1;
        }
        for id in stay {
            assert_eq!(seen.get(&id), Some(&1), "seed {SEED}, round {round}, document {id}");
        }
        assert!(seen.values().all(|times| *times == 1), "seed {SEED}, round {round}: {seen:?}");
    }
    assert!(changes > 400, "only {changes} changes");
}

#[test]
fn pages_do_not_skip_ties_in_an_unchanged_partition() {
    let store = store();
    let prices: Prices = (0..9).map(|id| (id, Some(1))).collect();
    let mut change = store.collection.change().unwrap();
    change.put("a", builder(&[0, 1, 2, 3, 4, 5], &prices)).unwrap();
    change.put("b", builder(&[6, 7, 8], &prices)).unwrap();
    change.commit().unwrap();
    let mut query = Query::new(all());
    (query.order, query.limit) = (vec![asc("price")], Some(4));
    let (first, next) = ids(&store.collection.reader(), &query);
    let mut change = store.collection.change().unwrap();
    change.put("b", builder(&[7, 8], &prices)).unwrap();
    change.commit().unwrap();
    query.after = next;
    let (second, next) = ids(&store.collection.reader(), &query);
    assert_eq!((first, second), (vec![0, 1, 2, 3], vec![4, 5, 7, 8]));
    query.after = next;
    assert!(ids(&store.collection.reader(), &query).0.is_empty());
}
