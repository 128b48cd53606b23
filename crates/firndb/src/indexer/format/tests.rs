//! The bytes of records, and that damaged ones are errors.

use super::*;
use crate::bytes::testing::damage;
use crate::search::{Field, Roles};
use crate::testing::Rng;

fn schema() -> Schema {
    let field = |name: &str, ty| Field::new(name, ty, Roles::STORED).nullable();
    let mut schema = Schema::default();
    for ty in Type::ALL {
        schema.add(field(ty.name(), ty)).unwrap();
    }
    schema.add(field("tags", Type::String).multi()).unwrap();
    schema
}

fn document() -> Document {
    let document = Document::new().set("tags", "x").set("string", "S").set("tags", "y");
    let document = document.set("bool", true).set("i64", -2i64).set("u64", u64::MAX);
    let document = document.set("f64", -0.5).set("timestamp", Value::Timestamp(-3));
    document.set("bytes", Value::Bytes(vec![0, 255])).payload(*b"{}")
}

#[test]
fn entry_encoding() {
    let document = Document::new().set("string", "S").set("bool", true).payload(*b"{}");
    let document = encode_document(&schema(), &document).unwrap();
    let documents = BTreeMap::from([("a".to_string(), document), ("b".to_string(), vec![])]);
    let entry = Entry { key: b"key".to_vec(), documents };
    let expected = [
        &[3, 0, 0, 0, b'k', b'e', b'y'][..], // the key
        &[1, 0, 0, 0, b'a'],                 // a source
        &[22, 0, 0, 0],                      // its document is 22 bytes long
        &[2, 0, 0, 0],                       // it has two values
        &[0, 0, 1, 1],                       // field 0, a bool, true
        &[5, 0, 6, 1, 0, 0, 0, b'S'],        // field 5, a string of a byte
        &[2, 0, 0, 0, b'{', b'}'],           // the payload
        &[1, 0, 0, 0, b'b', 0, 0, 0, 0],     // another source
    ];
    let expected = expected.concat();
    assert_eq!(encode_entry(&entry), expected);
    assert_eq!(decode_entry(&expected).unwrap(), entry);
}

#[test]
fn encodings_of_other_records() {
    let number = |n: u8| [&[n][..], &[0; 15]].concat();
    let changes = [
        Change { id: Id(1), key: b"k".to_vec(), document: Some(b"d".to_vec()) },
        Change { id: Id(2), key: b"l".to_vec(), document: None },
    ];
    let expected = [
        &[1, 0, 0, 0, b's'][..], // the source
        &number(1),
        &[1, 0, 0, 0, b'k', 1, 1, 0, 0, 0, b'd'], // a document
        &number(2),
        &[1, 0, 0, 0, b'l', 0], // none
    ];
    assert_eq!(encode_chunk("s", &changes), expected.concat());
    let expected = [&number(3)[..], &[1], &number(4), &[0]];
    assert_eq!(encode_journal(&[(Id(3), true), (Id(4), false)]), expected.concat());
    let head = encode_head(Head { base: 1, journals: 2, entries: 3 });
    assert_eq!(head, [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    let by = Partitioning::by_field_and_hash("bool", 9);
    let meta = encode_meta(7, &by, &schema());
    let expected = [1, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, b'b', b'o', b'o', b'l'];
    assert_eq!(meta[..20], expected);
    assert_eq!(meta[20..24], (schema().to_toml().len() as u32).to_le_bytes());
    assert_eq!(meta[24..], *schema().to_toml().as_bytes());
    assert_eq!(encode_partitioning(&Partitioning::by_hash(9)), [9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encode_names(&["x".to_string()]), [1, 0, 0, 0, b'x']);
    assert_eq!(partition_list(1, "p"), *b"p\x01\0\0\0p");
    assert_eq!(journal_key(&source_list("s"), 2), *b"jss\x02\0\0\0");
    assert_eq!((head_key(b"l"), base_key(b"l")), (b"hl".to_vec(), b"bl".to_vec()));
    assert_eq!(entry_key(Id(1)), [b"k", &number(1)[..]].concat());
}

#[test]
fn documents_round_trip_in_schema_order() {
    let bytes = encode_document(&schema(), &document()).unwrap();
    let back = decode_document(&schema(), &bytes).unwrap();
    let names: Vec<&str> = back.fields().map(|(name, _)| name).collect();
    let all = ["bool", "i64", "u64", "f64", "timestamp", "string", "bytes", "tags", "tags"];
    assert_eq!(names, all);
    let mut sorted: Vec<_> = document().fields;
    sorted.sort_by_key(|(name, _)| schema().field(name).unwrap().0);
    assert_eq!(back.fields, sorted);
    assert_eq!(back.payload_bytes(), b"{}");
    // The order in which fields were set makes no difference, that of a field's values does.
    let other = Document::new().set("u64", 1u64).set("bool", true);
    let same = Document::new().set("bool", true).set("u64", 1u64);
    let encode = |document| encode_document(&schema(), &document).unwrap();
    assert_eq!(encode(other), encode(same));
}

#[test]
fn chunks_lists_and_names_round_trip() {
    let changes = vec![
        Change { id: id_of(b"a"), key: b"a".to_vec(), document: Some(b"doc".to_vec()) },
        Change { id: id_of(b"b"), key: b"b".to_vec(), document: None },
    ];
    let chunk = encode_chunk("feed", &changes);
    assert_eq!(decode_chunk(&chunk).unwrap(), ("feed".to_string(), changes));
    let ids = [Id(1), Id(u128::MAX), Id(1 << 64)];
    assert_eq!(decode_ids(&encode_ids(&ids)).unwrap(), ids);
    assert_eq!(
        encode_ids(&[Id(0x0102 << 64 | 3)]),
        [3, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]
    );
    let mut notes = Vec::new();
    decode_journal(&encode_journal(&[(Id(7), true), (Id(9), false)]), |id, is| {
        notes.push((id, is))
    })
    .unwrap();
    assert_eq!(notes, [(Id(7), true), (Id(9), false)]);
    let names = ["a".to_string(), String::new()];
    assert_eq!(decode_names::<Vec<_>>(&encode_names(&names)).unwrap(), names);
    let head = Head { base: 3, journals: 4, entries: 5 };
    assert_eq!(decode_head(&encode_head(head)).unwrap(), head);
    let meta = encode_meta(7, &Partitioning::by_field_and_hash("string", 9), &schema());
    let back = decode_meta(&meta).unwrap();
    assert_eq!((back.generation, back.schema), (7, schema()));
    assert_eq!(back.partitioning, Partitioning::by_field_and_hash("string", 9));
}

#[test]
fn a_newer_version_is_unsupported_not_corrupt() {
    let mut meta = encode_meta(0, &Partitioning::by_hash(1), &schema());
    meta[0] = 2;
    assert_eq!(decode_meta(&meta).err().unwrap().kind(), ErrorKind::UnsupportedVersion);
}

#[test]
fn corrupt_records_never_panic() {
    let document = encode_document(&schema(), &document()).unwrap();
    let changes =
        [Change { id: id_of(b"a"), key: b"a".to_vec(), document: Some(document.clone()) }];
    let chunk = encode_chunk("feed", &changes);
    let (mut rng, mut errors) = (Rng(5), 0);
    for _ in 0..20_000 {
        let (mut document, mut chunk) = (document.clone(), chunk.clone());
        damage(&mut rng, &mut document);
        damage(&mut rng, &mut chunk);
        document.truncate(document.len() - rng.below(2) * rng.below(document.len()));
        errors += usize::from(decode_document(&schema(), &document).is_err());
        errors += usize::from(decode_chunk(&chunk).is_err());
    }
    assert!(errors > 10_000, "{errors}");
}
