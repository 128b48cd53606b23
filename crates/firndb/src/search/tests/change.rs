//! Changing a collection: merged partitions are those built from their documents, equal documents
//! give equal bytes, readers keep the set they have.

use super::ask::Asker;
use super::naive::{Doc, Model};
use super::world::{Plan, Scale, World};
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

/// Seeds of the rounds of a test; one round if `FIRNDB_SEED` asks for it.
fn seeds(base: u64) -> Vec<u64> {
    println!("base seed {base:#x}, each round its own; FIRNDB_SEED replays one");
    number_from_env("FIRNDB_SEED").map_or((base..base + ROUNDS).collect(), |seed| vec![seed])
}

/// A few questions, answered as the model answers.
fn check(rng: &mut Rng, reader: &Reader, asker: &Asker, model: &Model, seed: u64) {
    assert_eq!(reader.len(), model.docs.len() as u64, "seed {seed:#x}");
    reader.verify().unwrap();
    for _ in 0..6 {
        let query = asker.query(rng);
        let hits = reader.search(&query).unwrap().hits;
        assert_eq!(hits, model.search(&query), "seed {seed:#x}, {query}");
        if let Some(facet) = asker.facet(rng, false) {
            let got = reader.facets(&query.filter, std::slice::from_ref(&facet)).unwrap();
            assert_eq!(got, [model.facet(&query.filter, &facet)], "seed {seed:#x}, {query}");
        }
    }
    let payloads = reader.payloads(&model.hits).unwrap();
    assert_eq!(payloads.len(), model.hits.len());
    for (&hit, payload) in model.hits.iter().zip(&payloads) {
        assert_eq!(**payload, model.docs[model.place(hit)].payload[..], "seed {seed:#x}, {hit:?}");
    }
    for _ in 0..10.min(model.hits.len()) {
        let hit = *rng.pick(&model.hits);
        let doc = &model.docs[model.place(hit)];
        assert_eq!(&*reader.payload(hit).unwrap(), &doc.payload[..], "seed {seed:#x}");
        for field in &asker.readable {
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

/// A collection with one partition, of these documents.
fn build_one(plan: &Plan, schema: Schema, rng: &mut Rng, docs: &[Doc]) -> Store {
    let store = store();
    let mut change = store.collection.change().unwrap();
    change.put("one", plan.build(schema, rng, docs)).unwrap();
    change.commit().unwrap();
    store
}

#[test]
fn merged_partitions_are_those_built_from_the_documents() {
    for seed in seeds(SEED) {
        let mut rng = Rng(seed);
        // Only partitions of the same schema and order can be merged.
        let mut plan = Plan { forgetful: false, ..Plan::new(&mut rng, Scale::of(seed % 39)) };
        if plan.schema.is_dynamic() {
            plan.schema = plan.schema.order_by([]).unwrap();
        }
        let world = World::of(plan, &mut rng);
        let names: Vec<&str> = world.model.names.iter().map(String::as_str).collect();
        let mut change = world.store.collection.change().unwrap();
        change.merge(&names, "one").unwrap();
        let reader = change.commit().unwrap();

        // A dynamic schema has grown by the fields that documents brought.
        let schema = reader.schema().clone();
        let docs = world.model.docs.clone();
        let together = vec![("one".to_string(), world.plan.in_order(&schema, docs.clone()))];
        let model = Model::new(world.plan.fields(), together);
        let asker = Asker::new(&world, &schema);
        check(&mut rng, &reader, &asker, &model, seed);
        let built = build_one(&world.plan, schema, &mut rng, &docs);
        let (merged, built) = (only_partition(&world.store.disk), only_partition(&built.disk));
        assert!(merged == built, "seed {seed:#x}: other bytes");
    }
}

#[test]
fn equal_documents_give_equal_bytes() {
    for seed in seeds(SEED + 1_000) {
        let mut rng = Rng(seed);
        let plan = Plan::new(&mut rng, Scale::of(seed % 39));
        let size = 1 + rng.below(400);
        let (_, docs) = plan.partition(&mut rng, size);
        let mut file = || {
            let store = build_one(&plan, plan.known_schema(&docs), &mut rng, &docs);
            only_partition(&store.disk)
        };
        let first = file();
        assert!((0..2).all(|_| file() == first), "seed {seed:#x}");
    }
}

#[test]
fn readers_keep_their_set_while_others_replace_it() {
    for seed in seeds(SEED + 2_000) {
        let mut rng = Rng(seed);
        let world = World::new(&mut rng, Scale::of(seed % 39));
        let split = |model: &Model| -> Vec<(String, Vec<Doc>)> {
            let docs = |i| {
                let hits = model.hits.iter().zip(&model.docs);
                hits.filter(|(h, _)| h.partition == i).map(|(_, d)| d.clone()).collect()
            };
            (0..).zip(&model.names).map(|(i, name)| (name.clone(), docs(i))).collect()
        };
        let mut versions = vec![(world.store.collection.reader(), world.model.clone())];
        for round in 0..4 {
            let mut parts = split(&versions.last().unwrap().1);
            let mut change = world.store.collection.change().unwrap();
            if parts.len() > 1 && rng.below(4) == 0 {
                let (name, _) = parts.remove(rng.below(parts.len()));
                change.remove(&name).unwrap();
            }
            let size = rng.below(300);
            let (builder, docs) = world.plan.partition(&mut rng, size);
            let name = match rng.below(4) {
                0 => format!("new-{round}"),
                _ => parts.get(rng.below(parts.len().max(1))).map_or("x".into(), |p| p.0.clone()),
            };
            change.put(&name, builder).unwrap();
            parts.retain(|part| part.0 != name);
            parts.push((name, docs));
            let reader = change.commit().unwrap();
            let model = Model::new(world.plan.fields(), parts);
            // The next version inherits what these questions made of the values.
            let asker = Asker::new(&world, reader.schema());
            check(&mut rng, &reader, &asker, &model, seed);
            versions.push((reader, model));
        }
        let current = (world.store.collection.reader(), versions.last().unwrap().1.clone());
        versions.push(current);
        for (reader, model) in &versions {
            let asker = Asker::new(&world, reader.schema());
            check(&mut rng, reader, &asker, model, seed);
        }
    }
}

/// Two partitions whose documents all carry the number of the version.
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

/// The version that a reader sees, if all its answers are of one.
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
    let (done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut last = 0;
                let kept = collection.reader();
                let kept_version = version_of(&kept);
                while !done.load(Ordering::Acquire) {
                    let seen = version_of(&collection.reader());
                    assert!(seen >= last, "time went back from {last} to {seen}");
                    last = seen;
                    assert_eq!(version_of(&kept), kept_version);
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 1..=VERSIONS {
            let before = looks.load(Ordering::Relaxed);
            publish(number);
            while looks.load(Ordering::Relaxed) == before {
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(version_of(&collection.reader()), VERSIONS);
    println!("{looks:?} looks at {VERSIONS} replacements");
    let left = disk.files().into_keys().filter(|path| path.starts_with(Path::new(DIR))).count();
    assert!(left <= 2 + 2 + 2, "{left} files are left after {VERSIONS} replacements");
}
