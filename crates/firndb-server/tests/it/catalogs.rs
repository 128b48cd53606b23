//! Versions of catalogs: what the server reports, and switching under load.

use crate::collections::problem;
use crate::support::{Dir, TestServer};
use firndb::catalog::{Catalog, PublishOptions};
use firndb::search::{Collection, Document, Field, PartitionBuilder, Roles, Schema, Type};
use firndb_server::config::{CatalogOptions, Config};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Publishes versions of a small collection.
struct Publisher {
    catalog: Catalog,
    collection: Collection,
    dir: std::path::PathBuf,
}

impl Publisher {
    fn new(dir: &Path) -> Publisher {
        let (catalog, source) = (dir.join("catalog"), dir.join("source"));
        Publisher {
            catalog: Catalog::create(catalog).unwrap(),
            collection: Collection::create(&source).unwrap(),
            dir: source,
        }
    }

    /// Publishes version `version`: [`documents`] documents that have this number.
    fn publish(&self, version: u64) {
        let fields = ["n", "version"].map(|name| Field::new(name, Type::U64, Roles::FULL));
        let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
        for n in 0..documents(version) {
            let document = Document::new().set("n", n).set("version", version);
            builder.add(&document.payload(format!("{version}"))).unwrap();
        }
        let mut change = self.collection.change().unwrap();
        change.put("p", builder).unwrap();
        change.commit().unwrap();
        let options = PublishOptions::new().label("build", format!("b{version}"));
        let published = self.catalog.publish("prices", &self.dir, &options).unwrap();
        assert_eq!(published.version.number, version);
    }
}

fn documents(version: u64) -> u64 {
    10 + version % 7
}

fn serve(dir: Dir, refresh_seconds: f64) -> TestServer {
    let mut config = Config { cache: Some(dir.path().join("cache")), ..Config::default() };
    let place = dir.path().join("catalog").display().to_string();
    let options = CatalogOptions {
        place,
        name: "prices".to_string(),
        refresh_seconds,
        ..CatalogOptions::default()
    };
    config.catalogs.insert("c".to_string(), options);
    TestServer::start(dir, config)
}

fn get(server: &TestServer, path: &str) -> Json {
    server.client.get(server.url(path)).send().unwrap().json().unwrap()
}

#[test]
fn the_state_of_a_catalog_is_reported() {
    let dir = Dir::new();
    let publisher = Publisher::new(dir.path());
    publisher.publish(1);
    publisher.publish(2);
    let place = dir.path().join("catalog");
    let server = serve(dir, 0.02);
    let list = get(&server, "/v1/catalogs");
    let state = &list["catalogs"][0];
    assert_eq!(list["catalogs"].as_array().unwrap().len(), 1);
    assert_eq!((&state["name"], &state["catalog_name"]), (&json!("c"), &json!("prices")));
    assert_eq!(state["place"], place.to_str().unwrap());
    assert_eq!((&state["kind"], &state["version"]), (&json!("collection"), &json!(2)));
    assert_eq!((&state["newest"], &state["last_error"]), (&json!(2), &Json::Null));
    let live = &state["live"];
    assert_eq!((&live["number"], &live["kind"]), (&json!(2), &json!("collection")));
    assert_eq!(live["labels"], json!({ "build": "b2" }));
    assert_eq!(live["statistics"]["documents"], documents(2));
    assert!(live["published"].as_str().unwrap() <= state["switched"].as_str().unwrap());
    let one = get(&server, "/v1/catalogs/c");
    assert_eq!((&one["versions"], &one["version_count"]), (&json!([2, 1]), &json!(2)));
    assert_eq!(one["live"], *live);

    publisher.publish(3);
    let start = Instant::now();
    while get(&server, "/v1/catalogs/c")["version"] != 3 {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(10));
    }
    // A version that cannot be opened leaves the old one, and the reason is reported.
    let versions = place.join("prices/versions");
    assert!(versions.join(format!("{:020}.json", 3)).exists());
    std::fs::write(versions.join(format!("{:020}.json", 4)), b"{ \"damaged\": true }").unwrap();
    let start = Instant::now();
    let state = loop {
        let state = get(&server, "/v1/catalogs/c");
        if !state["last_error"].is_null() {
            break state;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{state}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(state["version"], 3);
    assert!(state["stats"]["failures"].as_u64().unwrap() > 0);

    assert_eq!(
        problem(server.client.get(server.url("/v1/catalogs/d")).send().unwrap())["status"],
        404
    );
    for path in ["/v1/catalogs", "/v1/catalogs/c"] {
        let posted = server.client.post(server.url(path)).send().unwrap();
        assert_eq!(problem(posted)["status"], 405);
    }
}

#[test]
fn no_request_fails_while_versions_change() {
    const VERSIONS: u64 = 300;
    const CLIENTS: usize = 8;
    let dir = Dir::new();
    let publisher = Publisher::new(dir.path());
    publisher.publish(1);
    let server = serve(dir, 0.01);
    let (done, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    let url = server.url("/v1/collections/c:search");
    let body = json!({ "order": ["n"], "limit": 100, "count": true, "payload": true }).to_string();
    // Returns the version that answered, which must be the only one of the answer.
    let query = |client: &reqwest::blocking::Client| {
        let response = client.post(&url).header("content-type", "application/json");
        let response = response.body(body.clone()).send().unwrap();
        assert_eq!(response.status(), 200, "{}", response.text().unwrap());
        let page: Json = response.json().unwrap();
        let hits = page["hits"].as_array().unwrap();
        let version = hits[0]["fields"]["version"].as_u64().unwrap();
        let count = documents(version);
        assert_eq!((page["count"].as_u64(), hits.len() as u64), (Some(count), count));
        for (n, hit) in hits.iter().enumerate() {
            assert_eq!(hit["fields"], json!({ "n": n, "version": version }));
            assert_eq!(hit["payload"], version);
        }
        requests.fetch_add(1, Ordering::Relaxed);
        version
    };
    let client = || reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let start = Instant::now();
    let distinct: usize = std::thread::scope(|scope| {
        let query_until_done = || {
            let (client, mut seen) = (client(), vec![0]);
            while !done.load(Ordering::Relaxed) {
                let version = query(&client);
                let last = seen[seen.len() - 1];
                assert!(version >= last, "version {version} after {last}");
                if version > last {
                    seen.push(version);
                }
            }
            seen.len() - 1
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(query_until_done)).collect();
        for version in 2..=VERSIONS {
            publisher.publish(version);
        }
        done.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).max().unwrap_or_default()
    });
    println!(
        "{} requests in {:?}, none failed; one client saw {distinct} versions",
        requests.load(Ordering::Relaxed),
        start.elapsed()
    );
    assert!(distinct > 10, "versions change while clients query");
    let (client, start) = (client(), Instant::now());
    while query(&client) != VERSIONS {
        assert!(start.elapsed() < Duration::from_secs(10), "the last version is served");
        std::thread::sleep(Duration::from_millis(10));
    }
    let state = get(&server, "/v1/catalogs/c");
    assert_eq!((&state["version"], &state["last_error"]), (&json!(VERSIONS), &Json::Null));
    assert!(state["stats"]["swaps"].as_u64().unwrap() as usize >= distinct - 1);
}
