//! Scans of tables in key order.

use crate::support::{Dir, TestServer};
use crate::tables;
use firndb::table::{BuildOptions, Order};
use firndb_server::config::{Config, TableOptions};
use reqwest::StatusCode;
use serde_json::json;

#[test]
fn pages_of_a_range_of_a_table_come_in_key_order() {
    let dir = Dir::new();
    let mut config = Config::default();
    let path = dir.path().join("ordered.table");
    let records: Vec<_> =
        (0..300).rev().map(|n| (format!("{n:03}").into_bytes(), vec![b'v'])).collect();
    tables::build(&path, BuildOptions::new().order(Order::Key), &records);
    config.tables.insert("t".to_string(), TableOptions { path, ..TableOptions::default() });
    let server = TestServer::start(dir, config);
    let mut fields = json!({"from": "05", "to": "150", "reverse": true, "limit": 33});
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let (status, page) = server.post("/v1/tables/t:scan", &fields.to_string());
        assert_eq!(status, StatusCode::OK, "{page}");
        let records = page["records"].as_array().unwrap();
        found.extend(records.iter().map(|record| record["key"].as_str().unwrap().to_string()));
        pages += 1;
        match &page["next"] {
            serde_json::Value::Null => break,
            next => fields["cursor"] = next.clone(),
        }
    }
    assert!(found.into_iter().eq((50..150).rev().map(|n| format!("{n:03}"))));
    assert_eq!(pages, 4);
    let (status, page) = server.post("/v1/tables/t:scan", r#"{"prefix":"29","limit":2}"#);
    assert_eq!(status, StatusCode::OK);
    let expected = json!([{"key": "290", "value": "v"}, {"key": "291", "value": "v"}]);
    assert_eq!(page["records"], expected);
}
