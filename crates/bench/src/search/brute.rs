//! Answers by brute force, checking every document. The answers of all engines are compared with
//! these.

use super::columns::{Cars, Pairs};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::search::{Answer, Hit, Query, Workload};
use std::path::Path;

/// A data set to scan.
pub enum Brute {
    /// Car offers.
    Cars(Box<Cars>),
    /// The small table.
    Table1(Pairs),
}

impl Brute {
    /// Reads the rows of a file.
    pub fn read(workload: Workload, path: &Path) -> Result<Brute> {
        Ok(match workload {
            Workload::Cars => Brute::Cars(Box::new(Cars::read(path)?)),
            Workload::Table1 => Brute::Table1(Pairs::read(path)?),
        })
    }

    /// The answer to a query of the data set's workload.
    pub fn answer(&self, query: &Query) -> Result<Answer> {
        match (self, query) {
            (Brute::Cars(cars), _) => answer_cars(cars, query),
            (Brute::Table1(pairs), Query::A { f }) => {
                let f = pairs.words.find(f);
                Ok(counted(pairs.f.iter().filter(|&&value| value == f).count()))
            }
            (Brute::Table1(pairs), Query::B { f, g }) => {
                let wanted = (pairs.words.find(f), pairs.words.find(g));
                let both = pairs.f.iter().zip(&pairs.g);
                Ok(counted(both.filter(|&(&f, &g)| (f, g) == wanted).count()))
            }
            _ => Err(wrong(query)),
        }
    }
}

fn answer_cars(cars: &Cars, query: &Query) -> Result<Answer> {
    let docs = 0..cars.len();
    let count = |holds: &dyn Fn(&usize) -> bool| Ok(counted(docs.clone().filter(holds).count()));
    let limit = query.kind().limit() as usize;
    match query {
        Query::Q1 { region } => count(&|&doc| u32::from(cars.region[doc]) == *region),
        Query::Q2 { region, mark, price: (low, high) } => {
            let mark = cars.marks.find(mark);
            let found = docs.filter(|&doc| {
                u32::from(cars.region[doc]) == *region
                    && cars.mark[doc] == mark
                    && (*low..=*high).contains(&cars.price[doc])
            });
            Ok(page(found, limit, |doc| ([cars.date[doc], 0], cars.payload_sum(doc)), by_newest))
        }
        Query::Q3 { marks, year, color } => {
            let marks: Vec<u16> = marks.iter().map(|mark| cars.marks.find(mark)).collect();
            let color = cars.colors.find(color);
            let found = docs.filter(|&doc| {
                marks.contains(&cars.mark[doc])
                    && u32::from(cars.year[doc]) >= *year
                    && cars.color[doc] != color
            });
            let keys = |doc: usize| ([i64::from(cars.price[doc]), cars.date[doc]], 0);
            Ok(page(found, limit, keys, |hit| (hit.keys[0], -hit.keys[1], hit.id)))
        }
        Query::Q4 { lat, lon } => count(&|&doc| {
            (lat.0..=lat.1).contains(&cars.lat[doc]) && (lon.0..=lon.1).contains(&cars.lon[doc])
        }),
        Query::Q5 => Ok(page(docs, limit, |doc| ([cars.date[doc], 0], 0), by_newest)),
        Query::Q6 { tags, price } => {
            let tags: Vec<u16> = tags.iter().map(|tag| cars.tags.find(tag)).collect();
            count(&|&doc| {
                cars.price[doc] <= *price && cars.tags_of(doc).iter().any(|tag| tags.contains(tag))
            })
        }
        _ => Err(wrong(query)),
    }
}

fn by_newest(hit: &Hit) -> (i64, i64, u64) {
    (-hit.keys[0], 0, hit.id)
}

fn counted(matches: usize) -> Answer {
    Answer { count: matches as u64, hits: Vec::new() }
}

/// Sorts all matches and keeps the first `limit`.
fn page(
    found: impl Iterator<Item = usize>,
    limit: usize,
    keys: impl Fn(usize) -> ([i64; 2], u64),
    order: impl Fn(&Hit) -> (i64, i64, u64),
) -> Answer {
    let mut hits: Vec<Hit> =
        found.map(|doc| Hit { id: doc as u64, keys: keys(doc).0, payload: 0 }).collect();
    hits.sort_unstable_by_key(order);
    hits.truncate(limit);
    hits.iter_mut().for_each(|hit| hit.payload = keys(hit.id as usize).1);
    Answer { count: hits.len() as u64, hits }
}

fn wrong(query: &Query) -> firndb_bench_protocol::Error {
    format!("query `{query}` belongs to another workload").into()
}
