//! A table: keys and values that are built in one go and then only read, here airports by code.
//!
//! `cargo run -p firndb --example table`

use firndb::ErrorKind;
use firndb::table::{BuildOptions, Duplicates, KeyFilter, Table, TableBuilder};
use std::path::Path;

const AIRPORTS: [(&str, &str); 4] =
    [("OSL", "Oslo"), ("BGO", "Bergen"), ("TRD", "Trondheim"), ("TOS", "Tromsoe")];

/// Runs the example in a temporary directory and removes it.
pub fn main() -> firndb::Result<()> {
    let dir = std::env::temp_dir().join(format!("firndb-example-table-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory can be created");
    let result = run(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    result
}

fn run(dir: &Path) -> firndb::Result<()> {
    let path = dir.join("airports.table");

    // With a filter, gets of most absent keys read nothing. The last record of a key is kept; the
    // default is to refuse duplicates.
    let options = BuildOptions::new()
        .filter(KeyFilter::Bits8)
        .duplicates(Duplicates::Last)
        .metadata("airports of Norway");
    let mut builder = TableBuilder::create_with(&path, options)?;
    for (code, city) in AIRPORTS {
        builder.add(code, city)?; // in any order
    }
    builder.add("TOS", "Tromso")?;

    // Nothing is visible under the path before `finish`. Once it returns, the table is durable.
    let report = builder.finish()?;
    println!("built {} records, dropped {} duplicate", report.records, report.duplicates);

    // Opening reads no records. Threads share a table by reference or in an `Arc`.
    let table = Table::open(&path)?;
    println!("{} records: {}", table.len(), String::from_utf8_lossy(table.metadata()?));

    // A get reads one block. The value is borrowed from the table if it is in memory.
    if let Some(city) = table.get("OSL")? {
        println!("OSL is {}", String::from_utf8_lossy(&city));
    }
    println!("LHR exists: {}", table.contains("LHR")?);

    // Many gets at once take less time per key than one by one. Values come in the order of keys.
    let keys = ["TOS", "LHR", "BGO"];
    for (key, value) in keys.iter().zip(table.get_many(&keys)?) {
        let city = value.map(|city| String::from_utf8_lossy(&city).into_owned());
        println!("{key} is {}", city.as_deref().unwrap_or("(absent)"));
    }

    // All records, in the order of the hashes of their keys. The result of an item is an error if
    // its block is damaged.
    let bytes = table.iter().try_fold(0, |sum, record| {
        let (key, value) = record?;
        Ok::<_, firndb::Error>(sum + key.len() + value.len())
    })?;
    println!("{bytes} bytes of keys and values");

    // A new table under the same path replaces the file. The open table keeps the old one.
    let mut builder = TableBuilder::create(&path)?;
    builder.add("OSL", "Oslo Gardermoen")?;
    builder.finish()?;
    println!("open: {} records, new: {}", table.len(), Table::open(&path)?.len());

    // Branch on the kind of an error, never on its text.
    match Table::open(dir.join("missing.table")) {
        Err(error) if error.kind() == ErrorKind::NotFound => println!("no other table here"),
        other => println!("{} records", other?.len()),
    }
    Ok(())
}
