//! The programs in the folder `examples` of the repository: each runs and prints what
//! `examples/README.md` shows.
//!
//! They are modules of this program because Cargo does not build examples for a single test.

use std::fmt::Write;
use std::sync::Mutex;

static PRINTED: Mutex<String> = Mutex::new(String::new());

/// Replaces the macro of the standard library in the modules below.
macro_rules! println {
    ($($arg:tt)*) => {
        super::print(format_args!($($arg)*))
    };
}

fn print(line: std::fmt::Arguments) {
    writeln!(PRINTED.lock().unwrap(), "{line}").unwrap();
}

#[path = "../../../../examples/catalog.rs"]
mod catalog;
#[path = "../../../../examples/indexer.rs"]
mod indexer;
#[path = "../../../../examples/log.rs"]
mod log;
#[path = "../../../../examples/search.rs"]
mod search;
#[path = "../../../../examples/table.rs"]
mod table;

type Program = fn() -> firndb::Result<()>;

#[test]
fn the_examples_print_what_their_readme_shows() {
    let page = include_str!("../../../../examples/README.md");
    let programs: [(&str, Program); 5] = [
        ("log", log::main),
        ("table", table::main),
        ("search", search::main),
        ("catalog", catalog::main),
        ("indexer", indexer::main),
    ];
    let outputs = programs.map(|(name, main)| {
        main().unwrap_or_else(|error| panic!("examples/{name}.rs: {error}"));
        let printed = std::mem::take(&mut *PRINTED.lock().unwrap());
        format!("$ cargo run -p firndb --example {name}\n{printed}")
    });
    let blocks = page.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next());
    assert_eq!(blocks.collect::<Vec<_>>(), outputs, "copy the output to examples/README.md");
}
