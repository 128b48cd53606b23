//! Collections: schemas, queries, hits, builds and changes.

pub mod build;
pub mod change;
pub mod collection;
pub mod condition;
pub mod hits;
pub mod infer;
pub mod load;
pub mod query;
pub mod reader;
pub mod rows;
pub mod schema;
pub mod task;
pub mod value;
