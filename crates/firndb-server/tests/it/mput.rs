//! Atomic batches.

use crate::support::TestServer;
use crate::tables::{field, server};
use reqwest::StatusCode;
use serde_json::{Value as Json, json};

const MPUT: &str = "/v1/logs/log:mput";
const DONE: StatusCode = StatusCode::NO_CONTENT;
const FAILED: StatusCode = StatusCode::PRECONDITION_FAILED;

/// The value of a key; null if it is absent.
fn value(server: &TestServer, key: &str) -> Json {
    record(server, key)["value"].clone()
}

fn record(server: &TestServer, key: &str) -> Json {
    let body = json!({ "keys": [key], "versions": true }).to_string();
    server.post("/v1/logs/log:mget", &body).1["values"][0].clone()
}

#[test]
fn a_batch_puts_and_deletes() {
    let server = server(|_| ());
    server.put("old", "x");
    let body = r#"{"put":[{"key":"a","value":"1"},{"key_hex":"ff","value_hex":"fe"},
        {"key":"a","value":"2"},{"key":"both","value":"x"},{"key":"","value":""}],
        "delete":["old","absent","both"],"sync":true}"#;
    assert_eq!(server.post(MPUT, body), (DONE, Json::Null));
    assert_eq!(value(&server, "a"), "2", "the later change of a key");
    assert_eq!((value(&server, "old"), value(&server, "both")), (Json::Null, Json::Null));
    assert_eq!(value(&server, ""), "");
    assert_eq!(server.get("/v1/logs/log/keys/ff?encoding=hex").1, b"\xfe");
    let body = r#"{"put":[{"key":"YQ","value":"_w"}],"delete":["-_8="],"encoding":"base64url"}"#;
    assert_eq!(server.post(MPUT, body).0, DONE);
    assert_eq!(server.get("/v1/logs/log/keys/a").1, b"\xff");
    assert_eq!(server.post(MPUT, "{}").0, DONE);
}

#[test]
fn a_batch_is_written_if_its_conditions_hold() {
    let server = server(|_| ());
    let body = r#"{"put":[{"key":"a","value":"1"}],"if":[{"key":"a","version":null}]}"#;
    assert_eq!(server.post(MPUT, body).0, DONE);
    let (status, problem) = server.post(MPUT, body);
    assert_eq!((status, problem["kind"].as_str()), (FAILED, Some("precondition_failed")));
    let version = record(&server, "a")["version"].clone();
    let batch = |version: &Json, value: &str| {
        let conditions =
            json!([{"key": "b", "version": null}, {"key_hex": "61", "version": version}]);
        let put = json!([{"key": "a", "value": value}, {"key": "c", "value": value}]);
        server.post(MPUT, &json!({"put": put, "if": conditions}).to_string()).0
    };
    assert_eq!(batch(&json!("0"), "2"), FAILED);
    assert_eq!(batch(&json!("not a version"), "2"), FAILED);
    assert_eq!(batch(&Json::Null, "2"), FAILED);
    assert_eq!((value(&server, "a"), value(&server, "c")), (json!("1"), Json::Null));
    assert_eq!(batch(&version, "2"), DONE);
    assert_eq!((value(&server, "a"), value(&server, "c")), (json!("2"), json!("2")));
    assert_eq!(batch(&version, "3"), FAILED);
    // Conditions alone say whether they hold.
    let version = record(&server, "a")["version"].clone();
    let check = |version: &Json| {
        server.post(MPUT, &json!({"if": [{"key": "a", "version": version}]}).to_string()).0
    };
    assert_eq!((check(&version), check(&Json::Null)), (DONE, FAILED));
}

#[test]
fn records_of_a_batch_expire() {
    let server = server(|_| ());
    let body = r#"{"put":[{"key":"a","value":"1","ttl":3600},{"key":"b","value":"1","expires":1},
        {"key":"c","value":"1","expires":99999999999999},{"key":"d","value":"1"}]}"#;
    assert_eq!(server.post(MPUT, body).0, DONE);
    assert!(record(&server, "a")["expires"].as_u64().unwrap() > 1_700_000_000_000);
    assert_eq!(value(&server, "b"), Json::Null);
    assert_eq!(record(&server, "c")["expires"], 99_999_999_999_999u64);
    assert_eq!(record(&server, "d")["expires"], Json::Null);
}

#[test]
fn lines_are_records_or_keys_to_remove() {
    let server = server(|_| ());
    server.put("old", "x");
    let lines = "{\"key\":\"a\",\"value\":\"1\"}\n\r\n\
                 {\"key_hex\":\"ff\",\"value\":\"2\",\"ttl\":100}\r\n\
                 {\"key\":\"old\",\"delete\":true}\n{\"key\":\"a\",\"value_hex\":\"33\"}";
    let ndjson = [("content-type", "application/x-ndjson"), ("firndb-sync", "true")];
    assert_eq!(server.post_with(MPUT, lines, &ndjson).status(), DONE);
    assert_eq!((value(&server, "a"), value(&server, "old")), (json!("3"), Json::Null));
    for (lines, message) in [
        ("{\"key\":\"b\",\"value\":\"1\"}\n\n{\"key\":\"c\"}", "line 3: give either `value` or"),
        ("{\"key\":\"b\",\"value\":\"1\"}\nx", "line 2: this is not a JSON object"),
        ("{\"key\":\"b\",\"value\":\"1\",\"delete\":true}", "line 1: a key to remove"),
        ("{\"key\":\"b\",\"delete\":true,\"ttl\":1}", "line 1: a key to remove"),
        ("{\"key\":\"b\",\"value\":\"1\",\"version\":\"0\"}", "unknown field `version`"),
    ] {
        let response = server.post_with(MPUT, lines, &ndjson);
        let (status, problem) = crate::tables::answer(response);
        assert_eq!(status, StatusCode::BAD_REQUEST, "{lines}");
        assert!(problem["detail"].as_str().unwrap().contains(message), "{lines}: {problem}");
    }
    assert_eq!(value(&server, "b"), Json::Null, "nothing of a batch with an error is written");
    // What a scan returns as lines can be written again.
    let scan = server.post_with("/v1/logs/log:scan", "{}", &[("accept", "application/x-ndjson")]);
    let all = scan.text().unwrap();
    assert_eq!(all.lines().count(), 2);
    assert_eq!(
        server.client.delete(server.url("/v1/logs/log/keys/a")).send().unwrap().status(),
        DONE
    );
    assert_eq!(server.post_with(MPUT, all.clone(), &ndjson).status(), DONE);
    let scan = server.post_with("/v1/logs/log:scan", "{}", &[("accept", "application/x-ndjson")]);
    assert_eq!(scan.text().unwrap(), all);
}

#[test]
fn the_binary_form_has_operations() {
    let server = server(|_| ());
    server.put("old", "x");
    let octets = [("content-type", "application/octet-stream")];
    let put = |key: &[u8], value: &[u8]| [vec![1], field(key), field(value)].concat();
    let expiring = |key: &[u8], at: u64| {
        [vec![2], at.to_le_bytes().to_vec(), field(key), field(b"v")].concat()
    };
    let delete = |key: &[u8]| [vec![3], field(key)].concat();
    let if_version =
        |key: &[u8], version: u64| [vec![4], version.to_le_bytes().to_vec(), field(key)].concat();
    let if_absent = |key: &[u8]| [vec![5], field(key)].concat();
    let send = |parts: &[Vec<u8>]| server.post_with(MPUT, parts.concat(), &octets).status();
    let body = [put(b"a", b"1"), expiring(b"b", 1), delete(b"old"), if_absent(b"a")];
    assert_eq!((send(&body), send(&body)), (DONE, FAILED));
    assert_eq!(value(&server, "a"), "1");
    assert_eq!((value(&server, "b"), value(&server, "old")), (Json::Null, Json::Null));
    let version = record(&server, "a")["version"].as_str().unwrap().to_string();
    let version = u64::from_str_radix(&version, 16).unwrap();
    assert_eq!(send(&[if_version(b"a", version ^ 1), put(b"a", b"2")]), FAILED);
    assert_eq!(send(&[if_version(b"a", version), put(b"a", b"2")]), DONE);
    assert_eq!(send(&[]), DONE);
    for body in [&[9, 0, 0, 0, 0][..], &[1], &[1, 0, 0, 0, 0], &[3, 1, 0, 0, 0], &[4, 0, 0, 0]] {
        let status = send(&[put(b"a", b"lost"), body.to_vec()]);
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body:?}");
    }
    assert_eq!(value(&server, "a"), "2");
}

#[test]
fn batches_have_limits() {
    let server = server(|config| config.limits.keys = 10);
    let large = StatusCode::PAYLOAD_TOO_LARGE;
    let put = |n: usize| vec![json!({"key": "k", "value": "v"}); n];
    let absent = json!([{"key": "a", "version": null}]);
    let body = |n: usize| json!({"put": put(n - 2), "delete": ["x"], "if": absent});
    assert_eq!(server.post(MPUT, &body(10).to_string()).0, DONE);
    assert_eq!(server.post(MPUT, &body(11).to_string()).0, large);
    assert_eq!(server.post(MPUT, &body(100_000).to_string()).0, large);
    let lines = |n: usize| "{\"key\":\"k\",\"value\":\"v\"}\n".repeat(n);
    let ndjson = [("content-type", "application/x-ndjson")];
    assert_eq!(server.post_with(MPUT, lines(10), &ndjson).status(), DONE);
    assert_eq!(server.post_with(MPUT, lines(11), &ndjson).status(), large);
    // The library's limit of keys.
    let key = |len: usize| json!({"put": [{"key": "x".repeat(len), "value": ""}]}).to_string();
    assert_eq!(server.post(MPUT, &key(65_536)).0, DONE);
    assert_eq!(value(&server, &"x".repeat(65_536)), "");
    let (status, detail) = server.refused(MPUT, &key(65_537));
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(detail.contains("65536") || detail.contains("65,536"), "{detail}");
    assert_eq!(value(&server, &"x".repeat(65_537)), Json::Null);
}

#[test]
fn hostile_batches_are_refused() {
    let server = server(|_| ());
    for (body, message) in [
        ("", "this is not a JSON object"),
        (r#"{"put":[7]}"#, "expected an object with `key` and `value`"),
        (r#"{"if":["k"]}"#, "expected an object with `key` and `version`"),
        (r#"{"puts":[]}"#, "unknown field `puts`"),
        (r#"{"put":[{"key":"a"}]}"#, "give either `value` or `value_hex`"),
        (r#"{"put":[{"value":"a"}]}"#, "give either `key` or `key_hex`"),
        (r#"{"put":[{"key":"a","key_hex":"61","value":"b"}]}"#, "only one of them"),
        (r#"{"put":[{"key":"a","value":1}]}"#, "expected a string"),
        (r#"{"put":[{"key":"a","value":null}]}"#, "give either `value`"),
        (r#"{"put":[{"key":"a","value":"b","ttl":1,"expires":1}]}"#, "not both"),
        (r#"{"put":[{"key":"a","value":"b","ttl":0}]}"#, "time to live"),
        (r#"{"put":[{"key":"a","value":"b","ttl":-1e400}]}"#, "number out of range"),
        (r#"{"put":[{"key":"a","value":"b","ttl":1e300}]}"#, "time to live"),
        (r#"{"put":[{"key":"a","value":"b","ttl":"1"}]}"#, "expected f64"),
        (r#"{"put":[{"key":"a","value":"b","expires":-1}]}"#, "JSON:"),
        (r#"{"put":[{"key":"a","value":"b","extra":1}]}"#, "unknown field `extra`"),
        (r#"{"put":[{"key":"a","value":"zz"}],"encoding":"hex"}"#, "hex digits"),
        (r#"{"if":[{"key":"a"}]}"#, "missing field `version`"),
        (r#"{"if":[{"key":"a","version":1}]}"#, "expected a string"),
        (r#"{"delete":[{"key":"a"}]}"#, "expected a string"),
        (r#"{"sync":"yes"}"#, "expected a boolean"),
    ] {
        let (status, detail) = server.refused(MPUT, body);
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {detail}");
        assert!(detail.contains(message), "{body}: {detail}");
    }
    assert_eq!(server.post("/v1/logs/none:mput", "{}").0, StatusCode::NOT_FOUND);
    assert_eq!(server.post("/v1/tables/plain:mput", "{}").0, StatusCode::NOT_FOUND);
    let text = [("content-type", "text/plain")];
    let status = server.post_with(MPUT, "{}", &text).status();
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let (_, all) = server.post("/v1/logs/log:scan", "");
    assert_eq!(all, json!({"records": [], "next": null}));
}
