//! Forged files that ask for a panic or for memory without end when they are read: errors.

use super::verify::{Victim, open};
use crate::bytes::int::u64_at;
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::search::format::global;
use crate::search::{Document, Field, PartitionBuilder, Payload, Roles, Schema, Type};
use crate::{ErrorKind, Result};
use std::path::Path;

/// The error is `Corrupt`, in a sentence with the word.
#[track_caller]
fn corrupt<T>(result: Result<T>, word: &str) {
    let error = result.map(|_| ()).expect_err("this forgery went through");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.message().contains(word), "no `{word}` in: {error}");
}

/// A partition of 6,000 documents.
fn victim(payload: Payload) -> Victim {
    let fields = [
        Field::new("n", Type::U64, Roles::FILTERABLE),
        Field::new("word", Type::String, Roles::FILTERABLE).multi(),
    ];
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap().payload(payload));
    for n in 0..6000u64 {
        let document = Document::new().set("n", n).set("word", format!("w{}", n % 50));
        builder.add(&document.payload(format!("the payload of document {n}"))).unwrap();
    }
    let (disk, path) = (SimDisk::new(), Path::new("/victim"));
    builder.write_on(&(disk.clone() as DiskRef), path).unwrap();
    Victim(disk.map(path).unwrap().to_vec())
}

#[test]
fn offsets_before_their_block_are_an_error() {
    let victim = victim(Payload::Zstd { level: 3, dictionary: false });
    let forged = victim.section(global::OFFSETS, |bytes| {
        // Documents 640 to 703 are in the second block of payloads.
        let head = 8 + 10 * 16;
        let first = u64_at(bytes, head) - 10_000;
        bytes[head..head + 8].copy_from_slice(&first.to_le_bytes());
    });
    let part = open(&forged).unwrap();
    corrupt(part.payload(650), "contradicts its documents");
    assert_eq!(&*part.payload(720).unwrap(), b"the payload of document 720");
}
