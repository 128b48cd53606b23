//! `verify` accepts what the writer writes, and reports inconsistent files with valid checksums.

use super::random_collection::{RandomCollection, Scale};
use super::sample_files::{files, large_files};
use super::{DIR, store};
use crate::bytes::int::u64_at;
use crate::bytes::monotonic::{self, Monotonic};
use crate::bytes::packed::{Packed, PackedWriter};
use crate::disk::envelope::{Envelope, EnvelopeWriter, Kind};
use crate::disk::{Disk, Map, SimDisk, publish};
use crate::search::codec::slices::ELIAS_FANO;
use crate::search::format::manifest::{self, Member};
use crate::search::format::{FieldMeta, Ordered, decode_meta, encode_meta, global, part, section};
use crate::search::model::query::asc;
use crate::search::partition::Partition;
use crate::search::partition::verify;
use crate::search::testing::Rng;
use crate::search::{Document, Field, PartitionBuilder, Payload, Roles, Schema, Type};
use crate::{ErrorKind, Result};
use std::path::Path;

const SEED: u64 = 0x7E51_F1ED;

/// A valid partition file, of which tests forge inconsistent versions.
pub(super) struct Template(pub(super) Vec<u8>);

impl Template {
    /// The partition of this name in the sample files.
    pub(super) fn of(name: &str) -> Template {
        let files = if name == "large" { large_files(66_000) } else { files() };
        let is_named = |path: &Path| {
            let file = path.file_name().unwrap().to_str().unwrap();
            file.starts_with(&format!("{name}.")) && file.ends_with(".part.firn")
        };
        Template(files.into_iter().find(|(path, _)| is_named(path)).unwrap().1)
    }

    /// A partition with a key of each form of postings, and a field without a column.
    pub(super) fn built() -> Template {
        let fields = [
            Field::new("id", Type::U64, Roles::FILTERABLE),
            Field::new("run", Type::String, Roles::FILTERABLE).multi(),
        ];
        let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
        for n in 0..600u64 {
            let mut document = Document::new().set("id", n * 7 % 590);
            for (word, on) in [("run", n % 300 < 140), ("odd", n % 2 == 1), ("rare", n % 97 == 3)] {
                if on {
                    document.push("run", word);
                }
            }
            builder.add(&document).unwrap();
        }
        Template::of_builder(builder)
    }

    /// A partition with a scanned field, whose first and last keys have lists.
    fn scanned() -> Template {
        let price = Field::new("price", Type::I64, Roles::FULL).scanned();
        let mut builder = PartitionBuilder::new(Schema::new([price]).unwrap());
        for n in 0..5_000i64 {
            builder.add(&Document::new().set("price", n * 7_919 % 900)).unwrap();
        }
        Template::of_builder(builder)
    }

    pub(super) fn of_builder(builder: PartitionBuilder) -> Template {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        let path = Path::new(DIR).join("built");
        builder.write_on(&(disk.clone() as _), &path).unwrap();
        Template(disk.map(&path).unwrap().to_vec())
    }

    /// The file with its sections edited and valid checksums. `edit` returns `None` to omit a
    /// section.
    pub(super) fn forge(&self, edit: impl Fn(u32, Vec<u8>) -> Option<Vec<u8>>) -> Vec<u8> {
        let file = Envelope::open(Map::from_vec(self.0.clone()), Path::new("v"), Kind::Partition);
        let file = file.unwrap();
        let mut forged: Vec<u8> = Vec::new();
        let mut w = EnvelopeWriter::new(&mut forged, Kind::Partition).unwrap();
        for i in 0..file.entries() {
            let id = file.entry(i).id;
            let Some(bytes) = edit(id, file.section(i).unwrap().to_vec()) else { continue };
            w.begin(id, id == global::PAYLOADS).unwrap();
            w.write(&bytes).unwrap();
            w.end();
        }
        w.finish().unwrap();
        forged
    }

    /// The file with one section edited.
    pub(super) fn section(&self, id: u32, edit: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let found = std::cell::Cell::new(false);
        let forged = self.forge(|other, mut bytes| {
            if other == id {
                found.set(true);
                edit(&mut bytes);
            }
            Some(bytes)
        });
        assert!(found.get(), "there is no section {id:#x}");
        forged
    }

    /// The file with one monotonic sequence edited.
    fn sequence(&self, id: u32, edit: impl Fn(&mut Vec<u64>)) -> Vec<u8> {
        self.section(id, |bytes| {
            let len = u64_at(bytes, 0) << 16 >> 16; // in both forms
            let sequence = Monotonic::new(bytes, len as usize).unwrap();
            let mut values: Vec<u64> = (0..sequence.len()).map(|i| sequence.get(i)).collect();
            edit(&mut values);
            *bytes = monotonic::encode(values.into_iter());
        })
    }

    /// The file with one packed array edited.
    pub(super) fn packed(
        &self,
        id: u32,
        bits: u8,
        len: usize,
        edit: impl Fn(&mut Vec<u32>),
    ) -> Vec<u8> {
        self.section(id, |bytes| {
            let mut values = Vec::new();
            Packed::new(bytes, bits, len).unwrap().decode(0, len, &mut values);
            edit(&mut values);
            let mut w = PackedWriter::new(bits);
            values.into_iter().for_each(|v| w.push(v));
            *bytes = w.finish();
        })
    }

    /// The file with its meta section edited.
    pub(super) fn meta(&self, edit: impl Fn(&mut Schema, &mut Vec<FieldMeta>)) -> Vec<u8> {
        self.section(global::META, |bytes| {
            let (documents, mut schema, mut metas) = decode_meta(bytes).unwrap();
            edit(&mut schema, &mut metas);
            *bytes = encode_meta(documents, &schema, &metas);
        })
    }

    pub(super) fn fields(&self) -> Vec<FieldMeta> {
        let file = Envelope::open(Map::from_vec(self.0.clone()), Path::new("v"), Kind::Partition);
        let file = file.unwrap();
        let meta = file.section(file.find(global::META).unwrap()).unwrap();
        decode_meta(meta).unwrap().2
    }
}

/// Opens a partition file of these bytes and verifies it.
pub(super) fn open(bytes: &[u8]) -> Result<Partition> {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let path = Path::new(DIR).join("forged");
    publish(&*disk, &path, |out| out.append(bytes)).unwrap();
    Partition::open(&*disk, &path, None)
}

fn check(bytes: &[u8]) -> Result<()> {
    open(bytes)?.verify()
}

/// Asserts that the forged file is reported as corrupt, in a message with all of these words.
#[track_caller]
pub(super) fn caught(forged: Vec<u8>, words: &[&str]) {
    let error = check(&forged).expect_err("the forged file was accepted");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.file().is_some(), "{error}");
    let lacks = words.iter().find(|word| !error.message().contains(**word));
    assert!(lacks.is_none(), "no word of {:?}: {error}", lacks.unwrap());
}

/// Fields of the sample partitions `a` and `b`.
const DAY: usize = 0;
const N: usize = 1;
const RATIO: usize = 2;
const WORD: usize = 3;
const KEY: usize = 4;
const ON: usize = 5;
const KEPT: usize = 6;

fn swap_chunks(bytes: &mut [u8], a: usize, b: usize, size: usize) {
    (0..size).for_each(|i| bytes.swap(a * size + i, b * size + i));
}

#[test]
fn written_partitions_pass_verify() {
    let rounds = 60;
    println!("seeds {SEED:#x}..{:#x}", SEED + rounds);
    for seed in SEED..SEED + rounds {
        let mut rng = Rng(seed);
        let case =
            RandomCollection::new(&mut rng, if seed == SEED { Scale::Large } else { Scale::Small });
        let verified = case.store.collection.reader().verify();
        assert!(verified.is_ok(), "seed {seed:#x}: {verified:?}\n{}", case.describe());
    }
    for template in ["a", "b", "c", "d", "e", "g", "large"].map(Template::of) {
        check(&template.0).unwrap();
        check(&template.forge(|_, bytes| Some(bytes))).unwrap();
    }
    check(&Template::built().0).unwrap();
}

#[test]
fn wrong_keys_are_caught() {
    let a = Template::of("a");
    let keys = |field| section(field, part::KEYS);
    caught(a.sequence(keys(RATIO), |v| *v.last_mut().unwrap() = u64::MAX), &["`ratio`", "f64"]);
    caught(a.sequence(keys(ON), |v| *v = vec![1, 2]), &["`on`", "bool"]);
    caught(a.section(keys(KEPT), |b| b[8 + 16] += 1), &["`kept`", "keys", "number 128"]);
    caught(a.sequence(keys(WORD), |v| v.iter_mut().for_each(|o| *o += 1)), &["`word`", "keys"]);
    let area = section(WORD, part::KEY_BYTES);
    caught(a.section(area, |b| swap_chunks(b, 0, 1, 2)), &["`word`", "key 1", "ascending"]);
    caught(a.section(area, |b| *b.last_mut().unwrap() = 0xFF), &["`word`", "UTF-8"]);
    let area = section(KEY, part::KEY_BYTES);
    caught(a.section(area, |b| b.copy_within(0..2, 2)), &["`key`", "key 1", "ascending"]);
}

#[test]
fn wrong_offsets_are_caught() {
    let a = Template::of("a");
    let offsets = |field| section(field, part::OFFSETS);
    caught(a.sequence(offsets(N), |v| *v.last_mut().unwrap() += 1), &["`n`", "offsets go from 0"]);
    caught(a.sequence(offsets(DAY), |v| v[0] = 1), &["`day`", "offsets go from 1"]);
    caught(a.sequence(offsets(KEY), |v| v[1] -= 1), &["`key`", "document 120", "column"]);
    caught(a.sequence(offsets(DAY), |v| v[1] -= 1), &["`day`", "document 19", "column"]);
    caught(a.sequence(offsets(ON), |v| v[1] += 1), &["`on`", "slice of key 0"]);
    caught(a.section(offsets(KEY), |b| b[8] = 1), &["`key`", "offsets"]);
}

#[test]
fn wrong_postings_are_caught() {
    let a = Template::of("a");
    assert_eq!(a.fields()[KEY].slice_bits, 8, "one byte per document");
    let slices = section(KEY, part::SLICES);
    caught(a.section(slices, |b| b.swap(0, 1)), &["`key`", "key 0", "out of place"]);
    caught(a.section(slices, |b| b[1] = b[0]), &["`key`", "key 0", "out of place"]);
    caught(a.section(slices, |b| b[2] = 150), &["`key`", "document 150", "below 150"]);
    caught(a.section(slices, |b| b.swap(1, 4)), &["`key`", "document 61", "column"]);
    let slices = section(WORD, part::SLICES);
    caught(a.section(slices, |b| b[0] -= 1), &["`word`", "column"]);
    let wider = |m: &mut Vec<FieldMeta>| m[KEY].slice_bits = 9;
    caught(a.meta(|_, m| wider(m)), &["`key`", "9 bits are not those"]);

    let built = Template::built();
    let (id, bits) = (section(0, part::SLICES), built.fields()[0].slice_bits);
    assert_eq!(built.fields()[0].column_bits, None);
    // Key 0 is in documents 0 and 590, key 1 in document 253.
    caught(built.packed(id, bits, 600, |v| v[2] = 0), &["`id`", "document 0", "two values"]);
    caught(built.meta(|_, m| m[1].present -= 1), &["`run`", "documents have a value"]);
    let runs = section(1, part::RUNS);
    caught(built.section(runs, |b| b[4] -= 1), &["`run`", "offsets say"]);
    caught(built.section(runs, |b| swap_chunks(b, 0, 1, 8)), &["`run`", "out of place"]);
    caught(built.section(runs, |b| b[..4].fill(0xFF)), &["`run`", "out of place"]);
    let bitset = section(1, part::BITSETS);
    caught(built.section(bitset, |b| b[0] ^= 2), &["`run`", "key 0", "offsets say 300"]);
    caught(built.section(bitset, |b| b[75] |= 1), &["`run`", "document 600"]);
}

#[test]
fn wrong_divided_lists_are_caught() {
    let large = Template::of("large");
    let (lists, places) = (section(KEY, part::SLICES), section(KEY, part::LIST_OFFSETS));
    assert_eq!(large.fields()[KEY].slice_bits, ELIAS_FANO);
    // A list begins with its length and high bits.
    let moved = large.section(lists, |b| {
        let first = 4 + b[4..].iter().position(|byte| *byte != 0).unwrap();
        b[first..first + 9].rotate_left(1);
    });
    caught(moved, &["`key`", "key 0"]);
    caught(large.section(lists, |b| b.fill(0)), &["`key`", "the slice of key 0 is cut"]);
    caught(large.section(lists, |b| b[0] -= 1), &["`key`", "the slice of key 0 is cut"]);
    caught(large.section(lists, |b| b[4..].fill(0)), &["`key`", "the slice of key 0 is cut"]);
    caught(large.section(lists, |b| b[4..].fill(0xFF)), &["`key`", "key 0", "out of place"]);
    caught(large.section(lists, |b| *b.last_mut().unwrap() |= 0x80), &["`key`", "lists end"]);
    caught(large.section(lists, |b| b.extend([0; 8])), &["`key`", "lists"]);
    caught(large.sequence(places, |v| v[1] += 1), &["`key`", "the slice of key 1 is cut"]);
    caught(large.sequence(places, |v| *v.last_mut().unwrap() += 1), &["`key`", "lists"]);
    caught(large.forge(|id, bytes| (id != places).then_some(bytes)), &["is missing"]);
    let whole = |m: &mut Vec<FieldMeta>| m[KEY].slice_bits = 17;
    caught(large.meta(|_, m| whole(m)), &["not called for"]);
}

#[test]
fn wrong_bitsets_are_caught() {
    let field = Field::new("tag", Type::U64, Roles::FILTERABLE).multi().nullable();
    let mut builder = PartitionBuilder::new(Schema::new([field]).unwrap());
    for n in 0..9_000u64 {
        let mut document = Document::new();
        (0..2).filter(|tag| n % (9 + tag) == 0).for_each(|tag| document.push("tag", tag));
        builder.add(&document).unwrap();
    }
    let built = Template::of_builder(builder);
    let bitsets = section(0, part::BITSETS);
    // Two bitsets of 141 words.
    let damaged = |edit: &dyn Fn(&mut Vec<u8>)| built.section(bitsets, edit);
    caught(damaged(&|b| b[16] ^= 1), &["`tag`"]);
    caught(damaged(&|b| *b.last_mut().unwrap() = 1), &["`tag`"]);
    caught(damaged(&|b| b.truncate(2_000)), &["`tag`", "not in their section"]);
    caught(damaged(&|b| b.truncate(1_000)), &["`tag`", "not in their section"]);
    let list = section(0, part::SPECIAL_FORMS);
    caught(built.section(list, |b| b[8] = 1), &["`tag`", "offset"]);
    caught(built.section(list, |b| b[4..8].fill(0xFE)), &["`tag`", "key 0"]);
}

#[test]
fn wrong_special_forms_are_caught() {
    let built = Template::built();
    let list = section(1, part::SPECIAL_FORMS);
    assert_eq!(
        built.fields()[1].special_forms,
        2,
        "`odd` a bitset, `rare` a slice, `run` two runs"
    );
    caught(built.section(list, |b| b[0] = 1), &["`run`", "key 0"]);
    caught(built.section(list, |b| b.swap(0, 24)), &["`run`", "key 0"]);
    caught(built.section(list, |b| b[24] = 7), &["`run`", "key 2"]);
    caught(built.section(list, |b| b[24 + 4] = 3), &["`run`", "key 2", "section"]);
    caught(built.section(list, |b| b[24 + 9] = 1), &["`run`", "key 2", "at offset 256"]);
    caught(built.section(list, |b| b[24 + 8] = 8), &["`run`", "key 2", "at offset 8"]);
    for area in [part::BITSETS, part::RUNS].map(|part| section(1, part)) {
        caught(built.section(area, |b| b.extend([0; 8])), &["`run`", "behind the last"]);
    }
    caught(built.section(list, |b| b[24 + 16] += 1), &["`run`", "special forms before key 2"]);
    caught(built.section(list, |b| b[48] = 0), &["`run`", "of 2 special forms 2"]);
    caught(built.section(list, |b| b[48 + 16] -= 1), &["`run`"]);
    caught(built.section(list, |b| b.truncate(48)), &["`run`", "special forms"]);
}

#[test]
fn wrong_keys_in_columns_are_caught() {
    let large = Template::of("large");
    let meta = large.fields()[RATIO];
    let (list, column) = (section(RATIO, part::SPECIAL_FORMS), section(RATIO, part::COLUMN));
    assert_eq!((meta.special_forms, meta.distinct), (31, 31), "all keys are found in the column");
    let changed = |ord: u32| {
        let bits = meta.column_bits.unwrap();
        large.packed(column, bits, 66_000, move |ords| ords[40] = ord)
    };
    caught(changed(2), &["`ratio`", "key 1 has", "offsets say"]);
    caught(changed(31), &["`ratio`", "key 1 has", "offsets say"]);
    caught(large.section(list, |b| b[24] = 2), &["`ratio`", "key 1"]);
    caught(large.section(list, |b| b[24 + 4..24 + 8].fill(0)), &["`ratio`", "key 1", "section"]);
    caught(large.section(list, |b| b[24 + 8] = 8), &["`ratio`", "key 1", "offset"]);
    caught(large.section(list, |b| b[24 + 16] += 1), &["`ratio`", "special forms before key 1"]);
    // A multi-valued field, whose column cannot be scanned.
    let built = Template::built();
    let in_column = |b: &mut Vec<u8>| b[24 + 4..24 + 8].fill(0xFF);
    let of = section(1, part::SPECIAL_FORMS);
    caught(built.section(of, in_column), &["`run`", "no column that can be scanned"]);
}

#[test]
fn wrong_scanned_fields_are_caught() {
    let built = Template::scanned();
    let meta = built.fields()[0];
    let (first, end) = meta.scanned;
    assert!(0 < first && first < end && end < meta.distinct, "{first} to {end}");
    let column = |doc: usize, ord: u32| {
        built.packed(section(0, part::COLUMN), 10, 5_000, move |ords| ords[doc] = ord)
    };
    // Document n has key 719 * n modulo 900. Document 0 is in a list.
    let other = first + 1;
    caught(column(0, other), &["`price`", "document 0 has key 0, but not in the column"]);
    let alone = (0..5_000).find(|n| n * 719 % 900 == other as usize).unwrap();
    caught(column(alone, 0), &["`price`", &format!("key {other} has"), "offsets say"]);
    let slices = built.section(section(0, part::SLICES), |b| b[0] ^= 1);
    caught(slices, &["`price`", "key 0"]);
    let moved = |first: u32, end: u32| built.meta(move |_, metas| metas[0].scanned = (first, end));
    caught(moved(first + 1, end), &["`price`", "do not hold"]);
    caught(moved(first + 1, end + 1), &["`price`", "key"]);
    caught(moved(0, 0), &["`price`", "do not hold"]);
    caught(moved(first, meta.distinct + 1), &["901 of 900 are scanned"]);
    caught(built.meta(|schema, _| schema.fields[0].scanned = false), &["`price`", "declared"]);
    caught(built.meta(|_, metas| metas[0].column_bits = None), &["`price`", "no column that is"]);
    caught(built.meta(|_, metas| metas[0].special_forms = 1), &["`price`", "no column that is"]);
}

#[test]
fn wrong_columns_are_caught() {
    let a = Template::of("a");
    let metas = a.fields();
    let bits = |field: usize| metas[field].column_bits.unwrap();
    let of = |field| section(field, part::COLUMN);
    // Document 0 has no value of `on` and `n`, document 1 has.
    caught(a.packed(of(ON), bits(ON), 150, |v| v[0] = 1), &["`on`", "document 0", "alone"]);
    caught(a.packed(of(ON), bits(ON), 150, |v| v[1] = 2), &["`on`", "document 1", "column"]);
    caught(a.packed(of(N), bits(N), 150, |v| v.swap(1, 2)), &["`n`", "column"]);
    caught(a.packed(of(KEPT), bits(KEPT), 150, |v| v[5] = 6), &["`kept`", "1 of its keys"]);
    caught(a.packed(of(KEPT), bits(KEPT), 150, |v| v[5] = 200), &["`kept`", "document 5"]);
    let postings = metas[WORD].postings as usize;
    caught(a.packed(of(WORD), bits(WORD), postings, |v| v.swap(1, 2)), &["`word`", "column"]);
    let starts = section(WORD, part::STARTS);
    caught(a.sequence(starts, |v| v[2] += 1), &["`word`", "column"]);
    caught(a.sequence(starts, |v| *v.last_mut().unwrap() += 1), &["`word`", "starts go from"]);
}

#[test]
fn wrong_metadata_is_caught() {
    let a = Template::of("a");
    let ordered = |field: usize, ordered| a.meta(move |_, m| m[field].ordered = ordered);
    caught(ordered(DAY, Ordered::Descending), &["`day`", "column"]);
    caught(ordered(DAY, Ordered::No), &["section 0x104 is missing"]);
    caught(ordered(RATIO, Ordered::Ascending), &["not called for"]);
    caught(a.meta(|_, m| m[N].present -= 1), &["`n`", "documents have a value"]);
    caught(a.meta(|_, m| m[KEPT].present -= 1), &["`kept`"]);
    caught(a.meta(|s, _| s.fields[N].nullable = false), &["`n`", "nullable"]);
    caught(a.meta(|s, _| s.fields[KEPT].ty = Type::Bool), &["`kept`", "bool"]);
    caught(a.meta(|s, _| s.order = vec![asc("day"), asc("n")]), &["order"]);
    caught(a.meta(|s, _| s.order = vec![asc("key")]), &["`key`"]);
    caught(a.meta(|s, _| s.order = vec![asc("nope")]), &["`nope`"]);
    let c = Template::of("c");
    caught(c.meta(|s, _| s.order.reverse()), &["order"]);
    let column = section(KEPT, part::COLUMN);
    caught(a.forge(|id, bytes| (id != column).then_some(bytes)), &["is missing"]);
    let without = a.forge(|id, bytes| (id != column).then_some(bytes));
    let hidden = Template(without).meta(|_, m| m[KEPT].column_bits = None);
    caught(hidden, &["`kept`", "column"]);
}

#[test]
fn wrong_payloads_are_caught() {
    let (a, b) = (Template::of("a"), Template::of("b"));
    let offsets = global::OFFSETS;
    caught(a.sequence(offsets, |v| *v.last_mut().unwrap() -= 1), &["payload offsets"]);
    caught(a.section(offsets, |b| b[8 + 16..][..8].fill(0)), &["payload offsets"]);
    caught(a.section(global::CHECKS, |b| b[0] ^= 1), &["payload block 0"]);
    caught(a.section(global::CHECKS, |b| b.extend([0; 8])), &["payload checks"]);
    caught(b.sequence(offsets, |v| *v.last_mut().unwrap() += 1), &["payload block"]);
    caught(b.sequence(offsets, |v| *v.last_mut().unwrap() -= 1), &["payload block"]);
    caught(b.sequence(global::BLOCK_DOCUMENTS, |v| v[1] -= 1), &["block documents"]);
    caught(b.sequence(global::BLOCK_OFFSETS, |v| v[1] -= 1), &["block offsets"]);
    caught(b.meta(|s, _| s.payload = Payload::Raw), &["not called for"]);
    caught(a.forge(|id, b| (id != global::CHECKS).then_some(b)), &["missing"]);
}

#[test]
fn a_set_that_contradicts_its_files_is_caught() {
    let store = store();
    let mut change = store.collection.change().unwrap();
    for (name, ty) in [("a", Type::I64), ("b", Type::I64)] {
        let field = Field::new("n", ty, Roles::FULL).nullable();
        change.put(name, PartitionBuilder::new(Schema::new([field]).unwrap())).unwrap();
    }
    change.commit().unwrap();
    let (disk, dir) = (&*store.disk, Path::new(DIR));
    let members = manifest::read(disk, &dir.join(manifest::file_name(2)), &[]).unwrap();
    let members: Vec<Member> = members.iter().map(|member| Member::clone(member)).collect();
    verify::set(disk, dir, &members).unwrap();
    let wrong = |edit: fn(&mut Vec<Member>), words: &[&str]| {
        let mut members = members.clone();
        edit(&mut members);
        let error = verify::set(disk, dir, &members).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.file().is_some() && words.iter().all(|w| error.message().contains(w)));
    };
    wrong(|m| m[0].documents = 9, &["`a`", "9 documents"]);
    wrong(|m| m[1].bytes += 1, &["`b`", "bytes"]);
    wrong(|m| m[1].content ^= 1, &["`b`", "content"]);
    let field = Field::new("n", Type::String, Roles::FULL);
    let other = PartitionBuilder::new(Schema::new([field]).unwrap());
    let content = other.write_on(&(store.disk.clone() as _), &dir.join("other")).unwrap();
    let bytes = disk.map(&dir.join("other")).unwrap().len() as u64;
    let mut members = members.clone();
    members[1] = Member { file: "other".into(), content, bytes, ..members[1].clone() };
    let error = verify::set(disk, dir, &members).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.message().contains("`n`"), "{error}");
}
