//! FirnDB as an engine: its schema, the partitioning of a data set, and the queries in its API.
//!
//! All tuning is here: `cars_schema`, `ADDED_MEMORY` and the names in [`Ours::parse`].

use super::columns::byte_sum;
use firndb::search::query::{all, and, asc, between, desc, eq, gte, is_in, lte, not};
use firndb::search::{
    self, Collection, Document, Field, Filter, PartitionBuilder, Payload, Reader, Roles, Schema,
    Type, Value,
};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::search::{
    Answer, Car, Engine, Hit, Query, Session, Workload, each_car, each_pair,
};
use std::path::Path;
use std::time::{Duration, Instant};

/// FirnDB with a data set partitioned by a hash of the id.
#[derive(Clone, Copy, Debug)]
pub struct Ours {
    partitions: u64,
    payload: Payload,
}

/// Memory limit for building one partition.
const ADDED_MEMORY: usize = 4 << 30;

impl Ours {
    /// The engine of a name: `firndb-N` has N partitions, `firndb-N-zstd` also compresses its
    /// payloads.
    pub fn parse(name: &str) -> Option<Ours> {
        let rest = name.strip_prefix("firndb-")?;
        let (count, payload) = match rest.strip_suffix("-zstd") {
            Some(count) => (count, Payload::Zstd { level: 3, dictionary: true }),
            None => (rest, Payload::Raw),
        };
        let partitions = count.parse().ok().filter(|&n| n > 0)?;
        Some(Ours { partitions, payload })
    }

    fn schema(&self, workload: Workload) -> Result<Schema> {
        let schema = match workload {
            Workload::Cars => cars_schema()?,
            Workload::Table1 => table1_schema()?,
        };
        Ok(schema.payload(self.payload))
    }

    /// Calls `each` with the documents of a file and the number of their partition.
    fn each_document(
        &self,
        workload: Workload,
        data: &Path,
        mut each: impl FnMut(usize, &mut dyn FnMut() -> Document) -> Result<()>,
    ) -> Result<()> {
        let place = |id: u64| (hash(id) % self.partitions) as usize;
        match workload {
            Workload::Cars => each_car(data, |car| each(place(car.id), &mut || document(&car))),
            Workload::Table1 => each_pair(data, |pair| {
                let document =
                    || Document::new().set("id", pair.id).set("f", pair.f).set("g", pair.g);
                each(place(pair.id), &mut || document())
            }),
        }
    }

    fn builder(&self, workload: Workload) -> Result<PartitionBuilder> {
        Ok(PartitionBuilder::new(self.schema(workload)?).memory_limit(ADDED_MEMORY))
    }
}

/// The schema of the car offers.
pub fn cars_schema() -> Result<Schema> {
    let filterable = |name, ty| Field::new(name, ty, Roles::FILTERABLE);
    let schema = Schema::new([
        Field::new("id", Type::U64, Roles::STORED),
        filterable("region_id", Type::I64),
        filterable("mark", Type::String),
        filterable("model", Type::String).scanned(),
        filterable("year", Type::I64),
        Field::new("price", Type::I64, Roles::FULL).scanned(),
        filterable("mileage", Type::I64).scanned(),
        Field::new("date", Type::I64, Roles::FULL),
        filterable("lat", Type::I64),
        filterable("lon", Type::I64),
        filterable("body_type", Type::String),
        filterable("color", Type::String),
        filterable("tags", Type::String).multi(),
    ])?;
    Ok(schema.point("lat", "lon")?.order_by([desc("date")])?)
}

fn table1_schema() -> Result<Schema> {
    Ok(Schema::new([
        Field::new("id", Type::U64, Roles::STORED),
        Field::new("f", Type::String, Roles::FILTERABLE),
        Field::new("g", Type::String, Roles::FILTERABLE),
    ])?)
}

/// An offer as a document.
pub fn document(car: &Car<'_>) -> Document {
    let mut document = Document::new()
        .set("id", car.id)
        .set("region_id", i64::from(car.region))
        .set("mark", car.mark)
        .set("model", car.model)
        .set("year", i64::from(car.year))
        .set("price", i64::from(car.price))
        .set("mileage", i64::from(car.mileage))
        .set("date", car.date)
        .set("lat", i64::from(car.lat))
        .set("lon", i64::from(car.lon))
        .set("body_type", car.body_type)
        .set("color", car.color)
        .payload(car.payload.as_bytes());
    car.tags().for_each(|tag| document.push("tags", tag));
    document
}

fn hash(id: u64) -> u64 {
    firndb_bench_protocol::rng::Rng::new(id, 0, 0).next()
}

fn partition_name(number: usize) -> String {
    format!("p{number:05}")
}

impl Engine for Ours {
    type Session = Opened;

    fn version(&self) -> String {
        format!("FirnDB {}, {} partition(s)", env!("CARGO_PKG_VERSION"), self.partitions)
    }

    fn build(&self, workload: Workload, data: &Path, dir: &Path) -> Result<()> {
        let builders = (0..self.partitions).map(|_| self.builder(workload));
        let mut builders = builders.collect::<Result<Vec<_>>>()?;
        self.each_document(workload, data, |partition, document| {
            Ok(builders[partition].add(&document())?)
        })?;
        let collection = Collection::create(dir)?;
        let mut change = collection.change()?;
        for (number, builder) in builders.into_iter().enumerate() {
            change.put(&partition_name(number), builder)?;
        }
        change.commit()?;
        Ok(())
    }

    fn open(&self, _: Workload, dir: &Path) -> Result<Opened> {
        Ok(Opened::of(Collection::open(dir)?.reader()))
    }

    fn allocations(&self, work: &mut dyn FnMut()) -> u64 {
        allocation_counter::measure(work).count_total
    }

    /// Replaces the first partition, and refreshes another reader.
    fn extras(&self, workload: Workload, data: &Path, dir: &Path) -> Result<Vec<(String, f64)>> {
        let mut documents = Vec::new();
        self.each_document(workload, data, |partition, document| {
            if partition == 0 && self.partitions > 1 {
                documents.push(document());
            }
            Ok(())
        })?;
        if documents.is_empty() {
            return Ok(Vec::new());
        }
        let (collection, other) = (Collection::open(dir)?, Collection::open(dir)?);
        other.reader().warm()?;
        let (mut times, mut swaps, mut after) = (Vec::new(), Vec::new(), Vec::new());
        let usual = time_pages(&other.reader(), workload)?[0];
        // An odd number of rounds: the last one restores all documents.
        for round in 0..9 {
            let start = Instant::now();
            let mut builder = self.builder(workload)?;
            // Every other round leaves out one document: identical content would change nothing.
            let some = &documents[round % 2..];
            some.iter().try_for_each(|document| builder.add(document))?;
            let added = start.elapsed();
            let mut change = collection.change()?;
            change.put(&partition_name(0), builder)?;
            let put = start.elapsed();
            change.commit()?;
            let whole = start.elapsed();
            times.push([whole, added, put - added, whole - put]);
            let start = Instant::now();
            other.refresh()?;
            swaps.push([start.elapsed()]);
            let [whole, slowest] = time_pages(&other.reader(), workload)?;
            after.push([whole.saturating_sub(usual), slowest]);
        }
        let [whole, added, put, commit] = median(&mut times);
        let ([swap], [more, slowest]) = (median(&mut swaps), median(&mut after));
        let named = [
            (format!("durable replacement of a partition of {} documents", documents.len()), whole),
            ("of which adding the documents".into(), added),
            ("of which writing and syncing the file".into(), put),
            (CHANGE.into(), commit),
            (SWITCH.into(), swap),
            (format!("additional time of {PAGES} pages after the refresh"), more),
            ("slowest of these pages".into(), slowest),
        ];
        Ok(named.map(|(name, took)| (name, took.as_nanos() as f64)).into())
    }
}

/// Duration of the commit that replaced a partition.
pub const CHANGE: &str = "of which the commit";
/// Duration of the refresh of another reader.
pub const SWITCH: &str = "refresh of a warm reader";

/// Number of pages queried after a partition was replaced.
const PAGES: u32 = 500;

/// The total time of [`PAGES`] pages, and the time of the slowest.
fn time_pages(reader: &Reader, workload: Workload) -> Result<[Duration; 2]> {
    let (mut whole, mut slowest) = (Duration::ZERO, Duration::ZERO);
    for i in 0..PAGES {
        let filter = match workload {
            Workload::Cars => and([eq("region_id", i64::from(i % 200)), gte("price", 10_000i64)]),
            Workload::Table1 => eq("f", "0"),
        };
        let query = search::Query::new(filter).limit(10);
        let query = if workload == Workload::Cars { query.order_by(desc("date")) } else { query };
        let start = Instant::now();
        reader.search(&query)?;
        let took = start.elapsed();
        whole += took;
        slowest = slowest.max(took);
    }
    Ok([whole, slowest])
}

/// The entry whose total, its first item, is the median.
fn median<const N: usize>(times: &mut [[Duration; N]]) -> [Duration; N] {
    times.sort_unstable();
    times[times.len() / 2]
}

/// An opened collection.
pub struct Opened {
    reader: Reader,
    /// Hits of the last page.
    hits: Vec<search::Hit>,
}

/// A query in FirnDB's API.
pub enum Prepared {
    /// Count the matches of a filter.
    Count(Filter),
    /// A page, the fields it is ordered by, and whether payloads are read.
    Page(Box<search::Query>, &'static [&'static str], bool),
}

impl Opened {
    /// A session on this reader.
    pub fn of(reader: Reader) -> Opened {
        Opened { reader, hits: Vec::new() }
    }
}

impl Session for Opened {
    type Prepared = Prepared;

    fn prepare(&mut self, query: &Query) -> Result<Prepared> {
        let limit = query.kind().limit();
        let page = |filter, order: &'static [&'static str], payloads| {
            let mut page = search::Query::new(filter).limit(limit);
            for &field in order {
                page = page.order_by(if field == "date" { desc(field) } else { asc(field) });
            }
            Prepared::Page(Box::new(page), order, payloads)
        };
        let region = |region: &u32| eq("region_id", i64::from(*region));
        let texts =
            |words: &[String]| words.iter().map(|w| Value::from(w.as_str())).collect::<Vec<_>>();
        let within = |field, (low, high): (i64, i64)| between(field, low, high);
        Ok(match query {
            Query::Q1 { region: r } => Prepared::Count(region(r)),
            Query::Q2 { region: r, mark, price } => {
                let price = within("price", (price.0.into(), price.1.into()));
                page(and([region(r), eq("mark", mark.as_str()), price]), &["date"], true)
            }
            Query::Q3 { marks, year, color } => {
                let marks = is_in("mark", texts(marks));
                let year = gte("year", i64::from(*year));
                page(
                    and([marks, year, not(eq("color", color.as_str()))]),
                    &["price", "date"],
                    false,
                )
            }
            Query::Q4 { lat, lon } => Prepared::Count(and([
                within("lat", (lat.0.into(), lat.1.into())),
                within("lon", (lon.0.into(), lon.1.into())),
            ])),
            Query::Q5 => page(all(), &["date"], false),
            Query::Q6 { tags, price } => {
                Prepared::Count(and([is_in("tags", texts(tags)), lte("price", i64::from(*price))]))
            }
            Query::A { f } => Prepared::Count(eq("f", f.as_str())),
            Query::B { f, g } => Prepared::Count(and([eq("f", f.as_str()), eq("g", g.as_str())])),
        })
    }

    fn run(&mut self, query: &Prepared, answer: &mut Answer) -> Result<()> {
        let (page, payloads) = match query {
            Prepared::Count(filter) => {
                answer.set_count(self.reader.count(filter)?);
                return Ok(());
            }
            Prepared::Page(page, _, payloads) => (page, *payloads),
        };
        self.hits = self.reader.search(page)?.hits;
        let mut ids = self.reader.field("id")?;
        ids.each_u64(&self.hits, |id| {
            // No car has this id: a hit without an id makes the answer wrong.
            answer.push(Hit { id: id.unwrap_or(u64::MAX), ..Hit::default() });
        })?;
        if payloads {
            let payloads = self.reader.payloads(&self.hits)?;
            for (payload, found) in payloads.iter().zip(&mut answer.hits) {
                found.payload = byte_sum(payload);
            }
        }
        Ok(())
    }

    fn complete(&mut self, query: &Prepared, answer: &mut Answer) -> Result<()> {
        let Prepared::Page(_, order, _) = query else { return Ok(()) };
        for (&found, hit) in self.hits.iter().zip(&mut answer.hits) {
            for (&field, key) in order.iter().zip(&mut hit.keys) {
                match self.reader.value(found, field)? {
                    Some(Value::I64(value)) => *key = value,
                    other => return Err(format!("{field} of {found:?} is {other:?}").into()),
                }
            }
        }
        Ok(())
    }
}
