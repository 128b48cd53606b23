//! Collection: documents in immutable partitions, filtered, sorted, counted, faceted and grouped.
//!
//! A partition is built in memory and published as one file; a set file names the partitions that
//! are the collection; a [`Reader`] is one such set, opened. [`Collection`] holds the directory and
//! changes it, [`PartitionBuilder`] makes partitions, [`query`] says what can be asked. `format.rs`
//! has the bytes, and `ARCHITECTURE.md` a table of the files.
//!
//! # Build path
//! 1. `PartitionBuilder::add` checks a document whole; `Interner::intern` numbers each distinct key
//!    of a field, and `Spill::push` keeps the payload.
//! 2. `Interner::finish` sorts the keys of a field: from here on a value is its ordinal.
//! 3. `sort_documents` brings the documents into the schema's order.
//! 4. `write_partition` writes `payload::write` first, then by `write_field` each field:
//!    `Keys::encode`, the postings from `invert` and `Inverted::encode`, the column from
//!    `Ordinals::encode`; at last `encode_meta`.
//! 5. `Change::put` does all this into a temporary file and names it by its content.
//!    `Change::merge` makes the ordinals from partitions (`join_field`) and goes on with step 3.
//! 6. `Change::commit` syncs the directory, then `manifest::publish` makes the next set, and
//!    `Collection::clean` removes what it does not name.
//!
//! `Collection::compact` merges runs of small partitions that rest, as `MergePolicy::plan` says.
//!
//! # Query path
//! 1. `parse_query` reads the text, if it is text: a `Query` with a `Filter`.
//! 2. `Plan::new` normalises the filter; `key_of` and `interval` turn literals into bounds of keys.
//!    `Reader::count` of one condition often ends here, with the offsets or the statistics.
//! 3. `Bundles::view` gives the set to run on: bundles made of small partitions, if queries have
//!    paid for them, and else the partitions. Places found there become hits by `View::place`.
//!    From here on `Executor::share` may let several threads take partitions in turn.
//! 4. `Executor::new` asks `Statistics::known` about each condition: `Executor::pruned` then rules
//!    partitions out without touching them.
//! 5. Small partitions: `Executor::run_small` applies all conditions to one bitset on the stack.
//! 6. Others: `Executor::prepare` binds each condition to ordinals (`bind_leaf`) with their exact
//!    count, and `Executor::conjunction` chooses from the counts between `by_list` and `by_words`.
//! 7. Matches go to a `Sink`: `Count`, `unordered::places`, `visit::ordered`,
//!    `facet::counts`, `group::groups`.
//! 8. `Reader::payload`, `Reader::value` and `Reader::field` read back by document.

mod model;
mod text;
mod format;
mod simd;
mod codec;
mod partition;
mod build;
mod plan;
mod stats;
mod exec;
mod collect;
mod cache;
mod reader;
mod collection;
pub(crate) mod admin;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(crate) use build::builder::Built;
pub use build::builder::PartitionBuilder;
pub use collect::facet::{Facet, FacetCounts};
pub use collect::group::{Aggregate, Group, GroupBy, Number};
pub use collect::rank::MAX_ORDER;
pub use collection::compact::{Compaction, Merge, MergePolicy};
pub(crate) use collection::current::{OpenSet, newest as newest_set};
pub use collection::{Change, Collection, MAX_PARTITIONS};
pub use format::MAX_DOCUMENTS;
#[cfg(test)]
pub(crate) use format::manifest::file_name as set_file;
pub(crate) use format::manifest::number as set_number;
pub use model::document::Document;
pub use model::query;
pub use model::query::{Cursor, Filter, MAX_DEPTH, Op, OrderBy, Query};
pub use model::schema::{Field, MAX_FIELDS, Payload, Roles, Schema};
pub use model::types::Type;
pub use model::value::{Value, timestamp_from_text, timestamp_to_text};
pub use reader::{Explain, FieldReader, Hit, Page, PartitionInfo, Reader};
pub use text::diagnostics::point_at;
pub use text::parse::{MAX_IN, parse_filter, parse_order, parse_query};
