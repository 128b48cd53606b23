//! A catalog: one program publishes versions, others switch to them while they answer queries.
//!
//! `cargo run -p firndb --example catalog`

use firndb::catalog::{Catalog, CleanOptions, PublishOptions, ReaderOptions};
use firndb::table::TableBuilder;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// Runs the example in a temporary directory and removes it.
pub fn main() -> firndb::Result<()> {
    let dir = std::env::temp_dir().join(format!("firndb-example-catalog-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory can be created");
    let result = run(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    result
}

fn run(dir: &Path) -> firndb::Result<()> {
    // The publisher. A catalog can also be in S3, HDFS or behind HTTP: see crate `firndb-remote`.
    let catalog = Catalog::create(dir.join("catalog"))?;
    let table = build(&dir.join("monday.table"), &[("Oslo", "cold"), ("Bergen", "rain")])?;
    let published = catalog.publish("weather", table, &PublishOptions::default())?;
    println!("published version {}", published.version.number);

    // A reader, usually in another process or on another machine. It keeps the version that it
    // serves in a cache directory of its own.
    let reader = catalog.reader("weather", dir.join("cache"), ReaderOptions::default())?;

    // `current` is one version for as long as it is held, and never waits.
    let monday = reader.current();
    println!("Oslo on Monday: {}", text(monday.table()?.get("Oslo")?.as_deref()));

    // A thread looks for newer versions. Calls of `reader.refresh()` do the same.
    let (sender, switched) = mpsc::channel();
    let watch = reader.watch(Duration::from_millis(20), move |outcome| match outcome {
        Ok(newer) => sender.send(newer.version().number).unwrap_or(()),
        Err(error) => eprintln!("{error}; the open version stays in use"),
    });

    // The next version. Publishing again costs only what is new.
    let table = build(&dir.join("tuesday.table"), &[("Oslo", "mild"), ("Bergen", "rain")])?;
    catalog.publish("weather", table, &PublishOptions::default())?;
    let number = switched.recv_timeout(Duration::from_secs(30)).expect("the reader switches");
    println!("the reader switched to version {number}");
    println!("Oslo on Tuesday: {}", text(reader.current().table()?.get("Oslo")?.as_deref()));
    println!("Oslo on Monday, still: {}", text(monday.table()?.get("Oslo")?.as_deref()));
    drop(watch); // stops the thread

    // The history: publish an old version again, keep a version, remove the others.
    let back = catalog.rollback("weather", 1, &PublishOptions::default())?;
    println!("version {} has the files of version 1", back.version.number);
    catalog.pin("weather", 2, "for the audit")?;
    let options = CleanOptions::new().keep(1).grace(Duration::ZERO);
    let cleaned = catalog.clean("weather", &options)?;
    println!("removed {:?}, left {:?}", cleaned.versions, catalog.versions("weather")?);
    Ok(())
}

fn build(path: &Path, records: &[(&str, &str)]) -> firndb::Result<PathBuf> {
    let mut builder = TableBuilder::create(path)?;
    for (city, weather) in records {
        builder.add(city, weather)?;
    }
    builder.finish()?;
    Ok(path.to_path_buf())
}

fn text(value: Option<&[u8]>) -> String {
    value.map_or("(absent)".into(), |value| String::from_utf8_lossy(value).into_owned())
}
