//! Administration.

use crate::support::{Dir, TestServer};
use crate::tables::{self, answer, records, server};
use firndb::catalog::{Catalog, PublishOptions};
use firndb::log::LogStore;
use firndb::search::{Collection, Document, Field, PartitionBuilder, Roles, Schema, Type};
use firndb::table::BuildOptions;
use firndb_server::app::ADMINISTERING;
use firndb_server::auth::Role;
use firndb_server::config::TokenSource;
use reqwest::StatusCode;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

impl TestServer {
    fn delete(&self, path: &str) -> (StatusCode, Json) {
        answer(self.client.delete(self.url(path)).send().unwrap())
    }

    fn add(&self, store: &Json) -> (StatusCode, Json) {
        self.post("/v1/stores", &store.to_string())
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }
}

/// A collection of `partitions` partitions with one document each.
fn build_collection(dir: &Path, partitions: usize) {
    let schema = Schema::new([Field::new("name", Type::String, Roles::FULL)]).unwrap();
    let collection = Collection::create(dir).unwrap();
    let mut change = collection.change().unwrap();
    for i in 0..partitions {
        let mut builder = PartitionBuilder::new(schema.clone());
        builder.add(&Document::new().set("name", format!("n{i}").as_str())).unwrap();
        change.put(&format!("p{i}"), builder).unwrap();
    }
    change.commit().unwrap();
}

#[test]
fn stores_are_verified() {
    let server = server(|_| ());
    server.put("k", "v");
    let verify = |store: &str| server.post(&format!("/v1/{store}:verify"), "{}");
    let (status, log) = verify("logs/log");
    assert_eq!((status, &log["records"]), (StatusCode::OK, &json!(1)));
    let (_, table) = verify("tables/plain");
    assert_eq!((&table["files"], &table["records"]), (&json!(1), &json!(1002)));
    assert!(table["bytes"].as_u64().unwrap() > 10_000);
    assert_eq!(verify("tables/sharded").1["files"], tables::SHARDS);
    assert_eq!(verify("tables/approximate").0, StatusCode::OK);
    assert_eq!(verify("tables/none").0, StatusCode::NOT_FOUND);
    let (status, _) = server.post("/v1/tables/plain:verify", r#"{"deep":true}"#);
    assert_eq!(status, StatusCode::BAD_REQUEST);
    // Damage is found, and the store continues to serve what is intact.
    let path = server.path("plain.table");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(8).position(|window| window == b"value 77").unwrap();
    bytes[at] ^= 1;
    let damaged = server.path("damaged.table");
    std::fs::write(&damaged, bytes).unwrap();
    let store = json!({"name": "damaged", "kind": "table", "path": damaged});
    assert_eq!(server.add(&store).0, StatusCode::CREATED);
    let (status, problem) = server.post("/v1/tables/damaged:verify", "");
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(problem["kind"], "corrupt");
    assert!(!problem.to_string().contains("damaged.table"), "no paths of the server: {problem}");
    let (status, _) = server.post("/v1/tables/damaged:scan", "");
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
}

#[test]
fn a_log_store_is_backed_up_and_compacted() {
    let server = server(|_| ());
    (0..100).for_each(|n| server.put("k", &format!("v{n}")));
    let to = server.path("backup");
    let backup = |to: &str| server.post("/v1/logs/log:backup", &json!({ "to": to }).to_string());
    let (status, facts) = backup(&to);
    assert_eq!((status, &facts["kept"]), (StatusCode::OK, &json!(0)));
    assert_eq!(backup(&to).0, StatusCode::OK, "a backup is updated");
    let restored = LogStore::open_read_only(&to).unwrap();
    assert_eq!(restored.get("k").unwrap().unwrap(), b"v99");
    let foreign = server.path("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(server.dir.path().join("foreign/notes.txt"), "mine").unwrap();
    let (status, problem) = backup(&foreign);
    assert_eq!((status, &problem["kind"]), (StatusCode::CONFLICT, &json!("already_exists")));
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1, "nothing is changed");
    assert_eq!(backup(&server.path("log/inside")).0, StatusCode::CONFLICT);
    for body in ["", "{}", r#"{"to":"relative"}"#, r#"{"to":1}"#, r#"{"to":"/x","from":"/y"}"#] {
        assert_eq!(server.post("/v1/logs/log:backup", body).0, StatusCode::BAD_REQUEST, "{body}");
    }
    let compact = |body: &str| server.post("/v1/logs/log:compact", body);
    let (status, facts) = compact(r#"{"threshold":0}"#);
    assert!(status == StatusCode::OK && facts["segments"].is_u64(), "{facts}");
    assert_eq!(compact("").0, StatusCode::OK);
    for body in
        [r#"{"threshold":-0.1}"#, r#"{"threshold":1.1}"#, r#"{"threshold":"0"}"#, r#"{"x":1}"#]
    {
        assert_eq!(compact(body).0, StatusCode::BAD_REQUEST, "{body}");
    }
    assert_eq!(server.get("/v1/logs/log/keys/k").1, b"v99");
}

#[test]
fn a_collection_is_compacted() {
    let server = server(|_| ());
    build_collection(&server.dir.path().join("docs"), 6);
    let store = json!({"name": "docs", "kind": "collection", "path": server.path("docs")});
    assert_eq!(
        server.add(&store),
        (StatusCode::CREATED, json!({"name": "docs", "kind": "collection"}))
    );
    let compact = |body: &str| server.post("/v1/collections/docs:compact", body);
    assert_eq!(compact("").1, json!({"merges": []}), "the partitions are new");
    let (status, facts) = compact(r#"{"unchanged_seconds":0}"#);
    assert_eq!(status, StatusCode::OK);
    assert_eq!(facts["merges"][0]["documents"], 6, "{facts}");
    assert_eq!(server.post("/v1/collections/docs:verify", "").1["records"], 6);
    for body in [r#"{"unchanged_seconds":-1}"#, r#"{"threshold":0.1}"#, r#"{"small":-1}"#] {
        assert_eq!(compact(body).0, StatusCode::BAD_REQUEST, "{body}");
    }
}

#[test]
fn stores_of_each_kind_are_added_and_removed() {
    let cache = Dir::new();
    let server = server(|config| config.cache = Some(cache.path().to_path_buf()));
    let dir = server.dir.path();
    tables::build(&dir.join("new.table"), BuildOptions::new(), &records(10));
    build_collection(&dir.join("docs"), 1);
    let catalog = Catalog::create(dir.join("catalog")).unwrap();
    catalog.publish("t", dir.join("new.table"), &PublishOptions::new()).unwrap();
    for (path, store) in [
        (
            "logs/new-log",
            json!({"kind": "log", "path": server.path("new"), "create": true, "sync": true}),
        ),
        (
            "tables/new-table",
            json!({"kind": "table", "path": server.path("new.table"), "access": "resident"}),
        ),
        ("tables/new-shards", json!({"kind": "table", "path": server.path("sharded")})),
        (
            "collections/docs",
            json!({"kind": "collection", "path": server.path("docs"), "refresh_seconds": 5}),
        ),
        (
            "tables/published",
            json!({"kind": "catalog", "place": server.path("catalog"), "entry": "t"}),
        ),
    ] {
        let mut store = store;
        let (kind, name) = path.split_once('/').unwrap();
        store["name"] = name.into();
        for _ in 0..2 {
            let response = server.post_with("/v1/stores", store.to_string(), &[]);
            let location = response.headers().get("location").cloned();
            let (status, body) = answer(response);
            assert_eq!(status, StatusCode::CREATED, "{path}: {body}");
            assert_eq!(location.unwrap(), format!("/v1/{path}").as_str());
            assert_eq!(body["name"], name);
            assert_eq!(server.get(&format!("/v1/{path}")).0, StatusCode::OK);
            let (status, problem) = server.add(&store);
            assert_eq!(
                (status, &problem["kind"]),
                (StatusCode::CONFLICT, &json!("already_exists"))
            );
            let other = if kind == "logs" { "tables" } else { "logs" };
            assert_eq!(server.delete(&format!("/v1/{other}/{name}")).0, StatusCode::NOT_FOUND);
            assert_eq!(server.delete(&format!("/v1/{path}")), (StatusCode::NO_CONTENT, Json::Null));
            assert_eq!(server.get(&format!("/v1/{path}")).0, StatusCode::NOT_FOUND);
            assert_eq!(server.delete(&format!("/v1/{path}")).0, StatusCode::NOT_FOUND);
        }
    }
    let (_, all) = server.get("/v1/stores");
    let all: Json = serde_json::from_slice(&all).unwrap();
    assert_eq!(all["stores"].as_array().unwrap().len(), 5, "those of the options: {all}");
    assert!(dir.join("new.table").exists() && dir.join("new").exists(), "files stay");
}

#[test]
fn a_store_that_cannot_be_added_is_refused() {
    let server = server(|_| ());
    let log = server.path("log");
    let (status, problem) = server.add(&json!({"name": "again", "kind": "log", "path": log}));
    assert_eq!((status, &problem["kind"]), (StatusCode::LOCKED, &json!("locked")), "{problem}");
    let read = json!({"name": "again", "kind": "log", "path": log, "read_only": true});
    assert_eq!(server.add(&read).0, StatusCode::CREATED);
    for (store, status) in [
        (json!({"name": "x", "kind": "log", "path": server.path("none")}), StatusCode::NOT_FOUND),
        (json!({"name": "x", "kind": "table", "path": server.path("none")}), StatusCode::NOT_FOUND),
        (json!({"name": "x", "kind": "table", "path": log}), StatusCode::BAD_REQUEST),
        (json!({"name": "x", "kind": "table", "path": "plain.table"}), StatusCode::BAD_REQUEST),
        (json!({"name": "x", "kind": "table"}), StatusCode::BAD_REQUEST),
        (json!({"name": "x", "kind": "index", "path": log}), StatusCode::BAD_REQUEST),
        (json!({"name": "../x", "kind": "log", "path": log}), StatusCode::BAD_REQUEST),
        (json!({"name": "", "kind": "log", "path": log}), StatusCode::BAD_REQUEST),
        (
            json!({"name": "x", "kind": "log", "path": log, "access": "map"}),
            StatusCode::BAD_REQUEST,
        ),
        (json!({"name": "x", "kind": "table", "path": log, "place": "/"}), StatusCode::BAD_REQUEST),
        (json!({"name": "x", "kind": "log", "path": log, "durable": 1}), StatusCode::BAD_REQUEST),
        (json!({"name": "x", "kind": "catalog", "place": log}), StatusCode::BAD_REQUEST),
        (json!({"kind": "log", "path": log}), StatusCode::BAD_REQUEST),
        (json!([]), StatusCode::BAD_REQUEST),
        (json!({"name": "plain", "kind": "log", "path": log}), StatusCode::CONFLICT),
    ] {
        let (found, problem) = server.add(&store);
        assert_eq!(found, status, "{store}: {problem}");
    }
    assert_eq!(server.get("/v1/tables/x").0, StatusCode::NOT_FOUND);
}

/// Requests that have begun are completed, and later ones are refused; nothing that was
/// acknowledged is lost.
#[test]
fn a_store_is_removed_while_it_is_used() {
    let server = server(|_| ());
    let path = server.path("busy");
    let store = json!({"name": "busy", "kind": "log", "path": path, "create": true});
    assert_eq!(server.add(&store).0, StatusCode::CREATED);
    let is_removed = AtomicBool::new(false);
    let (began, begins) = mpsc::channel();
    let url = server.url("/v1/logs/busy");
    let writer = |thread: usize| {
        let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
        let mut acknowledged = Vec::new();
        for n in 0.. {
            let was_removed = is_removed.load(Ordering::SeqCst);
            let key = format!("{thread}-{n}");
            let put = client.put(format!("{url}/keys/{key}")).body("v").send().unwrap().status();
            let get = client.get(format!("{url}/keys/{key}")).send().unwrap().status();
            let body = json!({"put": [{"key": format!("m{key}"), "value": "v"}]}).to_string();
            let mput = client.post(format!("{url}:mput")).body(body).send().unwrap().status();
            for status in [put, get, mput] {
                assert!(status.is_success() || status == StatusCode::NOT_FOUND, "{status}");
            }
            acknowledged.extend(put.is_success().then(|| key.clone()));
            acknowledged.extend(mput.is_success().then(|| format!("m{key}")));
            let _ = began.send(()); // Nobody listens after the first.
            if was_removed {
                assert_eq!([put, get, mput], [StatusCode::NOT_FOUND; 3]);
                return acknowledged;
            }
        }
        unreachable!()
    };
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let writer = &writer;
        let writers: Vec<_> = (0..3).map(|i| scope.spawn(move || writer(i))).collect();
        (0..30).for_each(|_| begins.recv().unwrap());
        assert_eq!(server.delete("/v1/logs/busy").0, StatusCode::NO_CONTENT);
        // It is closed when the removal is answered.
        drop(LogStore::open(&path).unwrap());
        is_removed.store(true, Ordering::SeqCst);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let store = LogStore::open(&path).unwrap();
    assert!(acknowledged.len() >= 60);
    for key in acknowledged {
        assert!(store.contains(&key).unwrap(), "{key} is lost");
    }
}

#[test]
fn few_tasks_of_administration_run_at_a_time() {
    let server = server(|_| ());
    let app = server.server.as_ref().unwrap().app().clone();
    let (release, held) = mpsc::channel::<()>();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let tasks: Vec<_> = (0..ADMINISTERING)
        .map(|_| {
            let (app, held) = (app.clone(), held.clone());
            let (started, starts) = mpsc::channel();
            let task = server.runtime.spawn(async move {
                let work = move || {
                    started.send(()).unwrap();
                    let _ = held.lock().unwrap().recv(); // Ends when the test releases it.
                    Ok(())
                };
                app.administer(work).await
            });
            starts.recv().unwrap();
            task
        })
        .collect();
    let (status, problem) = server.post("/v1/tables/plain:verify", "");
    assert_eq!((status, &problem["kind"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("failed")));
    assert_eq!(server.get("/v1/tables/plain/keys/key%201").0, StatusCode::OK);
    release.send(()).unwrap();
    drop(release);
    for task in tasks {
        server.runtime.block_on(task).unwrap().unwrap();
    }
    assert_eq!(server.post("/v1/tables/plain:verify", "").0, StatusCode::OK);
}

#[test]
fn requests_need_roles() {
    let tokens = Dir::new();
    let roles = [Role::Read, Role::Write, Role::Admin];
    let token = |role: Role| format!("token-of-the-role-{}", role.name());
    let server = server(|config| {
        config.http.bsdb_prefix = Some("/bsdb/".to_string());
        config.http.bsdb_store = Some("plain".to_string());
        for role in roles {
            let file = tokens.path().join(role.name());
            std::fs::write(&file, token(role)).unwrap();
            config.auth.tokens.push(TokenSource { role, file: Some(file), env: None });
        }
    });
    for (needed, method, path) in [
        (Role::Read, "GET", "/v1/tables/plain/keys/key%201"),
        (Role::Read, "GET", "/bsdb/key%201"),
        (Role::Read, "POST", "/bsdb/key%201"),
        (Role::Read, "POST", "/v1/logs/log:scan"),
        (Role::Read, "HEAD", "/v1/stores"),
        (Role::Write, "PUT", "/v1/logs/log/keys/k"),
        (Role::Write, "DELETE", "/v1/logs/log/keys/k"),
        (Role::Write, "POST", "/v1/logs/log:mput"),
        (Role::Admin, "POST", "/v1/logs/log:verify"),
        (Role::Admin, "POST", "/v1/logs/log:compact"),
        (Role::Admin, "POST", "/v1/logs/log:backup"),
        (Role::Admin, "POST", "/v1/stores"),
        (Role::Admin, "DELETE", "/v1/tables/plain"),
    ] {
        let send = |token: Option<String>| {
            let request = server.client.request(method.parse().unwrap(), server.url(path));
            // Without what a backup and a new store need, these change nothing.
            let request = request.body("{}");
            let request = match token {
                Some(token) => request.bearer_auth(token),
                None => request,
            };
            request.send().unwrap().status()
        };
        assert_eq!(send(None), StatusCode::UNAUTHORIZED, "{method} {path}");
        assert_eq!(send(Some("x".repeat(20))), StatusCode::UNAUTHORIZED, "{method} {path}");
        for role in roles {
            let allowed = send(Some(token(role))) != StatusCode::FORBIDDEN;
            assert_eq!(allowed, role >= needed, "{method} {path} {role:?}");
        }
    }
}
