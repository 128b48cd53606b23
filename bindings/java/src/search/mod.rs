//! Collections: schemas and documents, builders of partitions, collections and their changes;
//! readers, queries and their results.

pub mod builder;
pub mod change;
pub mod collection;
pub mod document;
pub mod hits;
pub mod query;
pub mod reader;
mod results;
pub mod schema;
mod stack;
pub mod value;
