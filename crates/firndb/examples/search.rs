//! Builds a collection of one partition and asks it a question: the example of README.md.

use firndb::search::{
    Collection, Document, Field, PartitionBuilder, Roles, Schema, Type, parse_query,
};

fn main() -> firndb::Result<()> {
    let dir = std::env::temp_dir().join(format!("firndb-example-{}", std::process::id()));
    let result = offers(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    result
}

fn offers(dir: &std::path::Path) -> firndb::Result<()> {
    let city = Field::new("city", Type::String, Roles::FILTERABLE);
    let price = Field::new("price", Type::F64, Roles::FULL);
    let mut builder = PartitionBuilder::new(Schema::new([city, price])?);
    for (city, price) in [("Oslo", 12.5), ("Bergen", 9.0), ("Oslo", 7.0)] {
        let document = Document::new().set("city", city).set("price", price);
        builder.add(&document.payload(format!("a room in {city} for {price}")))?;
    }
    let collection = Collection::create(dir)?;
    let mut change = collection.change()?;
    change.put("rooms", builder)?;
    let reader = change.commit()?; // all of the change becomes visible, or nothing

    let query = parse_query("city = 'Oslo' order by price limit 10", Some(reader.schema()))?;
    for hit in reader.search(&query)?.hits {
        println!("{}", String::from_utf8_lossy(&reader.payload(hit)?));
    }
    Ok(())
}

#[test]
fn the_example_runs() -> firndb::Result<()> {
    main()
}
