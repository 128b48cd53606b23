//! The page of hits that Python reads, read in Rust.

use firndb::search::{Collection, parse_query};
use firndb_arrow::document::hits_to_batch;
use firndb_bench_protocol::Result;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// Prints the nanoseconds of a page, and its number of hits, as a line of JSON.
pub fn run(collection: &Path, query: &str, fields: &[String], pages: u32) -> Result<()> {
    let collection = Collection::open(collection)?;
    let reader = collection.reader();
    let mut rows = 0;
    let mut read = |pages: u32| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..pages {
            let page = reader.search(&parse_query(query, Some(reader.schema()))?)?;
            let batch = hits_to_batch(&reader, &page.hits, fields)?;
            rows = black_box(batch).num_rows();
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(pages))
    };
    read(pages.div_ceil(10))?;
    let nanos = read(pages)?;
    println!("{{\"nanos\": {nanos}, \"hits\": {rows}}}");
    Ok(())
}
