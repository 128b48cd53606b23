//! Tests of the server with clients over the network.

mod hostile;
mod keys;
mod lifecycle;
mod limits;
mod metrics;
mod packaging;
mod process;
mod raw;
mod security;
mod slow;
mod support;
mod tls;
