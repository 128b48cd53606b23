//! Query execution: binds the conditions of a plan to one partition, chooses the cheapest way to
//! combine them, and passes the matches to a sink.
//!
//! | file | purpose |
//! |---|---|
//! | `context` | what a query knows before it visits partitions |
//! | `executor` | the entry point: runs a plan on one partition |
//! | `parallel` | runs a query on several threads |
//! | `bind` | conditions become clauses: ordinals with exact counts |
//! | `windows` | ranges on both fields of a point become one window |
//! | `clause` | a bound condition |
//! | `source` | where its documents come from, at which cost |
//! | `conjunction` | chooses between walking a clause and combining bitsets |
//! | `lead_iter`, `check` | the leading clause, and the tests of its documents |
//! | `small` | the same for partitions of at most a thousand documents |
//! | `workspace`, `scratch` | memory that a query reuses from partition to partition |
//! | `sink` | where matches go |

pub(crate) mod bind;
pub(crate) mod check;
pub(crate) mod clause;
pub(crate) mod conjunction;
pub(crate) mod context;
pub(crate) mod executor;
pub(crate) mod lead_iter;
pub(crate) mod parallel;
pub(crate) mod scratch;
pub(crate) mod sink;
pub(crate) mod small;
pub(crate) mod source;
pub(crate) mod windows;
pub(crate) mod workspace;
