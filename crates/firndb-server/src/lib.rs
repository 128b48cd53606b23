//! `firn-serve`: serves log stores, tables, collections and names of catalogs over HTTP, and log
//! stores and tables over the Redis protocol.
//!
//! | module | purpose |
//! |---|---|
//! | [`config`] | options from the command line, the environment and a file |
//! | [`stores`] | the open stores by name; opening, adding and removing |
//! | [`net`] | listeners: limits on connections, TLS, slow clients |
//! | [`http`] | the HTTP interface: routes, requests, responses |
//! | [`redis`] | the Redis protocol |
//! | [`auth`] | tokens and roles |
//! | [`memory`] | the limit on all bodies together |
//! | [`metrics`] | counters, and the figures of all stores for Prometheus |
//! | [`logging`] | the server's own log |
//! | [`run()`] | starts the server, handles signals, drains and closes |
//!
//! A connection is a task on a few threads. A single get of a log store or a table is answered by
//! that task, because it takes about a microsecond; everything else runs in a thread of its own
//! ([`app::App::work`]), so that no query delays another connection.
//!
//! The guide for users is docs/server.md.

pub mod app;
pub mod auth;
pub mod config;
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
pub mod logging;
pub mod memory;
pub mod metrics;
pub mod net;
pub mod redis;
pub mod stores;

mod run;

pub use run::{Server, run};
