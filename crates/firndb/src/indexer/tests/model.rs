//! Long random work: feeds, single changes, publishes, reopenings, new divisions, beside a map.

use super::*;
use crate::testing::Rng;
use std::collections::BTreeSet;

struct World {
    disk: Arc<SimDisk>,
    indexer: Option<Indexer>,
    sources: BTreeMap<String, Feed>,
    partitioning: Partitioning,
    /// What is published, and which partitions changed since.
    published: Content,
    dirty: BTreeSet<String>,
    rng: Rng,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng(seed);
        let disk = SimDisk::new();
        let partitioning = some_partitioning(&mut rng);
        let indexer = open_as(&disk, partitioning.clone()).unwrap();
        World {
            disk,
            indexer: Some(indexer),
            sources: BTreeMap::new(),
            partitioning,
            published: Content::new(),
            dirty: BTreeSet::new(),
            rng,
        }
    }

    fn indexer(&mut self) -> &mut Indexer {
        self.indexer.as_mut().unwrap()
    }

    fn some_doc(&mut self) -> Doc {
        let group = *self.rng.pick(&[None, Some("red"), Some("blue"), Some("")]);
        (group.map(str::to_string), self.rng.below(3) as i64)
    }

    fn some_key(&mut self) -> String {
        format!("k{}", self.rng.below(40))
    }

    fn step(&mut self) {
        let source = self.rng.pick(&["a", "b", "c"]).to_string();
        let before = expected(&self.sources, &self.partitioning);
        let dirty = match self.rng.below(12) {
            0..4 => self.apply(source),
            4..8 => self.update(source),
            8 => {
                self.partitioning = some_partitioning(&mut self.rng);
                let partitioning = self.partitioning.clone();
                self.indexer().repartition(partitioning).unwrap();
                let after = expected(&self.sources, &self.partitioning);
                self.dirty.extend(before.into_keys().chain(after.into_keys()));
                self.dirty.extend(self.published.keys().cloned());
                return;
            }
            9 => {
                self.indexer = None;
                self.indexer = Some(open(&self.disk).unwrap());
                return;
            }
            _ => return self.publish(),
        };
        let after = expected(&self.sources, &self.partitioning);
        let names = before.keys().chain(after.keys());
        let changed: BTreeSet<_> = names.filter(|n| before.get(*n) != after.get(*n)).collect();
        assert_eq!(dirty.iter().collect::<BTreeSet<_>>(), changed);
        self.dirty.extend(dirty);
    }

    fn apply(&mut self, source: String) -> Vec<String> {
        let old = self.sources.get(&source).cloned().unwrap_or_default();
        let mut new = if self.rng.below(4) > 0 { old.clone() } else { Feed::new() };
        for _ in 0..self.rng.below(25) {
            let (key, doc) = (self.some_key(), self.some_doc());
            match self.rng.below(3) {
                0 => _ = new.remove(&key),
                _ => _ = new.insert(key, doc),
            }
        }
        let applied = self.indexer().apply(&source, items(&new)).unwrap();
        let count = |keep: &dyn Fn(&String, &Doc) -> bool| {
            new.iter().filter(|(key, doc)| keep(key, doc)).count() as u64
        };
        assert_eq!(applied.added, count(&|key, _| !old.contains_key(key)));
        assert_eq!(applied.unchanged, count(&|key, doc| old.get(key) == Some(doc)));
        assert_eq!(applied.updated, count(&|key, doc| old.get(key).is_some_and(|d| d != doc)));
        let gone = old.keys().filter(|key| !new.contains_key(*key)).count();
        assert_eq!(applied.removed, gone as u64);
        self.sources.insert(source, new);
        applied.dirty
    }

    fn update(&mut self, source: String) -> Vec<String> {
        let count = 1 + self.rng.below(3);
        let keys: BTreeSet<String> = (0..count).map(|_| self.some_key()).collect();
        let some = |key| (key, (self.rng.below(3) > 0).then(|| self.some_doc()));
        let changes: Vec<(String, Option<Doc>)> = keys.into_iter().map(some).collect();
        let feed = self.sources.entry(source.clone()).or_default();
        for (key, doc) in &changes {
            match doc {
                Some(doc) => feed.insert(key.clone(), doc.clone()),
                None => feed.remove(key),
            };
        }
        let changes = changes.iter().map(|(key, doc)| (key.as_str(), doc.clone()));
        change(self.indexer(), &source, &changes.collect::<Vec<_>>()).unwrap().dirty
    }

    fn publish(&mut self) {
        assert_eq!(published(self.indexer()), self.published, "a change was visible too early");
        let dirty: Vec<String> = std::mem::take(&mut self.dirty).into_iter().collect();
        assert_eq!(self.indexer().status().unwrap().dirty, dirty);
        let done = self.indexer().publish().unwrap();
        let after = expected(&self.sources, &self.partitioning);
        let (there, gone): (Vec<_>, Vec<_>) =
            dirty.into_iter().partition(|name| after.contains_key(name));
        assert_eq!(done.rebuilt, there);
        let was_there = |name: &String| self.published.contains_key(name);
        assert_eq!(done.removed, gone.into_iter().filter(was_there).collect::<Vec<_>>());
        assert_eq!(published(self.indexer()), after);
        self.published = after;
        let status = self.indexer().status().unwrap();
        let counts = self.sources.iter().filter(|(_, feed)| !feed.is_empty());
        let counts = counts.map(|(source, feed)| (source.clone(), feed.len() as u64));
        assert_eq!(status.sources, counts.collect::<Vec<_>>());
    }
}

fn some_partitioning(rng: &mut Rng) -> Partitioning {
    match rng.below(3) {
        0 => Partitioning::by_hash(1 + rng.below(6) as u32),
        1 => Partitioning::by_field("group"),
        _ => Partitioning::by_field_and_hash("group", 1 + rng.below(3) as u32),
    }
}

/// `FIRNDB_SEED` repeats a run, `FIRNDB_STEPS` makes it longer.
#[test]
fn the_collection_matches_the_model() {
    let first = setting("FIRNDB_SEED", 1);
    let steps = setting("FIRNDB_STEPS", 120);
    for seed in first..first + 6 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        (0..steps).for_each(|_| world.step());
        world.publish();
    }
}
