//! The figures of a store.

use super::state::Figure;
use crate::stores::{Entry, Source, TableRef};
use firndb::log::LogStore;
use firndb::table::ApproximateTable;
use firndb::{Metric, Result};
use std::time::{SystemTime, UNIX_EPOCH};

/// The figures of a store.
pub(super) fn figures(entry: &Entry) -> Result<Vec<Figure>> {
    let mut figures = match &entry.source {
        Source::Log(store) => of_log(store),
        Source::Table(table) => of_table(TableRef::Exact(table)),
        Source::Approximate(table) => of_table(TableRef::Approximate(table)),
        Source::Sharded(table) => of_table(TableRef::Sharded(table)),
        Source::Collection { collection, .. } => {
            let version = collection.version() as f64;
            let mut figures = from(collection.reader().metrics());
            let help = "Version of the collection";
            figures.push(Figure::gauge("firndb_collection_version", help, version));
            figures
        }
        Source::Catalog { reader, .. } => {
            let mut figures = from(reader.stats().metrics());
            let generation = reader.current();
            figures.push(Figure::gauge(
                "firndb_catalog_version_age_seconds",
                "Seconds since the open version was published, by the clock of its publisher",
                age(generation.version().time),
            ));
            match entry.collection() {
                Ok(reader) => figures.extend(from(reader.metrics())),
                Err(_) => figures.extend(of_table(entry.table()?.get_ref()?)),
            }
            figures
        }
    };
    if let Some(looked) = entry.last_look() {
        figures.push(Figure::gauge(
            "firndb_store_look_age_seconds",
            "Seconds since the server last looked for a newer version without an error",
            looked.as_secs_f64(),
        ));
    }
    Ok(figures)
}

fn from(metrics: Vec<Metric>) -> Vec<Figure> {
    metrics.into_iter().map(Figure::from).collect()
}

/// Seconds since a time in microseconds since 1970; 0 if it is in the future.
fn age(time: i64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_secs_f64() - time as f64 / 1e6).max(0.0)
}

fn of_log(store: &LogStore) -> Vec<Figure> {
    let stats = store.stats();
    let mut figures = from(stats.metrics());
    figures.extend([
        Figure::counter(
            "firndb_log_compaction_seconds_total",
            "Time that compaction took",
            stats.compaction_seconds,
        ),
        Figure::counter(
            "firndb_log_scanned_records_total",
            "Records that compaction went through",
            stats.scanned_records as f64,
        ),
        Figure::counter(
            "firndb_log_segments_removed_total",
            "Segments removed by compaction",
            stats.segments_removed as f64,
        ),
        Figure::gauge(
            "firndb_log_write_amplification_ratio",
            "Bytes appended per byte of records written",
            stats.write_amplification(),
        ),
    ]);
    figures
}

fn of_table(table: TableRef<'_>) -> Vec<Figure> {
    match table {
        TableRef::Exact(table) => from(table.stats().metrics()),
        TableRef::Approximate(table) => of_approximate(table),
        TableRef::Sharded(table) => {
            let mut sum: Vec<Figure> = Vec::new();
            for shard in table.shards() {
                for figure in from(shard.stats().metrics()) {
                    match sum.iter_mut().find(|known| known.name == figure.name) {
                        Some(known) => known.value += figure.value,
                        None => sum.push(figure),
                    }
                }
            }
            sum
        }
    }
}

fn of_approximate(table: &ApproximateTable) -> Vec<Figure> {
    let stats = table.stats();
    let gauge = |name, help, value: u64| Figure::gauge(name, help, value as f64);
    vec![
        gauge("firndb_table_records", "Records of the table", stats.records),
        gauge("firndb_table_file_bytes", "Bytes of the file", stats.file_bytes),
        gauge("firndb_table_memory_bytes", "Memory of the table", stats.memory_bytes),
    ]
}
