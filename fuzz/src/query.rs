//! The text of queries: the parser never panics, an accepted query keeps its meaning when it is
//! written out and parsed again, and it can be run.

use crate::place;
use firndb::ErrorKind;
use firndb::search::{Reader, parse_filter, parse_order, parse_query, point_at};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Maximum number of matches read.
const LIMIT: u64 = 50;

static READER: LazyLock<Reader> = LazyLock::new(|| {
    let files = place::golden_files("").into_iter().map(|(name, _)| name);
    let small = files.filter(|name| name.starts_with("rooms.") || name.starts_with("stays."));
    let paths: Vec<_> = small.map(|name| place::golden().join(name)).collect();
    Reader::open_files(&paths).expect("the golden partitions open")
});

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = parse_order(text, None);
    if let Ok(filter) = parse_filter(text, None) {
        let again = filter.to_string();
        assert_eq!(parse_filter(&again, None).ok().as_ref(), Some(&filter), "{again}");
    }
    match parse_query(text, None) {
        Ok(query) => {
            let again = query.to_string();
            assert_eq!(parse_query(&again, None).ok().as_ref(), Some(&query), "{again}");
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            point_at(text, &error);
        }
    }
    let reader = READER.with_deadline(Instant::now() + Duration::from_secs(20));
    let Ok(mut query) = parse_query(text, Some(reader.schema())) else { return };
    query.limit = Some(query.limit.unwrap_or(LIMIT).min(LIMIT));
    query.count = true;
    // A query that parses may still use a field without the required role.
    let Ok(page) = reader.search(&query) else { return };
    if query.after.is_none() {
        let count = reader.count(&query.filter).expect("what can be searched can be counted");
        assert_eq!(page.count, Some(count));
    }
    let _ = reader.explain(&query);
    for &hit in &page.hits {
        reader.payload(hit).expect("a hit has a payload");
    }
}
