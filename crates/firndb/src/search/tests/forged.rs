//! Forged sections that could cause a panic or an unbounded allocation in a reader give errors.

use super::verify::{Template, open};
use crate::bytes::int::u64_at;
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::search::format::{decode_meta, encode_meta, global, part, section};
use crate::search::model::query::{and, eq, lt};
use crate::search::{
    Document, Facet, Field, PartitionBuilder, Payload, Query, Reader, Roles, Schema, Type,
};
use crate::{ErrorKind, Result};
use std::path::Path;

/// Asserts that the error is `Corrupt` and that its message contains the word.
#[track_caller]
fn corrupt<T>(result: Result<T>, word: &str) {
    let error = result.map(|_| ()).expect_err("the forged file was accepted");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.message().contains(word), "no `{word}` in: {error}");
}

/// A partition of 6,000 documents.
fn template(payload: Payload) -> Template {
    let fields = [
        Field::new("n", Type::U64, Roles::FILTERABLE),
        Field::new("word", Type::String, Roles::FILTERABLE).multi(),
    ];
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap().payload(payload));
    for n in 0..6000u64 {
        let document = Document::new().set("n", n).set("word", format!("w{}", n % 50));
        builder.add(&document.payload(format!("the payload of document {n}"))).unwrap();
    }
    let (disk, path) = (SimDisk::new(), Path::new("/template"));
    builder.write_on(&(disk.clone() as DiskRef), path).unwrap();
    Template(disk.map(path).unwrap().to_vec())
}

#[test]
fn payload_offsets_outside_their_block_are_an_error() {
    let template = template(Payload::Zstd { level: 3, dictionary: false });
    let forged = template.section(global::OFFSETS, |bytes| {
        // Documents 640 to 703 are in the second block of payloads.
        let head = 8 + 10 * 16;
        let first = u64_at(bytes, head) - 10_000;
        bytes[head..head + 8].copy_from_slice(&first.to_le_bytes());
    });
    let part = open(&forged).unwrap();
    corrupt(part.payload(650), "contradicts its documents");
    assert_eq!(&*part.payload(720).unwrap(), b"the payload of document 720");
}

#[test]
fn statistics_report_keys_out_of_order() {
    let intact = template(Payload::Raw);
    // The first two keys are w0 and w1.
    let forged = intact.section(section(1, part::KEY_BYTES), |bytes| bytes.swap(1, 3));
    let (disk, paths) = (SimDisk::new(), ["/a", "/b", "/c", "/d"].map(Path::new));
    for path in paths {
        disk.write_raw(path, if path == paths[3] { &forged } else { &intact.0 });
    }
    let reader = Reader::open_files_on(&*disk, &paths).unwrap();
    corrupt(reader.count(&eq("word", "w1")), "out of order");
    assert_eq!(reader.count(&eq("n", 17u64)).unwrap(), 4);
}

#[test]
fn more_keys_than_the_dictionary_has_are_an_error() {
    let template = template(Payload::Raw);
    let with = |distinct| {
        template.meta(|_, metas| {
            metas[1].postings = u64::from(u32::MAX);
            metas[1].distinct = distinct;
        })
    };
    // More keys than documents must have their bytes in the file.
    corrupt(open(&with(u32::MAX)), "has no 4294967295 keys");
    let forged = with(6000);
    let (disk, path) = (SimDisk::new(), Path::new("/forged"));
    disk.write_raw(path, &forged);
    let reader = Reader::open_files_on(&*disk, &[path]).unwrap();
    let facet = Facet { field: "word".into(), top: 5, disjunctive: false };
    corrupt(reader.facets(&lt("n", 100u64), &[facet]), "sequence");
}

#[test]
fn more_keys_than_documents_are_accepted_with_their_bytes() {
    let field = Field::new("n", Type::U64, Roles::FILTERABLE).multi();
    let mut builder = PartitionBuilder::new(Schema::new([field]).unwrap());
    let all = (0..40_000u64).fold(Document::new(), |all, n| all.set("n", n));
    builder.add(&all).unwrap();
    let (disk, path) = (SimDisk::new(), Path::new("/many"));
    builder.write_on(&(disk.clone() as DiskRef), path).unwrap();
    let many = Template(disk.map(path).unwrap().to_vec());
    let part = open(&many.0).unwrap();
    part.verify().unwrap();
    assert_eq!((part.documents, part.meta(0).distinct), (1, 40_000));
    let without = many.forge(|id, bytes| (id != section(0, part::KEYS)).then_some(bytes));
    corrupt(open(&without), "has no 40000 keys");
}

#[test]
fn more_postings_than_the_counts_say_are_an_error() {
    let built = Template::built();
    assert!(open(&built.0).unwrap().column_or_derived(1).is_ok());
    let forged = built.section(section(1, part::RUNS), |bytes| bytes[4] = 255);
    corrupt(open(&forged).unwrap().column_or_derived(1), "`run` has more postings");
}

#[test]
fn lists_of_zeros_or_ones_are_read_within_their_bounds() {
    for filling in [0, 0xFF] {
        let forged =
            template(Payload::Raw).section(section(1, part::SLICES), |bytes| bytes.fill(filling));
        let (disk, path) = (SimDisk::new(), Path::new("/forged"));
        disk.write_raw(path, &forged);
        let reader = Reader::open_files_on(&*disk, &[path]).unwrap();
        for word in ["w0", "w7", "w49"] {
            // The offsets are correct, and this count needs nothing else.
            assert_eq!(reader.count(&eq("word", word)).unwrap(), 120);
            let few = and([eq("word", word), lt("n", 3000u64)]);
            assert!(reader.count(&few).unwrap_or(0) <= 120);
            if let Ok(page) = reader.search(&Query::new(eq("word", word))) {
                assert!(page.hits.len() <= 120 && page.hits.iter().all(|hit| hit.doc < 6000));
            }
        }
        corrupt(reader.verify(), "key 0");
    }
}

#[test]
fn more_documents_than_payload_offsets_are_an_error() {
    let forged = template(Payload::Raw).section(global::META, |bytes| {
        let (documents, schema, metas) = decode_meta(bytes).unwrap();
        *bytes = encode_meta(documents * 1000, &schema, &metas);
    });
    corrupt(open(&forged), "no offsets for 6000000 documents");
}
