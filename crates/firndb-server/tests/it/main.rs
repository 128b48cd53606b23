//! Tests of the server with clients over the network.

mod admin;
mod bsdb;
mod catalogs;
mod collections;
mod full_disk;
mod hostile;
mod keys;
mod lifecycle;
mod limits;
mod metrics;
mod mget;
mod mput;
mod openapi;
mod packages;
mod packaging;
mod process;
mod query;
mod query_hostile;
mod raw;
mod resp;
mod scan;
mod security;
mod slow;
mod support;
mod tables;
mod tls;
