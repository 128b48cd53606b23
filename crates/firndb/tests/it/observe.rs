//! Metrics of all stores, and with their features spans of `tracing` and serialised statistics.

use super::TestDir;
use firndb::log::LogStore;
use firndb::table::{Table, TableBuilder};
use firndb::{Metric, MetricKind};
use std::collections::BTreeSet;

fn value(metrics: &[Metric], name: &str) -> f64 {
    metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}")).value
}

#[test]
fn metrics_have_the_figures_of_the_statistics() {
    let place = TestDir::new();
    let store = LogStore::open(place.path("log")).unwrap();
    store.put("a", "1").unwrap();
    store.put("b", "2").unwrap();
    store.delete("a").unwrap();
    let log = store.stats().metrics();
    assert_eq!(value(&log, "firndb_log_keys"), 1.0);
    assert_eq!(value(&log, "firndb_log_puts_total"), 2.0);
    assert_eq!(value(&log, "firndb_log_deletes_total"), 1.0);
    let mut builder = TableBuilder::create(place.path("table")).unwrap();
    builder.add("key", "value").unwrap();
    builder.finish().unwrap();
    let table = Table::open(place.path("table")).unwrap().stats().metrics();
    assert_eq!(value(&table, "firndb_table_records"), 1.0);
    let all: Vec<Metric> = log.into_iter().chain(table).collect();
    let names: BTreeSet<&str> = all.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), all.len(), "names are distinct");
    for Metric { name, help, kind, .. } in all {
        assert_eq!(kind == MetricKind::Counter, name.ends_with("_total"), "{name}");
        assert!(name.starts_with("firndb_") && !help.is_empty());
    }
}

#[cfg(feature = "serde")]
#[test]
fn statistics_can_be_serialised() {
    let place = TestDir::new();
    let store = LogStore::open(place.path("log")).unwrap();
    store.put("a", "1").unwrap();
    let stats = serde_json::to_value(store.stats()).unwrap();
    assert_eq!((&stats["keys"], &stats["puts"]), (&1.into(), &1.into()));
    let checked = serde_json::to_value(store.verify().unwrap()).unwrap();
    assert_eq!(checked["records"], 1);
}

#[cfg(feature = "tracing")]
mod spans {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// Collects the names of spans.
    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<Vec<&'static str>>>);

    impl Subscriber for Names {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut names = self.0.lock().unwrap();
            names.push(span.metadata().name());
            Id::from_u64(names.len() as u64)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn operations_are_spans() {
        let (place, names) = (TestDir::new(), Names::default());
        tracing::subscriber::with_default(names.clone(), || {
            let store = LogStore::open(place.path("log")).unwrap();
            store.put("a", "1").unwrap();
            store.backup(place.path("backup")).unwrap();
            store.close().unwrap();
            let mut builder = TableBuilder::create(place.path("table")).unwrap();
            builder.add("key", "value").unwrap();
            builder.finish().unwrap();
            Table::open(place.path("table")).unwrap();
        });
        let names = names.0.lock().unwrap();
        for name in
            ["firndb.log.open", "firndb.log.backup", "firndb.table.build", "firndb.table.open"]
        {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
    }
}
