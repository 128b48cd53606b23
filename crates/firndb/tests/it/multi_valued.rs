//! A document with several of the wanted values is one match, with every plan, also where the
//! postings of the multi-valued field are the shortest and lead.

use super::TestDir;
use firndb::search::query::{and, is_in, lt};
use firndb::search::{Document, PartitionBuilder, Query, Reader, Schema};

const SIZE: u64 = 6_000;

/// Every document has two consecutive values of 50.
fn tags(n: u64) -> [u64; 2] {
    [n % 50, (n + 1) % 50]
}

/// Many values in no order: a range has long postings, but is cheap to check in the column.
fn code(n: u64) -> u64 {
    n * 7_919 % 251
}

#[test]
fn a_document_with_several_of_the_wanted_values_is_found_once() {
    let schema = "[fields]\ntags = 'u64 filterable multi'\ncode = 'u64 filterable'\n";
    let mut builder = PartitionBuilder::new(Schema::from_toml(schema).unwrap());
    for n in 0..SIZE {
        let document = Document::new().set("code", code(n));
        builder.add(&tags(n).into_iter().fold(document, |d, tag| d.set("tags", tag))).unwrap();
    }
    let temp = TestDir::new();
    let file = temp.path("part.firn");
    builder.write(&file).unwrap();
    let reader = Reader::open_files(&[file]).unwrap();
    for wanted in [vec![0u64, 1], vec![3, 4, 5], vec![7, 30]] {
        let has = |n: &u64| tags(*n).iter().any(|tag| wanted.contains(tag));
        for below in [1, 60, 125, 200] {
            let expected = (0..SIZE).filter(has).filter(|n| code(*n) < below).count();
            let filter = and([is_in("tags", wanted.clone()), lt("code", below)]);
            assert_eq!(reader.count(&filter).unwrap(), expected as u64, "{wanted:?} {below}");
            let page = reader.search(&Query::new(filter).with_count()).unwrap();
            assert_eq!((page.hits.len(), page.count), (expected, Some(expected as u64)));
        }
    }
}
