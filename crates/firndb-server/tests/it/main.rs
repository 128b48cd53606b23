//! Tests of the server with clients over the network.

mod admin;
mod bsdb;
mod full_disk;
mod keys;
mod mget;
mod mput;
mod scan;
mod support;
mod tables;
