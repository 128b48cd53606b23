//! Servers of collections, and requests to them.

use crate::support::{Dir, TestServer};
use firndb::search::{Collection, Document, Field, PartitionBuilder, Roles, Schema, Type};
use firndb_server::config::{CollectionOptions, Config};
use reqwest::StatusCode;
use reqwest::blocking::Response;
use serde_json::Value as Json;
use std::path::Path;

/// The cities of the sample, by number modulo 3; the third one is missing.
const CITIES: [&str; 2] = ["Oslo", "Bergen"];

/// Creates a collection of 100 documents in two partitions: `n` from 0 to 99, `price` a quarter of
/// it, `city` and `tags` for some; the payload is JSON for even numbers.
pub fn create_sample(dir: &Path) {
    let schema = Schema::new([
        Field::new("n", Type::U64, Roles::FULL),
        Field::new("price", Type::F64, Roles::FULL),
        Field::new("city", Type::String, Roles::FULL).nullable(),
        Field::new("tags", Type::String, Roles::FILTERABLE.with(Roles::STORED)).multi(),
        Field::new("hidden", Type::U64, Roles::FILTERABLE),
    ])
    .unwrap();
    let collection = Collection::create(dir).unwrap();
    let mut change = collection.change().unwrap();
    for (name, numbers) in [("a", 0..50u64), ("b", 50..100)] {
        let mut builder = PartitionBuilder::new(schema.clone());
        for n in numbers {
            let mut document = Document::new().set("n", n).set("price", n as f64 / 4.0);
            document = document.set("hidden", n / 10);
            if let Some(city) = CITIES.get(n as usize % 3) {
                document = document.set("city", *city);
            }
            for tag in 0..n % 3 {
                document = document.set("tags", format!("t{tag}"));
            }
            let payload = match n % 2 {
                0 => format!("{{\"n\":{n}}}"),
                _ => format!("number {n}"),
            };
            builder.add(&document.payload(payload)).unwrap();
        }
        change.put(name, builder).unwrap();
    }
    change.commit().unwrap();
}

/// Serves the sample as `c`, with options that `configure` changes.
pub fn serve_sample(configure: impl FnOnce(&mut Config)) -> TestServer {
    let dir = Dir::new();
    let path = dir.path().join("c");
    create_sample(&path);
    let mut config = Config::default();
    let options = CollectionOptions { path, refresh_seconds: 60.0 };
    config.collections.insert("c".to_string(), options);
    configure(&mut config);
    TestServer::start(dir, config)
}

impl TestServer {
    /// Sends a JSON body, which may be malformed, to a verb of the collection `c`.
    pub fn send_query(&self, verb: &str, body: impl Into<Vec<u8>>) -> Response {
        let url = self.url(&format!("/v1/collections/c:{verb}"));
        let request = self.client.post(url).header("content-type", "application/json");
        request.body(body.into()).send().unwrap()
    }

    /// The answer to a JSON request, which must succeed.
    pub fn query(&self, verb: &str, body: &Json) -> Json {
        let response = self.send_query(verb, body.to_string());
        let (status, text) = (response.status(), response.text().unwrap());
        assert_eq!(status, StatusCode::OK, "{body}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// The problem that a request is answered with.
    pub fn query_problem(&self, verb: &str, body: impl Into<Vec<u8>>) -> Json {
        problem(self.send_query(verb, body))
    }

    /// The explanation of a problem with status 400.
    pub fn query_refused(&self, verb: &str, body: &Json) -> String {
        let problem = self.query_problem(verb, body.to_string());
        assert_eq!(problem["status"], 400, "{body}: {problem}");
        assert_eq!(problem["kind"], "invalid_argument");
        problem["detail"].as_str().unwrap().to_string()
    }
}

/// The problem in a response.
pub fn problem(response: Response) -> Json {
    let status = response.status();
    assert!(!status.is_success(), "{}", response.text().unwrap());
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let problem: Json = response.json().unwrap();
    assert_eq!(problem["status"], status.as_u16());
    problem
}

/// The numbers `n` of the hits of a page.
pub fn numbers(page: &Json) -> Vec<u64> {
    let hits = page["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["fields"]["n"].as_u64().unwrap()).collect()
}
