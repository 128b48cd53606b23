//! A log store: keys and values that change all the time, here users, sessions and a counter.
//!
//! `cargo run -p firndb --example log`

use firndb::log::{Batch, LogStore, WriteOptions};
use std::path::Path;
use std::time::Duration;

/// Runs the example in a temporary directory and removes it.
pub fn main() -> firndb::Result<()> {
    let dir = std::env::temp_dir().join(format!("firndb-example-log-{}", std::process::id()));
    let result = run(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    result
}

fn run(dir: &Path) -> firndb::Result<()> {
    // Opens the store, or creates it. One process at a time has it open for writing.
    let store = LogStore::open(dir)?;

    // Keys and values are bytes. A put survives a crash of the process as soon as it returns.
    store.put("user/1", "Ann")?;
    store.put("user/2", "Bob")?;
    println!("user/1: {}", text(store.get("user/1")?));
    println!("user/9: {}", text(store.get("user/9")?));

    // A batch is applied as a whole or not at all. `sync` makes it survive power loss as well.
    let batch = Batch::new().put("user/3", "Eve").delete("user/2");
    store.write_with(&batch, WriteOptions::sync())?;
    println!("users after the batch: {}", store.len());

    // An update is atomic, so threads can increment one counter.
    std::thread::scope(|scope| {
        let visitors: Vec<_> = (0..4).map(|_| scope.spawn(|| visit(&store, 100))).collect();
        visitors.into_iter().try_for_each(|visitor| visitor.join().expect("no panic"))
    })?;
    println!("visits: {}", text(store.get("visits")?));

    // After its time to live, a record counts as deleted.
    let hour = WriteOptions::new().ttl(Duration::from_secs(3600));
    store.put_with("session/7", "user/1", hour)?;

    // A snapshot shows the store as it was at one moment, whatever is written later.
    let snapshot = store.snapshot();
    store.delete("session/7")?;
    println!("session/7 in the snapshot: {}", text(snapshot.get("session/7")?));
    println!("session/7 in the store: {}", text(store.get("session/7")?));

    // Iteration is in the order of the log, not of the keys.
    let mut keys = Vec::new();
    for record in snapshot.iter() {
        let (key, _value) = record?;
        keys.push(String::from_utf8_lossy(&key).into_owned());
    }
    keys.sort();
    println!("keys in the snapshot: {}", keys.join(" "));

    // Makes everything durable. Dropping the store does this too, but cannot report an error.
    store.close()?;

    // What another process would do, also while the first one has the store open for writing.
    let reader = LogStore::open_read_only(dir)?;
    println!("keys that a reader sees: {}", reader.len());
    println!("written since: {}", reader.refresh()?); // shows later writes; call it now and then
    Ok(())
}

/// Increments the counter `n` times. The closure may be called again if another thread was faster.
fn visit(store: &LogStore, n: u64) -> firndb::Result<()> {
    for _ in 0..n {
        store.update("visits", |old| {
            let old = old.and_then(|old| std::str::from_utf8(old).ok()?.parse().ok());
            let count: u64 = old.unwrap_or(0); // `None`: the key is absent
            Some((count + 1).to_string().into_bytes())
        })?;
    }
    Ok(())
}

fn text(value: Option<Vec<u8>>) -> String {
    value.map_or("(absent)".into(), |value| String::from_utf8_lossy(&value).into_owned())
}
