//! The page of figures, and what is counted.

use crate::raw::{address, assert_alive, server, wait_until};
use crate::support::{Dir, TestServer};
use firndb::catalog::{Catalog, PublishOptions};
use firndb::search::{Collection, Document, Field, PartitionBuilder, Roles, Schema, Type};
use firndb::table::{ApproximateBuilder, TableBuilder};
use firndb_server::config::{CatalogOptions, CollectionOptions, Config, LogOptions, TableOptions};
use firndb_testing::{is_on_path, skipped, this_test};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A name of a metric or a label.
fn is_name(text: &str, colon: bool) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || colon && c == ':';
    text.starts_with(letter) && text.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// Splits the labels of a sample: `a="b",c="d"`.
fn labels(text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").expect("a label has a value");
        assert!(is_name(name, false), "{name}");
        let mut end = None;
        let mut escaped = false;
        for (at, c) in value.char_indices() {
            match c {
                _ if escaped => {
                    assert!("\\n\"".contains(c), "{text}");
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
        }
        let end = end.expect("a value ends with a quotation mark");
        all.push((name.to_string(), value[..end].to_string()));
        rest = &value[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    let names: BTreeSet<&String> = all.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), all.len(), "a label is repeated: {text}");
    all
}

type Samples = BTreeMap<(String, Vec<(String, String)>), f64>;

/// Checks a page in the text format 0.0.4 and returns its samples.
fn parse(page: &str) -> Samples {
    let mut samples = Samples::new();
    let mut seen = BTreeSet::new();
    let (mut family, mut kind, mut help) = (String::new(), String::new(), String::new());
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').expect("a help has a text");
            assert!(is_name(name, true) && !text.is_empty(), "{line}");
            assert!(seen.insert(name.to_string()), "the family is split: {line}");
            help = name.to_string();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, of) = rest.split_once(' ').expect("a type has a name");
            assert!(["counter", "gauge", "histogram"].contains(&of), "{line}");
            assert_eq!(name, help, "a type follows its help: {line}");
            assert_eq!(name.ends_with("_total"), of == "counter", "{line}");
            (family, kind) = (name.to_string(), of.to_string());
        } else {
            assert!(!line.starts_with('#') && !line.is_empty(), "{line:?}");
            let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
            let (name, labels) = match series.split_once('{') {
                Some((name, rest)) => (name, labels(rest.strip_suffix('}').expect("closed"))),
                None => (series, Vec::new()),
            };
            let base = match kind.as_str() {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| name.strip_suffix(end))
                    .expect("a part of a histogram"),
                _ => name,
            };
            assert_eq!(base, family, "a sample follows its type: {line}");
            let value: f64 = value.replace("+Inf", "inf").parse().expect("a number");
            assert!(kind == "gauge" || value >= 0.0, "{line}");
            let before = samples.insert((name.to_string(), labels), value);
            assert!(before.is_none(), "a series is repeated: {line}");
        }
    }
    check_histograms(&samples);
    samples
}

/// Buckets ascend, and the last one has everything.
fn check_histograms(samples: &Samples) {
    let mut buckets: BTreeMap<(String, Vec<_>), Vec<(f64, f64)>> = BTreeMap::new();
    for ((name, labels), value) in samples {
        let Some(base) = name.strip_suffix("_bucket") else { continue };
        let (bound, others): (Vec<_>, Vec<_>) = labels.iter().partition(|(name, _)| name == "le");
        let bound: f64 = bound[0].1.replace("+Inf", "inf").parse().unwrap();
        let others = others.into_iter().cloned().collect();
        buckets.entry((base.to_string(), others)).or_default().push((bound, *value));
    }
    for ((base, labels), mut all) in buckets {
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(all.is_sorted_by(|a, b| a.1 <= b.1), "{base} {labels:?}");
        let last = all.last().unwrap();
        assert_eq!(last.0, f64::INFINITY);
        assert_eq!(samples[&(format!("{base}_count"), labels)], last.1);
    }
}

fn value(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    samples.get(&(name.to_string(), labels.collect())).copied()
}

fn page(server: &TestServer) -> String {
    let response = server.client.get(server.url("/metrics")).send().unwrap();
    let kind = response.headers()["content-type"].to_str().unwrap().to_string();
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    response.text().unwrap()
}

/// A server with stores of each kind.
fn with_all_kinds() -> TestServer {
    let dir = Dir::new();
    let at = |name: &str| dir.path().join(name);
    let mut config = Config { cache: Some(at("cache")), ..Config::default() };
    let log = LogOptions { path: at("users"), create: true, ..LogOptions::default() };
    config.logs.insert("users".into(), log);

    let mut table = TableBuilder::create(at("t.table")).unwrap();
    table.add("k", "value").unwrap();
    table.finish().unwrap();
    let mut approximate = ApproximateBuilder::create(at("a.table")).unwrap();
    approximate.add("k", 7u64.to_le_bytes()).unwrap();
    approximate.finish().unwrap();
    for (name, file) in [("table", "t.table"), ("approximate", "a.table")] {
        let options = TableOptions { path: at(file), ..TableOptions::default() };
        config.tables.insert(name.into(), options);
    }

    let schema = Schema::new([Field::new("city", Type::String, Roles::FULL)]).unwrap();
    let mut partition = PartitionBuilder::new(schema);
    partition.add(&Document::new().set("city", "Oslo")).unwrap();
    let collection = Collection::create(at("collection")).unwrap();
    let mut change = collection.change().unwrap();
    change.put("first", partition).unwrap();
    change.commit().unwrap();
    let options = CollectionOptions { path: at("collection"), refresh_seconds: 0.05 };
    config.collections.insert("collection".into(), options);

    let catalog = Catalog::create(at("catalog")).unwrap();
    for (name, source) in [("tables", "t.table"), ("rooms", "collection")] {
        catalog.publish(name, at(source), &PublishOptions::default()).unwrap();
        let place = at("catalog").display().to_string();
        let name = name.to_string();
        let options = CatalogOptions { place, name, refresh_seconds: 0.05, ..Default::default() };
        config.catalogs.insert(options.name.clone(), options);
    }
    TestServer::start(dir, config)
}

#[test]
fn the_page_is_valid_and_has_all_stores() {
    let server = with_all_kinds();
    let url = server.url("/v1/logs/users/keys/k");
    assert_eq!(server.client.put(&url).body("v").send().unwrap().status(), 204);
    assert_eq!(server.client.get(server.url("/none")).send().unwrap().status(), 404);
    let text = page(&server);
    let samples = parse(&text);
    let get = |name, labels: &[(&str, &str)]| {
        value(&samples, name, labels).unwrap_or_else(|| panic!("no {name} {labels:?}: {text}"))
    };
    let log = [("store", "users"), ("kind", "log")];
    let table = [("store", "table"), ("kind", "table")];
    let collection = [("store", "collection"), ("kind", "collection")];
    assert_eq!(get("firndb_log_puts_total", &log), 1.0);
    assert_eq!(get("firndb_log_keys", &log), 1.0);
    assert_eq!(get("firndb_log_compaction_seconds_total", &log), 0.0);
    assert_eq!(get("firndb_table_records", &table), 1.0);
    assert_eq!(get("firndb_collection_documents", &collection), 1.0);
    let rooms = [("store", "rooms"), ("kind", "collection")];
    let tables = [("store", "tables"), ("kind", "table")];
    assert_eq!(get("firndb_collection_documents", &rooms), 1.0);
    assert_eq!(get("firndb_table_records", &tables), 1.0);
    for catalog in [rooms, tables] {
        assert_eq!(get("firndb_catalog_version", &catalog), 1.0);
        assert_eq!(get("firndb_catalog_failures_total", &catalog), 0.0);
        assert!(get("firndb_catalog_version_age_seconds", &catalog) < 60.0);
        assert!(get("firndb_store_look_age_seconds", &catalog) < 5.0);
    }
    let approximate = [("store", "approximate"), ("kind", "table")];
    assert_eq!(get("firndb_table_records", &approximate), 1.0);
    assert!(get("firndb_store_look_age_seconds", &collection) < 5.0);
    for store in [log, table, collection, rooms, tables, approximate] {
        assert_eq!(get("firndb_store_up", &store), 1.0);
    }
    assert_eq!(get("firndb_http_requests_total", &[("route", "key"), ("status", "204")]), 1.0);
    assert_eq!(get("firndb_http_requests_total", &[("route", "none"), ("status", "404")]), 1.0);
    assert_eq!(get("firndb_http_request_duration_seconds_count", &[("route", "key")]), 1.0);
    assert_eq!(get("firndb_phase", &[("phase", "ready")]), 1.0);
    assert_eq!(get("firndb_phase", &[("phase", "draining")]), 0.0);
    assert_eq!(get("firndb_stores", &[]), 6.0);
    assert_eq!(get("firndb_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
    assert!(get("firndb_uptime_seconds", &[]) > 0.0);
    assert!(get("firndb_connections_open", &[]) >= 1.0);
    promtool(&text);
}

/// The judgement of Prometheus itself.
fn promtool(page: &str) {
    if !is_on_path("promtool") {
        return skipped(&this_test(), "promtool, of the package prometheus, is not installed");
    }
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

#[test]
fn the_age_of_the_last_look_grows_while_a_version_cannot_be_opened() {
    let server = with_all_kinds();
    let age = || {
        let labels = [("store", "tables"), ("kind", "table")];
        let samples = parse(&page(&server));
        let get = |name| value(&samples, name, &labels).unwrap();
        (get("firndb_store_look_age_seconds"), get("firndb_catalog_failures_total"))
    };
    wait_until("the catalog was looked at", || age().0 < 0.5);
    // A newer version that nobody can read.
    let name = format!("catalog/tables/versions/{:020}.json", 2);
    let broken = server.dir.path().join(name);
    std::fs::write(&broken, "{").unwrap();
    wait_until("looks fail", || age().1 >= 2.0);
    wait_until("the age grows", || age().0 > 0.5);
    std::fs::remove_file(&broken).unwrap();
    wait_until("a look succeeds", || age().0 < 0.5);
}

#[test]
fn a_collector_may_ask_for_openmetrics() {
    let server = server(|_| ());
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let request = server.client.get(server.url("/metrics")).header("accept", accept);
    let response = request.send().unwrap();
    let kind = response.headers()["content-type"].to_str().unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    let text = response.text().unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(text.contains("# TYPE firndb_log_puts counter\n"), "{text}");
    assert!(text.contains("\nfirndb_log_puts_total{"), "{text}");
}

#[test]
fn clients_cannot_make_the_page_longer() {
    let server = server(|_| ());
    let request = |n: usize| {
        for path in [format!("/none{n}"), format!("/v1/logs/none{n}/keys/k{n}")] {
            let response = server.client.get(server.url(&path)).send().unwrap();
            assert_eq!(response.status(), 404);
        }
    };
    request(0);
    page(&server);
    let before = page(&server).lines().count();
    (1..50).for_each(request);
    assert_eq!(page(&server).lines().count(), before);
}

#[test]
fn a_bug_ends_one_request_and_is_counted() {
    let server = server(|_| ());
    let app = server.server.as_ref().unwrap().app();
    assert!(app.before_work.set(Arc::new(|| panic!("an injected bug"))).is_ok());
    let url = server.url("/v1/logs/log/keys/k");
    let put = server.client.put(url).body("v").header("x-request-id", "the-id");
    let response = put.send().unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(response.headers()["x-request-id"], "the-id");
    assert!(!response.headers().contains_key("retry-after"));
    let problem: serde_json::Value = response.json().unwrap();
    assert_eq!([&problem["kind"], &problem["request_id"]], ["internal", "the-id"]);
    assert!(!problem.to_string().contains("injected"), "{problem}");
    assert_eq!(app.metrics.panics.get(), 1);
    wait_until("its place is free", || app.queries() == (0, 0));
    assert_alive(&server, "a bug");
    assert!(address(&server).port() > 0);
}

#[test]
fn slow_requests_are_counted() {
    let server = server(|config| config.log.slow_query_seconds = 0.0);
    assert_alive(&server, "nothing");
    assert_eq!(server.server.as_ref().unwrap().app().metrics.slow_requests.get(), 1);
}
