//! The page of hits that a package reads, read in Rust.

use firndb::search::{Collection, Page, Reader, parse_query};
use firndb_arrow::document::hits_to_batch;
use firndb_bench_protocol::Result;
use std::borrow::Cow;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// What is read of a page.
pub enum Read {
    /// The hits alone. The query is parsed before.
    Hits,
    /// The payloads of the hits. The query is parsed before.
    Payloads,
    /// These fields, as an Arrow batch. The query is parsed for each page.
    Fields(Vec<String>),
}

/// Prints the nanoseconds of a page, and its number of hits, as a line of JSON.
pub fn run(collection: &Path, query: &str, read: &Read, pages: u32) -> Result<()> {
    let collection = Collection::open(collection)?;
    let reader = collection.reader();
    let parsed = parse_query(query, Some(reader.schema()))?;
    let mut hits = 0;
    let mut run = |pages: u32| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..pages {
            hits = match read {
                Read::Hits => black_box(reader.search(&parsed)?).hits.len(),
                Read::Payloads => black_box(payloads(&reader, &reader.search(&parsed)?)?).len(),
                Read::Fields(fields) => {
                    let page = reader.search(&parse_query(query, Some(reader.schema()))?)?;
                    black_box(hits_to_batch(&reader, &page.hits, fields)?).num_rows()
                }
            };
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(pages))
    };
    run(pages.div_ceil(10))?;
    let nanos = run(pages)?;
    println!("{{\"nanos\": {nanos}, \"hits\": {hits}}}");
    Ok(())
}

/// Copies of the payloads.
fn payloads(reader: &Reader, page: &Page) -> Result<Vec<Vec<u8>>> {
    Ok(reader.payloads(&page.hits)?.into_iter().map(Cow::into_owned).collect())
}
