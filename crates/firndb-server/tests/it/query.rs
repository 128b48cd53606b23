//! Queries of collections: their forms, and what they return.

use crate::collections::{numbers, problem, serve_sample};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use reqwest::StatusCode;
use serde_json::{Value as Json, json};

const ARROW: &str = "application/vnd.apache.arrow.stream";

#[test]
fn the_forms_of_a_query_find_the_same() {
    let server = serve_sample(|_| ());
    let text = "price < 10 and not city in ('Oslo') order by price desc limit 3";
    let structured = json!({
        "where": { "and": [
            { "field": "price", "lt": 10 },
            { "not": { "field": "city", "in": ["Oslo"] } },
        ] },
        "order": [{ "field": "price", "desc": true }],
        "limit": 3,
    });
    let page = server.query("search", &structured);
    assert_eq!(numbers(&page), [38, 37, 35]);
    assert_eq!(page["hits"], server.query("search", &json!({ "query": text }))["hits"]);
    let url = server.url("/v1/collections/c:search");
    let request = server.client.post(&url).header("content-type", "text/plain");
    let plain: Json = request.body(text).send().unwrap().json().unwrap();
    assert_eq!(page["hits"], plain["hits"]);
    // Fields of the order are first; missing values are left out.
    let hit = json!({ "partition": "a", "doc": 38, "fields": {
        "price": 9.5, "n": 38, "tags": ["t0", "t1"]
    } });
    assert_eq!(page["hits"][0].to_string(), hit.to_string());
    let members: Vec<&String> = page.as_object().unwrap().keys().collect();
    assert_eq!(members, ["hits", "next", "elapsed_seconds"]);
}

#[test]
fn pages_follow_each_other_by_their_tokens() {
    let server = serve_sample(|_| ());
    let mut request = json!({ "query": "order by city, n desc", "count": true, "limit": 30 });
    let mut seen = Vec::new();
    loop {
        let page = server.query("search", &request);
        assert_eq!(page["count"], 100);
        seen.extend(numbers(&page));
        match page.get("next") {
            Some(next) => request["after"] = next.clone(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 100);
    let mut sorted = seen.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..100));
    assert_eq!(seen[..2], [97, 94], "Bergen comes before Oslo");
    let skipped = server.query("search", &json!({ "order": ["n"], "skip": 95 }));
    assert_eq!(numbers(&skipped), [95, 96, 97, 98, 99]);
    assert_eq!(numbers(&server.query("search", &json!({}))).len(), 10, "the size of a page");
}

#[test]
fn fields_and_payloads_are_chosen() {
    let server = serve_sample(|_| ());
    let request = json!({ "query": "n = 4 or n = 7 order by n", "fields": ["tags", "n", "tags"],
                          "payload": true });
    let page = server.query("search", &request);
    let expected = json!([
        { "partition": "a", "doc": 4, "fields": { "tags": ["t0"], "n": 4 }, "payload": { "n": 4 } },
        { "partition": "a", "doc": 7, "fields": { "tags": ["t0"], "n": 7 }, "payload": "number 7" },
    ]);
    assert_eq!(page["hits"], expected);
    let none = server.query("search", &json!({ "query": "n = 4", "fields": [] }));
    assert_eq!(none["hits"], json!([{ "partition": "a", "doc": 4, "fields": {} }]));
    let detail = server.query_refused("search", &json!({ "fields": ["hidden"] }));
    assert!(detail.contains("field `hidden` cannot be read back"), "{detail}");
    assert!(server.query_refused("search", &json!({ "fields": ["nn"] })).contains("no field `nn`"));
}

#[test]
fn lines_are_those_of_the_command_line() {
    let server = serve_sample(|_| ());
    let send = |verb: &str, body: Json| {
        let url = server.url(&format!("/v1/collections/c:{verb}"));
        let request = server.client.post(url).header("accept", "application/x-ndjson");
        let response = request.json(&body).send().unwrap();
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        let text = response.text().unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Json>>()
    };
    let mut lines = send("search", json!({ "query": "n < 2 order by n", "count": true }));
    let mut summary = lines.pop().unwrap();
    assert!(summary["summary"]["elapsed_seconds"].take().is_f64());
    let expected = json!({ "documents": 2, "count": 2, "next": null, "elapsed_seconds": null });
    assert_eq!(summary["summary"], expected);
    let all = server.query("search", &json!({ "query": "n < 2 order by n" }));
    assert_eq!(Json::from(lines), all["hits"]);
    let facets = json!({ "by": ["city", "n"], "top": 1 });
    let lines = send("facets", facets.clone());
    assert_eq!(Json::from(lines), server.query("facets", &facets)["facets"]);
    let groups = json!({ "by": ["city"] });
    assert_eq!(Json::from(send("group", groups.clone())), server.query("group", &groups)["groups"]);
}

#[test]
fn arrow_streams_have_the_same_rows() {
    let server = serve_sample(|_| ());
    let send = |body: &Json| {
        let request = server.client.post(server.url("/v1/collections/c:search"));
        let request = request.header("accept", ARROW).header("accept-encoding", "zstd");
        request.json(body).send().unwrap()
    };
    let body = json!({ "where": { "field": "n", "gte": 5 }, "order": ["n"], "limit": 90,
                       "fields": ["n", "price", "city", "tags"], "payload": true, "count": true });
    let response = send(&body);
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], ARROW);
    assert_eq!(response.headers()["content-encoding"], "zstd");
    let bytes = zstd::stream::decode_all(&response.bytes().unwrap()[..]).unwrap();
    let reader = arrow_ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap();
    let schema = reader.schema();
    assert_eq!(schema.metadata()["firndb.count"], "95");
    let next = &schema.metadata()["firndb.next"];
    assert!(schema.metadata()["firndb.elapsed_seconds"].parse::<f64>().unwrap() > 0.0);
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["n", "price", "city", "tags", "payload"]);
    let mut n = 5;
    for batch in reader {
        let batch = batch.unwrap();
        let numbers = batch.column(0).as_primitive::<UInt64Type>();
        let prices = batch.column(1).as_primitive::<Float64Type>();
        let payloads = batch.column(4).as_binary::<i32>();
        for row in 0..batch.num_rows() {
            assert_eq!((numbers.value(row), prices.value(row)), (n, n as f64 / 4.0));
            if n % 2 == 1 {
                assert_eq!(payloads.value(row), format!("number {n}").as_bytes());
            }
            n += 1;
        }
    }
    assert_eq!(n, 95);
    let rest = server.query("search", &json!({ "query": "n >= 5 order by n", "after": next }));
    assert_eq!(numbers(&rest), [95, 96, 97, 98, 99]);
    // Without matches there is a schema; without a next page no token.
    let bytes = send(&json!({ "query": "n > 1000", "fields": ["n"] })).bytes().unwrap();
    let bytes = zstd::stream::decode_all(&bytes[..]).unwrap_or(bytes.to_vec());
    let mut reader = arrow_ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap();
    assert!(!reader.schema().metadata().contains_key("firndb.next"));
    assert!(reader.schema().field_with_name("n").is_ok() && reader.next().is_none());
}

#[test]
fn counts_facets_and_groups_are_exact() {
    let server = serve_sample(|_| ());
    assert_eq!(server.query("count", &json!({})), json!({ "count": 100 }));
    let oslo = json!({ "field": "city", "eq": "Oslo" });
    assert_eq!(server.query("count", &json!({ "where": oslo })), json!({ "count": 34 }));
    let url = server.url("/v1/collections/c:count");
    let request = server.client.post(&url).header("content-type", "text/plain; charset=utf-8");
    let counted: Json = request.body("city = 'Oslo' and n < 50").send().unwrap().json().unwrap();
    assert_eq!(counted, json!({ "count": 17 }));

    let request = json!({ "query": "city = 'Oslo'", "by": ["city", "tags"] });
    let facets = server.query("facets", &request)["facets"].take();
    let city = json!({ "field": "city", "values": [{ "value": "Oslo", "count": 34 }],
                       "distinct": 1, "missing": 0 });
    let tags = json!({ "field": "tags", "values": [], "distinct": 0, "missing": 34 });
    assert_eq!(facets, json!([city, tags]));
    let request = json!({ "where": oslo, "by": ["city"], "top": 1, "disjunctive": true });
    let facets = server.query("facets", &request)["facets"].take();
    assert_eq!(facets[0]["distinct"], 2);
    assert_eq!(facets[0]["values"].as_array().unwrap().len(), 1);

    let request = json!({ "by": ["city"], "aggregates": ["n"] });
    let groups = server.query("group", &request);
    assert_eq!(groups["total"], 3);
    let bergen = json!({ "key": { "city": "Bergen" }, "count": 33, "aggregates": { "n": {
        "count": 33, "min": 1, "max": 97, "sum": 1617, "avg": 49.0
    } } });
    assert!(groups["groups"].as_array().unwrap().contains(&bergen), "{groups}");
    let largest = server.query("group", &json!({ "by": ["city"], "top": 1 }));
    assert_eq!((&largest["total"], &largest["groups"][0]["count"]), (&json!(3), &json!(34)));
    assert_eq!(server.query("group", &json!({}))["groups"][0]["count"], 100);
}

#[test]
fn explain_reports_the_plan() {
    let server = serve_sample(|_| ());
    let explain = server.query("explain", &json!({ "query": "n < 30 order by n", "count": true }));
    assert_eq!((&explain["hits"], &explain["matches"]), (&json!(10), &json!(30)));
    assert!(explain["plan"][0].as_str().unwrap().starts_with("filter: "));
    assert_eq!(explain["partitions"], 2);
}

#[test]
fn the_facts_of_a_collection_have_its_schema() {
    let server = serve_sample(|_| ());
    let facts = server.client.get(server.url("/v1/collections/c")).send().unwrap();
    let facts: Json = facts.json().unwrap();
    assert_eq!((&facts["documents"], &facts["partitions"]), (&json!(100), &json!(2)));
    let part = &facts["partition_list"][1];
    assert_eq!((&part["name"], &part["documents"]), (&json!("b"), &json!(50)));
    let schema = firndb::search::Schema::from_toml(facts["schema"].as_str().unwrap()).unwrap();
    assert_eq!(schema.fields().len(), 5);
    let tags = json!({ "name": "tags", "type": "string", "filterable": true, "sortable": false,
                       "stored": true, "multi": true, "nullable": true });
    assert_eq!(facts["fields"][3], tags);
    assert_eq!((&facts["order"], &facts["dynamic"]), (&json!([]), &json!(false)));
}

#[test]
fn other_requests_are_refused() {
    let server = serve_sample(|_| ());
    let url = server.url("/v1/collections/c:search");
    let got = problem(server.client.get(&url).send().unwrap());
    assert_eq!(got["status"], 405);
    for kind in ["application/xml", "application/octet-stream"] {
        let other = server.client.post(&url).header("content-type", kind).body("{}");
        assert_eq!(problem(other.send().unwrap())["status"], 415);
    }
    // What curl says of every body is taken for JSON.
    let form = server.client.post(&url).form(&[("query", "n = 1")]).send().unwrap();
    assert_eq!(problem(form)["status"], 400);
    let facets = server.url("/v1/collections/c:facets");
    let text = server.client.post(facets).header("content-type", "text/plain").body("n = 1");
    assert_eq!(problem(text.send().unwrap())["status"], 415);
    let html = server.client.post(&url).header("accept", "text/html").json(&json!({}));
    assert_eq!(problem(html.send().unwrap())["status"], 406);
    let arrow = server.client.post(server.url("/v1/collections/c:count"));
    let arrow = arrow.header("accept", ARROW).json(&json!({}));
    assert_eq!(problem(arrow.send().unwrap())["status"], 406);
    for path in ["/v1/collections/d:search", "/v1/collections/c:mget", "/v1/logs/c:search"] {
        let missing = server.client.post(server.url(path)).json(&json!({})).send().unwrap();
        assert_eq!(problem(missing)["status"], 404, "{path}");
    }
}
