//! Limits of connections, requests and queries.

use firndb::{Error, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Limits of connections, requests and queries. They bound the memory and the time that clients
/// can take.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at a time. A further one is closed at once.
    pub connections: usize,
    /// Connections at a time from one address.
    pub connections_per_address: usize,
    /// Bytes of a request's line and headers.
    pub header_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Bytes of the body of a query.
    pub query_bytes: usize,
    /// Bytes of a response's body, before compression.
    pub response_bytes: usize,
    /// Bytes of the bodies of all requests and responses together; further ones are refused.
    pub total_body_bytes: usize,
    /// Keys of a request.
    pub keys: usize,
    /// Documents or keys of a page.
    pub page: usize,
    /// Documents that a query may skip: they take memory like those of a page.
    pub skip: usize,
    /// Groups of a query: each takes some hundred bytes, and more with aggregates.
    pub groups: usize,
    /// Distinct values of a facet among the matches.
    pub facet_values: usize,
    /// Queries that run at a time; further ones wait.
    pub queries: usize,
    /// Queries that wait. Further ones are refused.
    pub waiting_queries: usize,
    /// Seconds until a query is cancelled.
    pub query_seconds: f64,
    /// Seconds in which a client must send the headers of a request, counted from the end of the
    /// request before: an idle connection is closed then.
    pub header_seconds: f64,
    /// Seconds in which a client must send the body of a request.
    pub body_seconds: f64,
    /// Seconds for which a client may not read while a response waits.
    pub write_seconds: f64,
    /// Seconds for a TLS handshake.
    pub handshake_seconds: f64,
    /// Seconds for which running requests may continue after SIGTERM.
    pub drain_seconds: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 10_000,
            connections_per_address: 1_000,
            header_bytes: 128 << 10,
            headers: 100,
            body_bytes: 64 << 20,
            query_bytes: 1 << 20,
            response_bytes: 64 << 20,
            total_body_bytes: 1 << 30,
            keys: 100_000,
            page: 10_000,
            skip: 100_000,
            groups: 100_000,
            facet_values: 500_000,
            queries: 64,
            waiting_queries: 1_000,
            query_seconds: 10.0,
            header_seconds: 30.0,
            body_seconds: 60.0,
            write_seconds: 30.0,
            handshake_seconds: 10.0,
            drain_seconds: 30.0,
        }
    }
}

/// The longest duration that a limit can have: a year.
const LONGEST: f64 = 366.0 * 86_400.0;

impl Limits {
    /// An error if a limit allows nothing.
    pub(crate) fn check(&self) -> Result<()> {
        let counts = [
            ("connections", self.connections),
            ("connections_per_address", self.connections_per_address),
            ("headers", self.headers),
            ("body_bytes", self.body_bytes),
            ("query_bytes", self.query_bytes),
            ("response_bytes", self.response_bytes),
            ("keys", self.keys),
            ("page", self.page),
            ("groups", self.groups),
            ("facet_values", self.facet_values),
            ("queries", self.queries),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(Error::invalid(format!("limits.{name} is 0: nothing could be served")));
        }
        if self.total_body_bytes < self.body_bytes.max(self.response_bytes) {
            let message = "limits.total_body_bytes is less than limits.body_bytes or \
                           limits.response_bytes";
            return Err(Error::invalid(message));
        }
        // The smallest buffer that the HTTP library accepts.
        if self.header_bytes < 8192 {
            return Err(Error::invalid("limits.header_bytes is less than 8192"));
        }
        let seconds = [
            ("query_seconds", self.query_seconds),
            ("header_seconds", self.header_seconds),
            ("body_seconds", self.body_seconds),
            ("write_seconds", self.write_seconds),
            ("handshake_seconds", self.handshake_seconds),
            ("drain_seconds", self.drain_seconds),
        ];
        seconds.iter().try_for_each(|(name, seconds)| {
            check_seconds(&format!("limits.{name}"), *seconds, 0.001)
        })
    }
}

/// An error unless an option is a number of seconds of at least `least`.
pub(super) fn check_seconds(name: &str, seconds: f64, least: f64) -> Result<()> {
    match (least..=LONGEST).contains(&seconds) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{name} is {seconds}: it must be from {least} to {LONGEST}"
        ))),
    }
}

/// Seconds as a duration; limits were checked.
pub fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(LONGEST as u64))
}
