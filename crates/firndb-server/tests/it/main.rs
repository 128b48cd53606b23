//! Tests of the server with clients over the network.

mod keys;
mod resp;
mod support;
