//! Tests of the server with clients over the network.

mod admin;
mod bsdb;
mod catalogs;
mod collections;
mod full_disk;
mod keys;
mod mget;
mod mput;
mod query;
mod query_hostile;
mod scan;
mod support;
mod tables;
