//! Documents and search hits to and from record batches, and the schemas of both.
//!
//! | field | column |
//! |---|---|
//! | `bool`, `i64`, `u64`, `f64` | `Boolean`, `Int64`, `UInt64`, `Float64` |
//! | `timestamp` | `Timestamp(Microsecond, "UTC")` |
//! | `string`, `bytes` | `Utf8`, `Binary` |
//! | multi-valued | `List` of the type; no value is the empty list |
//!
//! ```
//! use firndb::search::{Document, Field, Roles, Schema, Type};
//! use firndb_arrow::document::{BatchBuilder, DocumentReader};
//!
//! let schema = Schema::new([
//!     Field::new("id", Type::U64, Roles::FULL),
//!     Field::new("tags", Type::String, Roles::FILTERABLE.with(Roles::STORED)).multi(),
//! ])?;
//! let mut builder = BatchBuilder::new(schema.fields());
//! builder.push(&Document::new().set("id", 7u64).set("tags", "a").set("tags", "b"))?;
//! let batch = builder.finish()?;
//! assert_eq!((batch.num_rows(), batch.num_columns()), (1, 2));
//! let reader = DocumentReader::new(&batch, &schema).map_err(firndb::Error::invalid)?;
//! assert_eq!(reader.document(0).unwrap().fields().count(), 3);
//! # Ok::<(), firndb::Error>(())
//! ```

mod read;
mod schema;
mod write;

pub use read::DocumentReader;
pub use schema::{from_arrow_schema, to_arrow_schema};
pub use write::{BatchBuilder, hits_to_batch};
