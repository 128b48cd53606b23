//! Counters of the server, and the text for Prometheus.

use crate::app::App;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::Duration;

/// Counters of the server.
pub struct Metrics {
    registry: Registry,
    /// Requests by route and status.
    pub requests: Family<RequestLabels, Counter>,
    /// Durations of requests by route.
    pub durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    /// Connections that were accepted.
    pub connections_accepted: Counter,
    /// Connections beyond a limit.
    pub connections_refused: Counter,
    /// TLS handshakes that failed.
    pub handshakes_failed: Counter,
    /// The Redis interface.
    pub redis: crate::redis::Metrics,
}

/// Labels of a counter of requests. They have few values: no key, and no name that a client chose.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RequestLabels {
    /// The route.
    pub route: &'static str,
    /// The status.
    pub status: u16,
}

/// The label of a route.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RouteLabels {
    /// The route.
    pub route: &'static str,
}

/// Upper bounds of the histogram's buckets in seconds.
const BUCKETS: [f64; 14] =
    [1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 0.25, 1.0, 5.0];

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// Counters at 0.
    pub fn new() -> Metrics {
        let mut registry = Registry::with_prefix("firndb");
        let requests = Family::<RequestLabels, Counter>::default();
        let durations = Family::new_with_constructor(histogram as fn() -> Histogram);
        let [accepted, refused, handshakes] = [(); 3].map(|()| Counter::default());
        registry.register("http_requests", "Requests by route and status", requests.clone());
        registry.register(
            "http_request_duration_seconds",
            "Time from the end of a request's headers to its response",
            durations.clone(),
        );
        registry.register("connections", "Connections accepted", accepted.clone());
        registry.register(
            "connections_refused",
            "Connections closed because of a limit",
            refused.clone(),
        );
        registry.register(
            "tls_handshakes_failed",
            "TLS handshakes that failed or took too long",
            handshakes.clone(),
        );
        let redis = crate::redis::Metrics::register(&mut registry);
        Metrics {
            registry,
            requests,
            durations,
            connections_accepted: accepted,
            connections_refused: refused,
            handshakes_failed: handshakes,
            redis,
        }
    }

    /// Counts a request.
    pub fn count(&self, route: &'static str, status: u16, duration: Duration) {
        self.requests.get_or_create(&RequestLabels { route, status }).inc();
        self.durations.get_or_create(&RouteLabels { route }).observe(duration.as_secs_f64());
    }

    /// All figures in the text format of Prometheus.
    pub fn text(&self, _app: &App) -> String {
        let mut out = String::new();
        text::encode(&mut out, &self.registry).expect("a string takes everything");
        out
    }
}
