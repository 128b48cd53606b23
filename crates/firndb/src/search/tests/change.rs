//! Changes of a collection: a merged partition has the bytes of one built from the same documents,
//! equal documents give equal bytes, and readers keep their set.

use super::random_collection::{CollectionSpec, RandomCollection, Scale};
use super::random_queries::QueryGenerator;
use super::reference::{Doc, Model};
use super::{DIR, Store, number_from_env, store};
use crate::disk::SimDisk;
use crate::disk::envelope::{Kind, kind_of};
use crate::search::model::query::{all, gte};
use crate::search::testing::Rng;
use crate::search::{
    Document, Field, GroupBy, PartitionBuilder, Query, Reader, Roles, Schema, Type, Value,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SEED: u64 = 0xC4A9_0000;
const ROUNDS: u64 = 40;

/// The seeds of a test's rounds, or only `FIRNDB_SEED` if it is set.
fn seeds(base: u64) -> Vec<u64> {
    println!("base seed {base:#x}; FIRNDB_SEED replays one round");
    number_from_env("FIRNDB_SEED").map_or((base..base + ROUNDS).collect(), |seed| vec![seed])
}

/// Compares a few random queries, payloads and values with the model.
fn check(rng: &mut Rng, reader: &Reader, generator: &QueryGenerator, model: &Model, seed: u64) {
    assert_eq!(reader.len(), model.docs.len() as u64, "seed {seed:#x}");
    reader.verify().unwrap();
    for _ in 0..6 {
        let query = generator.query(rng);
        let hits = reader.search(&query).unwrap().hits;
        assert_eq!(hits, model.search(&query), "seed {seed:#x}, {query}");
        if let Some(facet) = generator.facet(rng, false) {
            let got = reader.facets(&query.filter, std::slice::from_ref(&facet)).unwrap();
            assert_eq!(got, [model.facet(&query.filter, &facet)], "seed {seed:#x}, {query}");
        }
    }
    let payloads = reader.payloads(&model.hits).unwrap();
    assert_eq!(payloads.len(), model.hits.len());
    for (&hit, payload) in model.hits.iter().zip(&payloads) {
        assert_eq!(**payload, model.docs[model.index(hit)].payload[..], "seed {seed:#x}, {hit:?}");
    }
    for _ in 0..10.min(model.hits.len()) {
        let hit = *rng.pick(&model.hits);
        let doc = &model.docs[model.index(hit)];
        assert_eq!(&*reader.payload(hit).unwrap(), &doc.payload[..], "seed {seed:#x}");
        for field in &generator.readable {
            let values = reader.values(hit, &field.name).unwrap();
            assert_eq!(values, doc.values[model.field(&field.name)], "seed {seed:#x}");
        }
    }
}

/// The bytes of the only partition in the collection's directory.
fn only_partition(disk: &SimDisk) -> Vec<u8> {
    let is_partition = |bytes: &[u8]| kind_of(bytes).is_ok_and(|k| k.0 == Kind::Partition as u32);
    let in_dir = disk.files().into_iter().filter(|(path, _)| path.starts_with(DIR));
    let mut partitions: Vec<Vec<u8>> =
        in_dir.map(|(_, bytes)| bytes).filter(|bytes| is_partition(bytes)).collect();
    assert_eq!(partitions.len(), 1, "replaced partitions are removed");
    partitions.remove(0)
}

/// A collection with one partition that holds these documents.
fn build_one(spec: &CollectionSpec, schema: Schema, rng: &mut Rng, docs: &[Doc]) -> Store {
    let store = store();
    let mut change = store.collection.change().unwrap();
    change.put("one", spec.build(schema, rng, docs)).unwrap();
    change.commit().unwrap();
    store
}

#[test]
fn a_merged_partition_equals_one_built_from_the_documents() {
    for seed in seeds(SEED) {
        let mut rng = Rng(seed);
        // Only partitions of the same schema and order can be merged.
        let mut spec = CollectionSpec {
            omit_unused: false,
            ..CollectionSpec::new(&mut rng, Scale::of(seed % 39))
        };
        if spec.schema.is_dynamic() {
            spec.schema = spec.schema.order_by([]).unwrap();
        }
        let case = RandomCollection::of(spec, &mut rng);
        let names: Vec<&str> = case.model.names.iter().map(String::as_str).collect();
        let mut change = case.store.collection.change().unwrap();
        change.merge(&names, "one").unwrap();
        let reader = change.commit().unwrap();

        // A dynamic schema now has the fields of all documents.
        let schema = reader.schema().clone();
        let docs = case.model.docs.clone();
        let together = vec![("one".to_string(), case.spec.in_order(&schema, docs.clone()))];
        let model = Model::new(case.spec.fields(), together);
        let generator = QueryGenerator::new(&case, &schema);
        check(&mut rng, &reader, &generator, &model, seed);
        let built = build_one(&case.spec, schema, &mut rng, &docs);
        let (merged, built) = (only_partition(&case.store.disk), only_partition(&built.disk));
        assert!(merged == built, "seed {seed:#x}: the bytes differ");
    }
}

#[test]
fn equal_documents_give_equal_bytes() {
    for seed in seeds(SEED + 1_000) {
        let mut rng = Rng(seed);
        let spec = CollectionSpec::new(&mut rng, Scale::of(seed % 39));
        let size = 1 + rng.below(400);
        let (_, docs) = spec.partition(&mut rng, size);
        let mut file = || {
            let store = build_one(&spec, spec.known_schema(&docs), &mut rng, &docs);
            only_partition(&store.disk)
        };
        let first = file();
        assert!((0..2).all(|_| file() == first), "seed {seed:#x}");
    }
}

#[test]
fn readers_keep_their_set_while_it_is_replaced() {
    for seed in seeds(SEED + 2_000) {
        let mut rng = Rng(seed);
        let case = RandomCollection::new(&mut rng, Scale::of(seed % 39));
        let split = |model: &Model| -> Vec<(String, Vec<Doc>)> {
            let docs = |i| {
                let hits = model.hits.iter().zip(&model.docs);
                hits.filter(|(h, _)| h.partition == i).map(|(_, d)| d.clone()).collect()
            };
            (0..).zip(&model.names).map(|(i, name)| (name.clone(), docs(i))).collect()
        };
        let mut versions = vec![(case.store.collection.reader(), case.model.clone())];
        for round in 0..4 {
            let mut parts = split(&versions.last().unwrap().1);
            let mut change = case.store.collection.change().unwrap();
            if parts.len() > 1 && rng.below(4) == 0 {
                let (name, _) = parts.remove(rng.below(parts.len()));
                change.remove(&name).unwrap();
            }
            let size = rng.below(300);
            let (builder, docs) = case.spec.partition(&mut rng, size);
            let name = match rng.below(4) {
                0 => format!("new-{round}"),
                _ => parts.get(rng.below(parts.len().max(1))).map_or("x".into(), |p| p.0.clone()),
            };
            change.put(&name, builder).unwrap();
            parts.retain(|part| part.0 != name);
            parts.push((name, docs));
            let reader = change.commit().unwrap();
            let model = Model::new(case.spec.fields(), parts);
            // These queries fill the statistics that the next set carries over.
            let generator = QueryGenerator::new(&case, reader.schema());
            check(&mut rng, &reader, &generator, &model, seed);
            versions.push((reader, model));
        }
        let current = (case.store.collection.reader(), versions.last().unwrap().1.clone());
        versions.push(current);
        for (reader, model) in &versions {
            let generator = QueryGenerator::new(&case, reader.schema());
            check(&mut rng, reader, &generator, model, seed);
        }
    }
}

/// Two partitions whose documents all have the version number in a field.
fn version(number: u64) -> [PartitionBuilder; 2] {
    [(0, 40), (1, 70)].map(|(part, documents): (u64, u64)| {
        let fields = ["version", "n"].map(|name| Field::new(name, Type::U64, Roles::FULL));
        let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
        for n in 0..documents + number % 7 {
            let document = Document::new().set("version", number).set("n", n * (part + 1));
            builder.add(&document.payload(number.to_string())).unwrap();
        }
        builder
    })
}

/// The version that a reader sees. Asserts that all its answers are of one version.
fn version_of(reader: &Reader) -> u64 {
    let by = GroupBy { fields: vec!["version".into()], aggregates: vec!["n".into()] };
    let groups = reader.group_by(&all(), &by).unwrap();
    let [group] = &groups[..] else { panic!("{} versions at once", groups.len()) };
    let Some(Value::U64(number)) = group.key[0] else { panic!("{:?}", group.key) };
    let documents = 110 + 2 * (number % 7);
    assert_eq!((group.count, reader.len()), (documents, documents));
    let few: u64 = (5..40 + number % 7).count() as u64;
    let expected = few + (3..70 + number % 7).count() as u64;
    assert_eq!(reader.count(&gte("n", 5u64)).unwrap(), expected);
    let page = reader.search(&Query::new(gte("n", 5u64)).limit(3)).unwrap();
    for hit in page.hits {
        assert_eq!(&*reader.payload(hit).unwrap(), number.to_string().as_bytes());
    }
    number
}

#[test]
fn threads_see_one_version_at_a_time() {
    const VERSIONS: u64 = 50;
    let Store { collection, disk } = store();
    let publish = |number| {
        let mut change = collection.change().unwrap();
        for (name, builder) in ["a", "b"].into_iter().zip(version(number)) {
            change.put(name, builder).unwrap();
        }
        change.commit().unwrap();
    };
    publish(0);
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut last = 0;
                let kept = collection.reader();
                let kept_version = version_of(&kept);
                while !done.load(Ordering::Acquire) {
                    let seen = version_of(&collection.reader());
                    assert!(seen >= last, "version {seen} was seen after {last}");
                    last = seen;
                    assert_eq!(version_of(&kept), kept_version);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 1..=VERSIONS {
            let before = reads.load(Ordering::Relaxed);
            publish(number);
            while reads.load(Ordering::Relaxed) == before {
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(version_of(&collection.reader()), VERSIONS);
    println!("{reads:?} reads during {VERSIONS} replacements");
    let left = disk.files().into_keys().filter(|path| path.starts_with(Path::new(DIR))).count();
    assert!(left <= 2 + 2 + 2, "{left} files are left after {VERSIONS} replacements");
}
