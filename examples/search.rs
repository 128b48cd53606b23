//! A collection: documents that are filtered, sorted, counted and grouped, here offers of rooms.
//!
//! `cargo run -p firndb --example search`

use firndb::search::query::{all, and, desc, eq, gt};
use firndb::search::{
    Collection, Document, Facet, Field, GroupBy, PartitionBuilder, Query, Roles, Schema, Type,
    parse_query,
};
use std::path::Path;

/// An offer: city, price and tags.
type Offer<'a> = (&'a str, f64, &'a [&'a str]);

const MONDAY: [Offer; 3] =
    [("Oslo", 90.0, &["sea", "new"]), ("Bergen", 70.0, &["sea"]), ("Oslo", 55.0, &[])];
const TUESDAY: [Offer; 2] = [("Bergen", 120.0, &["new"]), ("Voss", 40.0, &[])];

/// Runs the example in a temporary directory and removes it.
pub fn main() -> firndb::Result<()> {
    let dir = std::env::temp_dir().join(format!("firndb-example-search-{}", std::process::id()));
    let result = run(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    result
}

fn run(dir: &Path) -> firndb::Result<()> {
    // Roles say what a field is for. FULL is to filter, to sort and to read back.
    let schema = Schema::new([
        Field::new("city", Type::String, Roles::FULL),
        Field::new("price", Type::F64, Roles::FULL),
        Field::new("tags", Type::String, Roles::FILTERABLE.with(Roles::STORED)).multi(),
    ])?;

    // A partition for each day. All changes become visible at `commit`, and are durable then.
    let collection = Collection::create(dir)?; // `Collection::open` from the second time on
    let mut change = collection.change()?;
    change.put("monday", partition(&schema, &MONDAY)?)?;
    change.put("tuesday", partition(&schema, &TUESDAY)?)?;
    let reader = change.commit()?;
    println!("{} offers", reader.len());

    // A query as a text. Errors in it have the position and a suggestion.
    let query = parse_query("tags = 'sea' order by price", Some(reader.schema()))?;
    for hit in reader.search(&query)?.hits {
        println!("at the sea: {}", String::from_utf8_lossy(&reader.payload(hit)?));
    }

    // A query from functions, page by page. The count of all matches comes with the first page.
    let expensive = Query::new(gt("price", 50)).order_by(desc("price")).limit(3);
    let mut page = reader.search(&expensive.clone().with_count())?;
    println!("{} offers cost more than 50", page.count.unwrap_or(0));
    let mut prices = reader.field("price")?; // reads one field of many hits
    while let Some(&last) = page.hits.last() {
        for &hit in &page.hits {
            println!("- {}", prices.value(hit)?.expect("a field that is not nullable"));
        }
        let token = reader.page_token(&expensive, last)?;
        page = reader.search(&expensive.clone().after(token))?;
    }

    // Counts: of a condition, by value, and in groups with aggregates.
    println!("new in Oslo: {}", reader.count(&and([eq("city", "Oslo"), eq("tags", "new")]))?);
    for facet in reader.facets(&all(), &[Facet::new("city"), Facet::new("tags")])? {
        let counts = facet.values.iter().map(|(value, count)| format!("{value} {count}"));
        println!("by {}: {}", facet.field, counts.collect::<Vec<_>>().join(", "));
    }
    for group in reader.group_by(&all(), &GroupBy::new(["city"]).aggregates(["price"]))? {
        let city = group.key[0].as_ref().expect("a field that is not nullable");
        println!("average in {city}: {}", group.aggregates[0].avg.unwrap_or(f64::NAN));
    }

    // Replaces a partition. Readers keep the set of partitions that they have.
    let mut change = collection.change()?;
    change.put("monday", partition(&schema, &MONDAY[..1])?)?;
    change.commit()?;
    println!("before: {}, after: {}", reader.len(), collection.reader().len());
    Ok(())
}

fn partition(schema: &Schema, offers: &[Offer]) -> firndb::Result<PartitionBuilder> {
    let mut builder = PartitionBuilder::new(schema.clone());
    for (city, price, tags) in offers {
        let mut document = Document::new().set("city", *city).set("price", *price);
        tags.iter().for_each(|tag| document.push("tags", *tag));
        builder.add(&document.payload(format!("a room in {city} for {price}")))?;
    }
    Ok(builder)
}
