//! The benchmark of the Collection: rows, queries, answers, and the engine's side of the protocol.

mod answer;
mod query;
mod row;
mod serve;

pub use answer::{Answer, Hit};
pub use query::{Kind, Query, Workload, read_queries};
pub use row::{Car, Pair, each_car, each_pair};
pub use serve::{Engine, Session, serve};
