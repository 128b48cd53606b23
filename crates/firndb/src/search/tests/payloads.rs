//! Payloads of similar lengths, whose offsets are stored as lengths.

use super::store;
use crate::ErrorKind;
use crate::bytes::offsets::Offsets;
use crate::disk::{Disk, SimDisk};
use crate::search::format::global;
use crate::search::model::query::all;
use crate::search::testing::Rng;
use crate::search::{
    Document, Field, Hit, PartitionBuilder, Payload, Query, Reader, Roles, Schema, Type,
};
use std::ops::ControlFlow;
use std::path::Path;

const DOCUMENTS: u32 = 33_000;

fn payload(doc: u32) -> Vec<u8> {
    let length = 40 + doc.wrapping_mul(0x9E37_79B9) as usize % 21;
    (0..length).map(|i| (doc as usize * 7 + i * i) as u8).collect()
}

fn builder(form: Payload, documents: std::ops::Range<u32>) -> PartitionBuilder {
    let schema = Schema::new([Field::new("n", Type::U64, Roles::FILTERABLE)]).unwrap();
    let mut builder = PartitionBuilder::new(schema.payload(form));
    for doc in documents {
        builder.add(&Document::new().set("n", u64::from(doc % 9)).payload(payload(doc))).unwrap();
    }
    builder
}

fn has_lengths(reader: &Reader) -> bool {
    let part = &reader.set.partitions[0];
    let section = part.file.section(part.file.find(global::OFFSETS).unwrap()).unwrap();
    matches!(Offsets::new(section, part.documents as usize).unwrap(), Offsets::Lengths(_))
}

#[test]
fn stored_lengths_give_every_payload() {
    for form in [Payload::Raw, Payload::Zstd { level: 1, dictionary: false }] {
        let store = store();
        let mut change = store.collection.change().unwrap();
        change.put("a", builder(form, 0..DOCUMENTS)).unwrap();
        change.put("b", builder(form, DOCUMENTS..DOCUMENTS + 900)).unwrap();
        let reader = change.commit().unwrap();
        assert!(has_lengths(&reader));
        reader.verify().unwrap();
        let check = |reader: &Reader, hit: Hit, doc: u32| {
            assert_eq!(*reader.payload(hit).unwrap(), payload(doc), "{doc}");
        };
        (0..DOCUMENTS).for_each(|doc| check(&reader, Hit { partition: 0, doc }, doc));
        let mut change = store.collection.change().unwrap();
        change.merge(&["a", "b"], "a").unwrap();
        let merged = change.commit().unwrap();
        assert!(has_lengths(&merged));
        merged.verify().unwrap();
        let mut next = 0;
        let visit = |hit: Hit| {
            check(&merged, hit, next);
            next += 1;
            ControlFlow::Continue(())
        };
        merged.for_each(&Query::new(all()), visit).unwrap();
        assert_eq!(next, DOCUMENTS + 900);
    }
}

#[test]
fn damaged_lengths_are_reported() {
    let mut rng = Rng(0x57_EB5);
    let (disk, path) = (SimDisk::new(), Path::new("/steps"));
    builder(Payload::Raw, 0..DOCUMENTS).write_on(&(disk.clone() as _), path).unwrap();
    let whole = disk.map(path).unwrap().to_vec();
    let open = |bytes: &[u8]| {
        disk.write_raw(path, bytes);
        Reader::open_files_on(&*disk, &[path])
    };
    let right = open(&whole).unwrap();
    let file = &right.set.partitions[0].file;
    let entry = file.entry(file.find(global::OFFSETS).unwrap());
    for _ in 0..200 {
        let mut damaged = whole.clone();
        damaged[entry.offset as usize + rng.below(entry.len as usize)] ^= 1 << rng.below(8);
        let doc = rng.below(DOCUMENTS);
        let reader = open(&damaged).unwrap();
        let error = reader.payload(Hit { partition: 0, doc }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}
