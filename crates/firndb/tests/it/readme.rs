//! The example of README.md, compiled and run unchanged.

use super::TestDir;
use firndb::search::{
    Collection, Document, Field, PartitionBuilder, Roles, Schema, Type, parse_query,
};
use std::path::Path;

/// Runs the example. Returns the lines that it prints.
fn example(dir: &Path) -> firndb::Result<Vec<String>> {
    let mut printed = Vec::new();
    macro_rules! println {
        ($($arg:tt)*) => { printed.push(format!($($arg)*)) };
    }
    // Up to the end mark, the lines are those of README.md.
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
    // End.
    Ok(printed)
}

/// The lines between two lines, without indentation.
fn between<'a>(text: &'a str, first: &str, end: &str) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim);
    lines.skip_while(|line| *line != first).skip(1).take_while(|line| *line != end).collect()
}

#[test]
fn the_example_of_the_readme_works() {
    let readme = between(include_str!("../../../../README.md"), "```rust,ignore", "```");
    let here = between(
        include_str!("readme.rs"),
        "// Up to the end mark, the lines are those of README.md.",
        "// End.",
    );
    assert_eq!(here, readme, "copy the example of README.md into readme.rs");
    let temp = TestDir::new();
    let printed = example(&temp.path("rooms")).unwrap();
    assert_eq!(printed, ["a room in Oslo for 7", "a room in Oslo for 12.5"]);
}
