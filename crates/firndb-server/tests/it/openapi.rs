//! The OpenAPI document, checked by schemathesis: it sends what the document allows, and what it
//! does not allow, and compares the answers with it.

use crate::packages::{pip, run};
use crate::support::{Dir, TestServer};
use firndb::search::{Collection, Document, Field, PartitionBuilder, Roles, Schema, Type};
use firndb::table::TableBuilder;
use firndb_server::config::{CollectionOptions, Config, LogOptions, TableOptions};
use firndb_testing::skipped;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "schemathesis==4.32.5";

/// A server with a store `s` of one kind: the log store, the table, or the collection.
fn server(kind: &str) -> TestServer {
    let dir = Dir::new();
    let mut config = Config::default();
    let path = dir.path().join("store");
    let name = "s".to_string();
    match kind {
        "logs" => {
            let options = LogOptions { path, create: true, ..LogOptions::default() };
            config.logs.insert(name, options);
        }
        "tables" => {
            let mut table = TableBuilder::create(&path).unwrap();
            table.add("ann", "1").unwrap();
            table.finish().unwrap();
            config.tables.insert(name, TableOptions { path, ..TableOptions::default() });
        }
        _ => {
            let schema = Schema::new([
                Field::new("country", Type::String, Roles::FULL),
                Field::new("people", Type::I64, Roles::FULL),
            ]);
            let mut builder = PartitionBuilder::new(schema.unwrap());
            builder.add(&Document::new().set("country", "NO").set("people", 709_000)).unwrap();
            let collection = Collection::create(&path).unwrap();
            let mut change = collection.change().unwrap();
            change.put("p", builder).unwrap();
            change.commit().unwrap();
            let options = CollectionOptions { path, refresh_seconds: 1.0 };
            config.collections.insert(name, options);
        }
    }
    TestServer::start(dir, config)
}

/// Runs schemathesis against the paths that match a pattern.
fn check(environment: &Path, server: &TestServer, pattern: &str, config: &str) {
    let file: PathBuf = server.dir.path().join("schemathesis.toml");
    fs::write(&file, config).unwrap();
    let mut command = Command::new(environment.join("bin/schemathesis"));
    command.arg("--config-file").arg(&file).args(["run", &server.url("/openapi.json")]);
    command.args(["--include-path-regex", pattern]);
    // These write into any directory of the machine.
    command.args(["--exclude-operation-id", "add_store", "--exclude-operation-id", "backup_logs"]);
    command.args(["--phases", "examples,coverage,fuzzing", "--max-examples", "20"]);
    command.args(["--seed", "1", "--generation-database", "none", "--no-color"]);
    command.current_dir(server.dir.path());
    run(&mut command).unwrap_or_else(|found| panic!("{found}"));
}

#[test]
fn schemathesis_finds_nothing() {
    let environment = match pip("schemathesis", PACKAGE) {
        Ok(environment) => environment,
        Err(why) => return skipped("schemathesis_finds_nothing", why),
    };
    // Stores that do not exist.
    check(&environment, &server("logs"), ".", "");
    // A store that does. Only the server knows which queries, cursors and tags are valid for it.
    let statuses = "[\"2xx\", \"3xx\", 400, 404, 409, 410, 412, 423, 503]";
    let config = format!(
        "[parameters]\n\"path.store\" = \"s\"\n\
         [checks.positive_data_acceptance]\nexpected-statuses = {statuses}\n"
    );
    for kind in ["logs", "tables", "collections"] {
        check(&environment, &server(kind), &format!("^/v1/{kind}/[^/]*[:/]"), &config);
    }
}
