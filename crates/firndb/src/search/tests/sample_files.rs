//! Sample collections for tests of damage: their files in memory, a read-only disk that serves
//! them, and queries that read every structure in them.

use super::{DIR, Store, store};
use crate::disk::{
    Append, AppendMap, AppendMapWriter, AppendMode, Disk, DiskRef, Entry, FileId, Lock, Map, ReadAt,
};
use crate::search::model::query::{
    all, and, asc, between, desc, eq, exists, gt, gte, is_in, lt, lte, not, or, prefix,
};
use crate::search::testing::{FORCED, Forced};
use crate::search::{
    Collection, Document, Facet, Field, Filter, GroupBy, Hit, PartitionBuilder, Payload, Query,
    Reader, Roles, Schema, Type, Value,
};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a collection.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A disk that serves files from memory and refuses every write.
#[derive(Debug)]
struct ReadOnlyDisk(Files);

fn read_only(path: &Path) -> Error {
    Error::io("write to", path, io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for ReadOnlyDisk {
    fn hold(self: Arc<Self>, _: &Path) -> Result<DiskRef> {
        Ok(self)
    }

    fn check_held(&self) -> Result<()> {
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        Err(read_only(dir))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let paths = self.0.keys().filter(|path| path.parent() == Some(dir));
        Ok(paths.map(|path| path.file_name().unwrap().to_str().unwrap().to_string()).collect())
    }

    fn look(&self, path: &Path) -> Result<Entry> {
        self.map(path).map(|map| Entry::File(map.len() as u64))
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_path_buf())
    }

    fn modified(&self, _: &Path) -> Result<std::time::SystemTime> {
        Ok(std::time::SystemTime::UNIX_EPOCH)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        Err(read_only(path))
    }

    fn create_unnamed(&self, dir: &Path) -> Result<(Box<dyn Append>, Box<dyn ReadAt>)> {
        Err(read_only(dir))
    }

    fn list_dirs(&self, _: &Path) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn list_others(&self, _: &Path) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn identity(&self, path: &Path) -> Result<FileId> {
        Err(Error::io("look at", path, io::ErrorKind::Unsupported.into()))
    }

    fn lineage(&self, dir: &Path) -> Result<Vec<FileId>> {
        Err(Error::io("look at", dir, io::ErrorKind::Unsupported.into()))
    }

    fn reopen(&self, path: &Path) -> Result<Box<dyn Append>> {
        Err(read_only(path))
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        Err(read_only(path))
    }

    fn map(&self, path: &Path) -> Result<Map> {
        let missing = || Error::io("map", path, io::ErrorKind::NotFound.into());
        Ok(Map::from_vec(self.0.get(path).ok_or_else(missing)?.clone()))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn ReadAt>> {
        Err(Error::invalid("a collection maps its files").in_file(path))
    }

    fn create_append_map(
        &self,
        path: &Path,
        _: usize,
        _: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        Err(read_only(path))
    }

    fn open_append_map(
        &self,
        path: &Path,
        _: usize,
        _: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        Err(read_only(path))
    }

    fn append_mode(&self, path: &Path) -> Result<AppendMode> {
        Err(read_only(path))
    }

    fn create_filler(&self, path: &Path, _: u64) -> Result<()> {
        Err(read_only(path))
    }

    fn link(&self, _: &Path, to: &Path) -> Result<()> {
        Err(read_only(to))
    }

    fn rename(&self, from: &Path, _: &Path) -> Result<()> {
        Err(read_only(from))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        Err(read_only(path))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        Err(read_only(dir))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        Err(read_only(path))
    }
}

/// Opens the collection in these files.
pub(crate) fn reader(files: &Files) -> Result<Reader> {
    let disk: DiskRef = Arc::new(ReadOnlyDisk(files.clone()));
    Ok(Collection::open_on(disk, Path::new(DIR))?.reader())
}

fn schema(payload: Payload) -> Schema {
    let field = |name: &str, ty, roles| Field::new(name, ty, roles);
    let fields = [
        field("day", Type::Timestamp, Roles::FULL),
        field("n", Type::I64, Roles::FULL).nullable(),
        field("ratio", Type::F64, Roles::FILTERABLE.with(Roles::SORTABLE)),
        field("word", Type::String, Roles::FILTERABLE.with(Roles::STORED)).multi(),
        field("key", Type::Bytes, Roles::FILTERABLE),
        field("on", Type::Bool, Roles::FILTERABLE).nullable(),
        field("kept", Type::U64, Roles::STORED),
        field("price", Type::I64, Roles::FULL).scanned(),
        field("sign", Type::U64, Roles::FILTERABLE).multi(),
    ];
    Schema::new(fields).unwrap().payload(payload)
}

/// The schema with a point that holds values.
fn with_point(mut schema: Schema) -> Schema {
    for name in ["lat", "lon"] {
        schema.add(Field::new(name, Type::I64, Roles::FILTERABLE).nullable()).unwrap();
    }
    schema.point("lat", "lon").unwrap()
}

/// A schema with fewer fields.
fn small_schema() -> Schema {
    let mut schema = schema(Payload::Raw);
    schema.fields.retain(|field| ["n", "word", "day"].contains(&field.name.as_str()));
    schema
}

fn values(n: u64) -> Vec<(&'static str, Value)> {
    // Large partitions have too many keys in some fields for their columns to be scanned.
    let large = n / 10_000;
    let mut values = vec![
        ("day", Value::Timestamp((n / 20) as i64 * 86_400_000_000)),
        ("ratio", Value::F64((n * 7 % 31) as f64 / 4.0)),
        ("key", Value::Bytes(vec![(n % 60) as u8, 0xFF - large as u8])),
        ("kept", Value::U64(n ^ 1)),
        ("price", Value::I64((n * 7_919 % 1_201) as i64 - 300)),
    ];
    if !n.is_multiple_of(3) {
        values.push(("n", Value::I64((n * 37 % 101 + 101 * large) as i64 - 50)));
    }
    if !n.is_multiple_of(5) {
        values.push(("on", Value::Bool(n < 40 || n.is_multiple_of(2))));
    }
    // These get bitsets and divided lists in large partitions.
    values.extend(
        [9, 11, 70, 90]
            .into_iter()
            .filter(|every| n % every == 2)
            .map(|every| ("sign", Value::U64(every))),
    );
    values.push(("lat", Value::I64((n * 7_919 % 20_011) as i64 - 900)));
    if !n.is_multiple_of(11) {
        values.push(("lon", Value::I64((n * 104_729 % 15_013) as i64 * 3)));
    }
    values.extend((0..n % 4).map(|word| ("word", format!("w{}", (n * word) % 23).into())));
    values
}

/// A partition whose postings have every form that occurs in small partitions.
fn partition(schema: Schema, documents: u64) -> PartitionBuilder {
    partition_from(0, schema, documents)
}

fn partition_from(first: u64, schema: Schema, documents: u64) -> PartitionBuilder {
    let mut builder = PartitionBuilder::new(schema.clone());
    for n in first..first + documents {
        let mut document = Document::new();
        for (name, value) in values(n) {
            if schema.field(name).is_some() {
                document.push(name, value);
            }
        }
        builder.add(&document.payload(format!("payload {} of {documents}", n % 10))).unwrap();
    }
    builder
}

/// The files of a collection of seven partitions.
pub(crate) fn files() -> Files {
    let Store { disk, collection } = store();
    let zstd = Payload::Zstd { level: 3, dictionary: true };
    let mut change = collection.change().unwrap();
    change.put("a", partition(schema(Payload::Raw), 150)).unwrap();
    change.put("b", partition(schema(zstd), 90)).unwrap();
    let ordered = schema(Payload::Raw).order_by([desc("n"), asc("day")]).unwrap();
    change.put("c", partition(ordered, 70)).unwrap();
    // A set of at least four partitions has statistics of values.
    change.put("d", partition(small_schema(), 8)).unwrap();
    change.put("e", partition_from(8, small_schema(), 8)).unwrap();
    change.put("f", partition(small_schema(), 0)).unwrap();
    let mut located = small_schema();
    located.fields.retain(|field| field.name == "day");
    let forced = FORCED.get();
    FORCED.set(Forced { forms: true, ..forced });
    change.put("g", partition(with_point(located), 290)).unwrap();
    FORCED.set(forced);
    change.commit().unwrap();
    disk.files().into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect()
}

/// The files of a collection of one partition. With at least 4,097 documents queries choose among
/// plans; with more than 65,536 the partition has several chunks and several checksums of payloads.
pub(crate) fn large_files(documents: u64) -> Files {
    let Store { disk, collection } = store();
    let mut change = collection.change().unwrap();
    change.put("large", partition(with_point(schema(Payload::Raw)), documents)).unwrap();
    change.commit().unwrap();
    disk.files().into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect()
}

/// A named query. It returns its answer as text.
type Question = (&'static str, fn(&Reader) -> Result<String>);

fn count(reader: &Reader, filter: Filter) -> Result<String> {
    reader.count(&filter).map(|n| n.to_string())
}

fn hits(reader: &Reader, query: Query) -> Result<String> {
    reader.search(&query).map(|page| format!("{page:?}"))
}

fn facet(reader: &Reader, filter: Filter, field: &str, disjunctive: bool) -> Result<String> {
    let facet = Facet { field: field.into(), top: 5, disjunctive };
    reader.facets(&filter, &[facet]).map(|counts| format!("{counts:?}"))
}

fn groups(reader: &Reader, fields: [&str; 2], aggregate: &str) -> Result<String> {
    let fields = fields.map(String::from).to_vec();
    let by = GroupBy { fields, aggregates: vec![aggregate.into()] };
    reader.group_by(&all(), &by).map(|groups| format!("{groups:?}"))
}

/// The results of `read` for some documents of every partition.
fn documents<T: std::fmt::Debug>(
    reader: &Reader,
    read: impl Fn(Hit) -> Result<T>,
) -> Result<String> {
    let mut text = String::new();
    for (partition, part) in (0..).zip(reader.partitions()) {
        for doc in (0..part.documents).step_by(13 + part.documents as usize / 500) {
            text += &format!("{:?} ", read(Hit { partition, doc })?);
        }
    }
    Ok(text)
}

/// Queries that together read every structure.
pub(crate) const QUESTIONS: [Question; 39] = [
    ("partitions", |r| Ok(format!("{:?}", r.partitions()))),
    ("all", |r| count(r, all())),
    ("a word", |r| count(r, eq("word", "w7"))),
    ("a rare word", |r| hits(r, Query::new(eq("word", "w21")))),
    ("no such word", |r| count(r, eq("word", "w7x"))),
    ("words", |r| count(r, is_in("word", ["w1", "w2", "w22"]))),
    ("prefix", |r| count(r, prefix("word", "w2"))),
    ("on", |r| count(r, eq("on", true))),
    ("not on", |r| count(r, not(eq("on", true)))),
    ("a key", |r| hits(r, Query::new(eq("key", vec![5u8, 0xFF])))),
    ("keys", |r| count(r, lte("key", vec![30u8]))),
    ("exists", |r| count(r, exists("n"))),
    ("below", |r| count(r, lt("n", -20i64))),
    ("a range", |r| hits(r, Query::new(between("n", -3i64, 11i64)))),
    ("a day", |r| hits(r, Query::new(eq("day", "1970-01-03")).limit(9))),
    ("and", |r| count(r, and([gt("ratio", 3.0), eq("on", true), not(eq("word", "w0"))]))),
    ("or", |r| count(r, or([gt("ratio", 7.0), eq("day", "1970-01-02"), eq("word", "w4")]))),
    ("a sign", |r| hits(r, Query::new(eq("sign", 9u64)).skip(5).limit(30))),
    ("signs", |r| count(r, and([eq("sign", 9u64), not(eq("sign", 11u64))]))),
    ("signs of days", |r| {
        count(r, and([is_in("sign", [11u64, 70]), gte("day", "1970-01-05"), eq("on", true)]))
    }),
    ("a sign of days", |r| {
        hits(r, Query::new(and([eq("sign", 70u64), gte("day", "1970-01-04")])).limit(9))
    }),
    ("order", |r| hits(r, Query::new(all()).order_by(desc("n")).order_by(asc("ratio")).limit(30))),
    ("order of a few", |r| {
        hits(r, Query::new(eq("on", false)).order_by(asc("ratio")).skip(3).limit(9).with_count())
    }),
    ("a price", |r| count(r, and([eq("price", 501i64), lt("ratio", 4.0)]))),
    ("prices", |r| count(r, and([not(between("price", -200i64, 700i64)), eq("on", true)]))),
    ("order of prices", |r| {
        hits(r, Query::new(gt("ratio", 2.0)).order_by(desc("price")).skip(300).limit(9))
    }),
    ("facet", |r| facet(r, gt("n", 0i64), "word", false)),
    ("facet of keys", |r| facet(r, all(), "key", false)),
    ("disjunctive facet", |r| facet(r, and([eq("on", true), gt("n", 0i64)]), "on", true)),
    ("aggregate", |r| r.aggregate(&eq("on", true), "ratio").map(|a| format!("{a:?}"))),
    ("groups", |r| groups(r, ["on", "day"], "n")),
    ("places", |r| count(r, and([between("lat", 900i64, 9_000i64), lt("lon", 20_000i64)]))),
    ("pages of places", |r| {
        let window = and([gte("lat", 3_000i64), between("lon", 5_000i64, 30_000i64)]);
        hits(r, Query::new(window).skip(3).limit(20))
    }),
    ("latitudes", |r| count(r, and([not(between("lat", 100i64, 7_000i64)), exists("lon")]))),
    ("a latitude", |r| count(r, or([eq("lat", 7_019i64), is_in("lat", [-900i64, 5_938])]))),
    ("facet of places", |r| facet(r, gt("lon", 4_000i64), "lat", false)),
    ("payloads", |r| documents(r, |hit| r.payload(hit).map(|p| p.into_owned()))),
    ("values", |r| documents(r, |hit| Ok((r.values(hit, "word")?, r.value(hit, "kept")?)))),
    ("more values", |r| documents(r, |hit| Ok((r.value(hit, "n")?, r.value(hit, "ratio")?)))),
];

/// The answers to all [`QUESTIONS`], or the error of opening the collection.
pub(crate) fn answers(files: &Files) -> Vec<Result<String>> {
    match reader(files) {
        Ok(reader) => QUESTIONS.iter().map(|(_, query)| query(&reader)).collect(),
        Err(e) => vec![Err(e)],
    }
}
