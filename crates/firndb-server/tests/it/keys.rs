//! Single keys.

use crate::support::TestServer;
use reqwest::StatusCode;

#[test]
fn a_key_is_written_read_and_deleted() {
    let server = TestServer::with_log();
    let url = server.url("/v1/logs/log/keys/a%2Fb");
    let client = &server.client;
    assert_eq!(client.get(&url).send().unwrap().status(), StatusCode::NOT_FOUND);
    let put = client.put(&url).body("value").header("If-None-Match", "*");
    assert_eq!(put.send().unwrap().status(), StatusCode::NO_CONTENT);
    let put = client.put(&url).body("other").header("If-None-Match", "*");
    assert_eq!(put.send().unwrap().status(), StatusCode::PRECONDITION_FAILED);
    let got = client.get(&url).send().unwrap();
    let etag = got.headers()["etag"].clone();
    assert_eq!(got.bytes().unwrap(), "value");
    let again = client.get(&url).header("If-None-Match", &etag).send().unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    let put = client.put(&url).body("newer").header("If-Match", &etag);
    assert_eq!(put.send().unwrap().status(), StatusCode::NO_CONTENT);
    let put = client.put(&url).body("lost").header("If-Match", &etag);
    assert_eq!(put.send().unwrap().status(), StatusCode::PRECONDITION_FAILED);
    let hex = server.url("/v1/logs/log/keys/612f62?encoding=hex");
    assert_eq!(client.get(hex).send().unwrap().bytes().unwrap(), "newer");
    assert_eq!(client.delete(&url).send().unwrap().status(), StatusCode::NO_CONTENT);
    assert_eq!(client.get(&url).send().unwrap().status(), StatusCode::NOT_FOUND);
}
