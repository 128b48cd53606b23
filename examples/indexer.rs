//! An indexer: feeds of documents go in, and only the partitions that changed are rebuilt.
//!
//! `cargo run -p firndb --example indexer`

use firndb::indexer::{Applied, Indexer, Options, Partitioning};
use firndb::search::query::{all, eq};
use firndb::search::{Collection, Document, Field, Roles, Schema, Type};
use std::path::Path;

/// A car of a dealer: key, mark and price.
type Car = (&'static str, &'static str, u64);

/// Runs the example in a temporary directory and removes it.
pub fn main() -> firndb::Result<()> {
    let dir = std::env::temp_dir().join(format!("firndb-example-indexer-{}", std::process::id()));
    let result = run(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    result
}

fn run(dir: &Path) -> firndb::Result<()> {
    let schema = Schema::new([
        Field::new("mark", Type::String, Roles::FULL),
        Field::new("price", Type::U64, Roles::FULL),
    ])?;
    // A partition for each mark. `by_hash(64)` divides by the key instead.
    let by_mark = Partitioning::by_field("mark");
    let mut index = Indexer::open(dir, schema, by_mark, Options::default())?;

    // A feed is everything that a source has, by key. Applying it is atomic and durable.
    let first = [("a1", "Volvo", 9_000), ("a2", "Saab", 4_000), ("a3", "Saab", 5_000)];
    report(&index.apply("dealer", documents(&first))?);

    // Readers see the documents after `publish`.
    let published = index.publish()?;
    println!("published {:?}", published.rebuilt);
    println!("Saabs: {}", index.collection().reader().count(&eq("mark", "Saab"))?);

    // The next version of the feed. Compared with the first, a2 has a new price, a3 is gone and a4
    // is new.
    let second = [("a1", "Volvo", 9_000), ("a2", "Saab", 3_500), ("a4", "Saab", 6_000)];
    report(&index.apply("dealer", documents(&second))?);
    println!("rebuilt {:?}", index.publish()?.rebuilt); // not Volvo: nothing changed there

    // Single changes, and a second source.
    index.upsert("private", "p1", &document("Volvo", 2_000))?;
    index.delete("dealer", "a4")?;
    println!("not published yet: {:?}", index.status()?.dirty);
    index.publish()?;

    // What other processes do: they open the collection and refresh it now and then.
    let collection = Collection::open(dir.join("collection"))?;
    println!("a reader sees {} documents", collection.reader().count(&all())?);

    // An index remembers its schema and partitioning.
    index.close()?;
    let index = Indexer::open_existing(dir, Options::default())?;
    for (source, documents) in index.status()?.sources {
        println!("documents of {source}: {documents}");
    }
    index.close()
}

/// The documents of a feed. An item may be an error, for example of the file that is read: then the
/// feed is dropped as a whole.
fn documents(cars: &[Car]) -> impl Iterator<Item = firndb::Result<(&'static str, Document)>> {
    cars.iter().map(|&(key, mark, price)| Ok((key, document(mark, price))))
}

fn document(mark: &str, price: u64) -> Document {
    Document::new().set("mark", mark).set("price", price).payload(format!("{mark} for {price}"))
}

fn report(applied: &Applied) {
    let Applied { added, updated, removed, unchanged, .. } = applied;
    println!("{added} added, {updated} updated, {removed} removed, {unchanged} unchanged");
}
