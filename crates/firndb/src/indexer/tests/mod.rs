//! Tests of the indexer on the simulated disk, and of a process that is killed.
//!
//! - `model.rs`: long random work compared with a map;
//! - `basic.rs`: single operations;
//! - `copies.rs`: collections that are not the published one, and backups;
//! - `crash.rs`: power loss and failing calls at every operation, and corruption;
//! - `guard.rs`: feeds that remove too much, and foreign changes of the collection;
//! - `kill.rs`: a process that is killed repeatedly.

mod basic;
mod copies;
mod crash;
mod guard;
mod kill;
mod model;

use crate::Result;
use crate::disk::{DiskRef, SimDisk};
use crate::indexer::assign::partition_of;
use crate::indexer::format::{encode_document, id_of};
use crate::indexer::{Applied, Indexer, Options, Partitioning};
use crate::log;
use crate::search::query::all;
use crate::search::{Document, Field, Query, Reader, Roles, Schema, Type, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/index";

fn schema() -> Schema {
    let group = Field::new("group", Type::String, Roles::FULL).nullable();
    Schema::new([group, Field::new("version", Type::I64, Roles::FULL)]).unwrap()
}

/// Small enough that everything happens: segments of a page, nothing in the background, one thread.
fn options() -> Options {
    let log = log::Options { segment_bytes: 4096, background: false, ..log::Options::default() };
    Options { threads: 1, log: log::Options { index_bits: 2, ..log }, ..Options::default() }
}

fn open_as(disk: &Arc<SimDisk>, partitioning: Partitioning) -> Result<Indexer> {
    let wanted = Some((schema(), partitioning));
    Indexer::open_on(disk.clone() as DiskRef, Path::new(DIR), wanted, options())
}

fn open(disk: &Arc<SimDisk>) -> Result<Indexer> {
    Indexer::open_on(disk.clone() as DiskRef, Path::new(DIR), None, options())
}

/// A document: its group, and its version.
type Doc = (Option<String>, i64);

/// What a source says: documents by key.
type Feed = BTreeMap<String, Doc>;

fn doc(group: &str, version: i64) -> Doc {
    (Some(group.to_string()), version)
}

fn feed<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str, i64)>) -> Feed {
    documents.into_iter().map(|(key, group, v)| (key.to_string(), doc(group, v))).collect()
}

/// The payload holds the key, and makes feeds longer than what is kept in memory.
fn document(key: &str, (group, version): &Doc) -> Document {
    let document = Document::new().set("version", *version);
    let document = match group {
        Some(group) => document.set("group", group.as_str()),
        None => document,
    };
    document.payload(format!("{key} {}", "x".repeat(300)))
}

fn items(feed: &Feed) -> impl Iterator<Item = Result<(String, Document)>> {
    feed.iter().map(|(key, doc)| Ok((key.clone(), document(key, doc))))
}

/// Single changes of a source.
fn change(indexer: &mut Indexer, source: &str, changes: &[(&str, Option<Doc>)]) -> Result<Applied> {
    let mut feed = indexer.changes(source)?;
    for (key, doc) in changes {
        match doc {
            Some(doc) => feed.add(key, &document(key, doc))?,
            None => feed.remove(key)?,
        }
    }
    feed.finish()
}

/// Documents by partition and key.
type Content = BTreeMap<String, Feed>;

/// What a collection holds. A key that is there twice is found here.
fn content(reader: &Reader) -> Content {
    reader.verify().unwrap();
    let names: Vec<String> = reader.partitions().into_iter().map(|part| part.name).collect();
    let mut content: Content = names.iter().map(|name| (name.clone(), Feed::new())).collect();
    let mut query = Query::new(all());
    query.limit = Some(100_000);
    for hit in reader.search(&query).unwrap().hits {
        let payload = reader.payload(hit).unwrap().into_owned();
        let key = String::from_utf8(payload).unwrap().split(' ').next().unwrap().to_string();
        let group = match reader.value(hit, "group").unwrap() {
            Some(Value::Str(group)) => Some(group),
            _ => None,
        };
        let Some(Value::I64(version)) = reader.value(hit, "version").unwrap() else { panic!() };
        let part = content.get_mut(&names[hit.partition as usize]).unwrap();
        assert_eq!(part.insert(key, (group, version)), None, "a document is there twice");
    }
    content
}

/// What should be published of these sources: of each key the document of the first source.
fn expected(sources: &BTreeMap<String, Feed>, partitioning: &Partitioning) -> Content {
    let mut documents = Feed::new();
    for feed in sources.values().rev() {
        documents.extend(feed.clone());
    }
    let mut content = Content::new();
    for (key, doc) in documents {
        let bytes = encode_document(&schema(), &document(&key, &doc)).unwrap();
        let name = partition_of(partitioning, &schema(), id_of(key.as_bytes()), &bytes).unwrap();
        content.entry(name).or_default().insert(key, doc);
    }
    content
}

fn published(indexer: &Indexer) -> Content {
    content(&indexer.collection().reader())
}

/// A number from the environment, for runs that are larger than usual.
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
