//! `firn log`: every command, end to end.

mod backup;
mod basic;
mod expiry;
mod files;
pub mod foreign;
mod halodb_dir;
mod import;
mod import_damage;
mod keys;
mod ordered;
mod upkeep;

use super::Sandbox;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The content of a store, through `dump`.
fn content(sandbox: &Sandbox, store: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let records = sandbox.firn(&format!("log dump {store} --hex")).ok().json();
    let bytes = |record: &Json, name: &str| {
        let digits = record[name].as_str().unwrap().as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.chunks(2).map(|pair| byte(pair).unwrap()).collect::<Vec<u8>>()
    };
    let count = records.len();
    let all: BTreeMap<_, _> =
        records.iter().map(|r| (bytes(r, "key_hex"), bytes(r, "value_hex"))).collect();
    assert_eq!(all.len(), count, "a key was dumped twice");
    all
}

/// Text records as `dump` writes them.
fn texts(sandbox: &Sandbox, store: &str) -> BTreeMap<String, String> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    content(sandbox, store).into_iter().map(|(key, value)| (text(key), text(value))).collect()
}

/// A store `s` with this many records.
fn filled(records: u64) -> Sandbox {
    let sandbox = Sandbox::new();
    let lines: String = (0..records).map(|n| format!("key-{n}\tvalue {n}\n")).collect();
    sandbox.firn_with("log load s", lines.as_bytes()).ok();
    sandbox
}
