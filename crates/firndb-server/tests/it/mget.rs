//! Many keys at once.

use crate::tables::{RECORDS, field, key, server, value};
use reqwest::StatusCode;
use serde_json::{Value as Json, json};

const OCTETS: (&str, &str) = ("content-type", "application/octet-stream");

#[test]
fn values_come_in_the_order_of_the_keys() {
    let server = server(|_| ());
    server.put("key%207", "value 7");
    server.put("key%208", "");
    for store in ["logs/log", "tables/plain", "tables/sharded"] {
        let body = r#"{"keys":["key 7","no such key","key 7"]}"#;
        let (status, answer) = server.post(&format!("/v1/{store}:mget"), body);
        let found = json!({"key": "key 7", "value": "value 7"});
        let absent = json!({"key": "no such key", "value": null});
        assert_eq!(status, StatusCode::OK);
        assert_eq!(answer, json!({"values": [found, absent, found]}), "{store}");
    }
    let (_, answer) = server.post("/v1/logs/log:mget", r#"{"keys":["key 8"],"versions":true}"#);
    let version = answer["values"][0]["version"].as_str().unwrap();
    let response = server.client.get(server.url("/v1/logs/log/keys/key%208")).send().unwrap();
    assert_eq!(response.headers()["etag"], format!("\"{version}\"").as_str());
    assert_eq!(answer["values"][0]["value"], "");
    let (_, answer) = server.post("/v1/tables/plain:mget", r#"{"keys":[]}"#);
    assert_eq!(answer, json!({"values": []}));
}

#[test]
fn bytes_have_encodings() {
    let server = server(|_| ());
    let mget = |body: &str| server.post("/v1/tables/plain:mget", body).1["values"].clone();
    let hex = json!([{"key_hex": "ff", "value_hex": "fe"}, {"key_hex": "6b", "value": null}]);
    assert_eq!(mget(r#"{"keys":["ff","6b"],"encoding":"hex"}"#), hex);
    let base64 = json!([{"key_base64url": "_w", "value_base64url": "_g"}]);
    assert_eq!(mget(r#"{"keys":["_w=="],"encoding":"base64url"}"#), base64);
    let escaped = json!([{"key": "\"\\\u{1}\u{e9}", "value": null}]);
    assert_eq!(mget(r#"{"keys":["\"\\\u0001\u00e9"]}"#), escaped);
    // In the text form, bytes that are no text have another name.
    let url = server.url("/v1/logs/log/keys/ff?encoding=hex");
    server.client.put(url).body(&b"\xc3\x28"[..]).send().unwrap();
    let body = r#"{"keys":["ff"],"encoding":"hex"}"#;
    let lines = server.post_with("/v1/logs/log:mget", body, &[("accept", "application/x-ndjson")]);
    assert_eq!(lines.headers()["content-type"], "application/x-ndjson");
    assert_eq!(lines.text().unwrap(), "{\"key_hex\":\"ff\",\"value_hex\":\"c328\"}\n");
    let (_, scan) = server.post("/v1/logs/log:scan", "");
    assert_eq!(scan["records"], json!([{"key_hex": "ff", "value_hex": "c328"}]));
}

#[test]
fn values_of_rows_are_json_except_in_the_binary_form() {
    let server = server(|_| ());
    let (_, answer) = server.post("/v1/tables/rows:mget", r#"{"keys":["a","b","c"]}"#);
    let values: Vec<&Json> =
        answer["values"].as_array().unwrap().iter().map(|row| &row["value"]).collect();
    assert_eq!(values, [&json!({"n": 7}), &json!({"n": -8}), &Json::Null]);
    assert_eq!(server.post_binary("/v1/tables/rows:mget", field(b"a")), field(&[14]));
}

#[test]
fn the_binary_form_has_lengths() {
    let server = server(|_| ());
    server.put("key%207", "value 7");
    let body = [field(b"key 7"), field(b"x"), field(b"key 7")].concat();
    let absent = [0xff; 4].to_vec();
    let expected = [field(b"value 7"), absent.clone(), field(b"value 7")].concat();
    for store in ["logs/log", "tables/plain", "tables/sharded"] {
        let path = format!("/v1/{store}:mget");
        assert_eq!(server.post_binary(&path, body.clone()), expected, "{store}");
        assert!(server.post_binary(&path, vec![]).is_empty());
    }
    let body = [field(b"key 258"), field(b"")].concat();
    let found = server.post_binary("/v1/tables/approximate:mget", body);
    assert_eq!(found, [field(&[2, 1]), absent].concat());
    // The forms of the request and of the response are independent.
    let accept = ("accept", "application/json");
    let response = server.post_with("/v1/tables/plain:mget", field(b"key 7"), &[OCTETS, accept]);
    assert_eq!(response.text().unwrap(), r#"{"values":[{"key":"key 7","value":"value 7"}]}"#);
    for body in [&[5, 0, 0, 0, 1][..], &[1, 0, 0], &[0xff; 4], &[0xfe, 0xff, 0xff, 0xff, 1]] {
        let response = server.post_with("/v1/tables/plain:mget", body.to_vec(), &[OCTETS]);
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{body:?}");
    }
}

#[test]
fn all_keys_of_a_table_are_found() {
    let server = server(|_| ());
    let keys: Vec<u8> = (0..RECORDS).flat_map(|n| field(key(n).as_bytes())).collect();
    let values: Vec<u8> = (0..RECORDS).flat_map(|n| field(value(n).as_bytes())).collect();
    for store in ["plain", "sharded"] {
        let found = server.post_binary(&format!("/v1/tables/{store}:mget"), keys.clone());
        assert!(found == values, "{store}");
    }
}

#[test]
fn requests_have_limits() {
    let server = server(|config| {
        config.limits.keys = 100;
        config.limits.response_bytes = 3000;
    });
    server.put("k", &"x".repeat(100));
    let json = |n: usize, key: &str| json!({ "keys": vec![key; n] }).to_string();
    let large = StatusCode::PAYLOAD_TOO_LARGE;
    for store in ["logs/log", "tables/plain"] {
        let path = format!("/v1/{store}:mget");
        assert_eq!(server.post(&path, &json(100, "")).0, StatusCode::OK);
        assert_eq!(server.post(&path, &json(101, "")).0, large);
        assert_eq!(server.post(&path, &json(1_000_000, "")).0, large);
        server.post_binary(&path, field(b"").repeat(100));
        let response = server.post_with(&path, field(b"").repeat(101), &[OCTETS]);
        assert_eq!(response.status(), large);
    }
    // 28 answers of 104 bytes fit into 3000 bytes, 29 do not.
    assert_eq!(server.post_binary("/v1/logs/log:mget", field(b"k").repeat(28)).len(), 28 * 104);
    let response = server.post_with("/v1/logs/log:mget", field(b"k").repeat(29), &[OCTETS]);
    assert_eq!(response.status(), large);
    // Exactly the limit.
    let (head, row) = (r#"{"values":[]}"#.len(), r#"{"key":"","value":null},"#.len());
    let key = "x".repeat(3000 - head - row + 1);
    assert_eq!(server.post("/v1/tables/plain:mget", &json(1, &key)).0, StatusCode::OK);
    assert_eq!(server.post("/v1/tables/plain:mget", &json(1, &format!("{key}x"))).0, large);
}

#[test]
fn hostile_bodies_are_refused() {
    let server = server(|_| ());
    for (body, message) in [
        ("", "this is not a JSON object"),
        ("{", "JSON: EOF"),
        ("[]", "this is not a JSON object"),
        (r#"[["a"]]"#, "this is not a JSON object"),
        ("null", "this is not a JSON object"),
        ("{}", "missing field `keys`"),
        (r#"{"keys":"a"}"#, "expected a sequence"),
        (r#"{"keys":[1]}"#, "expected a string"),
        (r#"{"keys":[null]}"#, "expected a string"),
        (r#"{"keys":[["a"]]}"#, "expected a string"),
        (r#"{"keys":["\ud800"]}"#, "JSON:"),
        (r#"{"keys":[],"keys":[]}"#, "duplicate field `keys`"),
        (r#"{"keys":[],"kyes":[]}"#, "unknown field `kyes`, expected one of `keys`"),
        (r#"{"keys":[]} x"#, "trailing characters"),
        (r#"{"keys":["a"],"encoding":"utf16"}"#, "unknown variant `utf16`"),
        (r#"{"keys":["0"],"encoding":"hex"}"#, "the key is not an even number of hex digits"),
        (r#"{"keys":["zz"],"encoding":"hex"}"#, "hex digits"),
        (r#"{"keys":["+/"],"encoding":"base64url"}"#, "the key is not base64url"),
    ] {
        let (status, detail) = server.refused("/v1/tables/plain:mget", body);
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert!(detail.contains(message), "{body}: {detail}");
    }
    let deep = format!("{{\"keys\":{}", "[".repeat(1_000_000));
    assert_eq!(server.refused("/v1/tables/plain:mget", &deep).0, StatusCode::BAD_REQUEST);
    let response = server.post_with("/v1/tables/plain:mget", &b"{\"keys\":[\"\xff\"]}"[..], &[]);
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    for (headers, status) in [
        (("content-type", "text/plain"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (("content-type", "application/x-ndjson"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (("accept", "text/html"), StatusCode::NOT_ACCEPTABLE),
        (("content-type", "application/json; charset=utf-8"), StatusCode::OK),
    ] {
        let response = server.post_with("/v1/tables/plain:mget", r#"{"keys":[]}"#, &[headers]);
        assert_eq!(response.status(), status, "{headers:?}");
    }
    assert_eq!(server.post("/v1/tables/none:mget", r#"{"keys":[]}"#).0, StatusCode::NOT_FOUND);
    assert_eq!(server.post("/v1/logs/plain:mget", r#"{"keys":[]}"#).0, StatusCode::NOT_FOUND);
}

#[test]
fn large_answers_are_compressed() {
    let server = server(|_| ());
    let keys: Vec<String> = (0..RECORDS).map(key).collect();
    let body = json!({ "keys": keys }).to_string();
    let headers = [("accept-encoding", "zstd")];
    let response = server.post_with("/v1/tables/plain:mget", body.clone(), &headers);
    assert_eq!(response.headers()["content-encoding"], "zstd");
    let small = response.bytes().unwrap();
    let plain = server.post_with("/v1/tables/plain:mget", body, &[]).bytes().unwrap();
    assert!(small.len() < plain.len() / 2);
}

#[test]
fn a_request_that_takes_too_long_is_cancelled() {
    let server = server(|config| config.limits.query_seconds = 0.001);
    // Parsing so many keys takes longer.
    let body = json!({ "keys": vec!["key 1"; 100_000] }).to_string();
    let (status, problem) = server.post("/v1/tables/plain:mget", &body);
    assert_eq!((status, &problem["kind"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("cancelled")));
    let put = vec![json!({"key": "k", "value": "v"}); 100_000];
    let (status, problem) = server.post("/v1/logs/log:mput", &json!({ "put": put }).to_string());
    assert_eq!((status, &problem["kind"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("cancelled")));
    assert_eq!(server.get("/v1/logs/log/keys/k").0, StatusCode::NOT_FOUND, "nothing was written");
}
