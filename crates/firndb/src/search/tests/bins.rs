//! Bins and divided lists: of which fields, and that both answer as they should.

use super::store;
use crate::search::codec::slices::DIVIDED;
use crate::search::model::query::{Query, and, between, eq, not};
use crate::search::{Document, Field, PartitionBuilder, Roles, Schema, Type};

/// Fields that are only filterable have bins if they have few documents a key.
#[test]
fn fields_of_many_keys_get_bins_and_long_lists_are_divided() {
    const DOCUMENTS: i64 = 70_000;
    let place = |doc: i64| doc * 7919 % DOCUMENTS;
    let fields = [
        Field::new("place", Type::I64, Roles::FILTERABLE),
        Field::new("kind", Type::I64, Roles::FILTERABLE),
        Field::new("places", Type::I64, Roles::FILTERABLE).multi(),
    ];
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
    for doc in 0..DOCUMENTS {
        let mut document = Document::new().set("place", place(doc)).set("kind", doc % 900);
        (0..doc % 3).for_each(|i| document.push("places", place(doc + i)));
        builder.add(&document).unwrap();
    }
    let store = store();
    let mut change = store.collection.change().unwrap();
    change.put("p", builder).unwrap();
    let reader = change.commit().unwrap();
    reader.verify().unwrap();
    let part = &reader.set.partitions[0];
    let bounds = [0, 1, 2].map(|field| part.meta(field).bounds);
    assert_eq!(bounds, [31, 0, 0]);
    let bits = [0, 1, 2].map(|field| part.meta(field).slice_bits);
    assert_eq!(bits, [17, DIVIDED, 17], "long lists without bins are divided");
    // Half a share of a 32nd is the most that is taken one by one; at the ends it is nothing.
    let (postings, end) = (part.postings(0).unwrap(), DOCUMENTS as u32);
    assert_eq!(postings.edges(0, end), Some(0));
    for start in (0..end).step_by(777) {
        let most = 1 + u64::from(end) / 64;
        assert!(postings.edges(start, end).unwrap() <= most, "{start} and more");
        assert!(postings.edges(0, start).unwrap() <= most, "less than {start}");
    }
    let ranges = [(0, 9), (100, 30_000), (4_375, 65_000), (17, DOCUMENTS), (39_000, DOCUMENTS)];
    for (low, high) in ranges {
        let range = between("place", low, high);
        let inside = |doc: &i64| (low..=high).contains(&place(*doc));
        assert_eq!(reader.count(&range).unwrap(), (0..DOCUMENTS).filter(inside).count() as u64);
        let both = and([range, between("kind", 100i64, 600i64)]);
        let kind = |doc: &i64| (100..=600).contains(&(doc % 900));
        let expected = (0..DOCUMENTS).filter(inside).filter(kind).count() as u64;
        assert_eq!(reader.count(&both).unwrap(), expected);
        let page = Query::new(and([both, not(eq("kind", 300i64))])).limit(5);
        let wanted = (0..DOCUMENTS).filter(inside).filter(kind).filter(|doc| doc % 900 != 300);
        let hits = reader.search(&page).unwrap().hits;
        assert!(hits.iter().map(|hit| i64::from(hit.doc)).eq(wanted.take(5)));
    }
}
