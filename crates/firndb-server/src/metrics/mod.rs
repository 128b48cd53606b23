//! Counters of the server, and the text for Prometheus.
//!
//! Counters live in [`Metrics`] and are updated by requests. Everything else, such as the figures
//! of the stores, is asked for when the text is made: see `state`.

mod state;
mod stores;

use crate::app::App;
use prometheus_client::encoding::{EncodeLabelSet, prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::{Duration, Instant};

/// Counters of the server.
pub struct Metrics {
    registry: Registry,
    started: Instant,
    /// Requests by route and status.
    pub requests: Family<RequestLabels, Counter>,
    /// Durations of requests by route.
    pub durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    /// Connections that were accepted.
    pub connections_accepted: Counter,
    /// Connections beyond a limit.
    pub connections_refused: Counter,
    /// Connections that are open.
    pub connections_open: Gauge,
    /// Connections that were closed because the client was too slow.
    pub connections_timed_out: Counter,
    /// TLS handshakes that failed.
    pub handshakes_failed: Counter,
    /// Queries that were refused because too many waited.
    pub queries_refused: Counter,
    /// Queries that were cancelled, by reason.
    pub queries_cancelled: Family<CancelLabels, Counter>,
    /// Requests that took at least `log.slow_query_seconds`.
    pub slow_requests: Counter,
    /// Requests that failed because of a bug.
    pub panics: Counter,
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

/// The label of a counter of cancelled queries.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct CancelLabels {
    /// `deadline`, or `client_gone`.
    pub reason: &'static str,
}

/// A text format for figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// The text format 0.0.4 of Prometheus, which every collector reads.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl TextFormat {
    /// The format for a client with this header `Accept`.
    pub fn choose(accept: &str) -> TextFormat {
        match accept.to_ascii_lowercase().contains("application/openmetrics-text") {
            true => TextFormat::OpenMetrics,
            false => TextFormat::Prometheus,
        }
    }

    /// The content type.
    pub fn content_type(self) -> &'static str {
        match self {
            TextFormat::Prometheus => prometheus_text::CONTENT_TYPE,
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
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
        let redis = crate::redis::Metrics::register(&mut registry);
        let mut metrics = Metrics {
            registry,
            redis,
            started: Instant::now(),
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram as fn() -> Histogram),
            connections_accepted: Counter::default(),
            connections_refused: Counter::default(),
            connections_open: Gauge::default(),
            connections_timed_out: Counter::default(),
            handshakes_failed: Counter::default(),
            queries_refused: Counter::default(),
            queries_cancelled: Family::default(),
            slow_requests: Counter::default(),
            panics: Counter::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("http_requests", "Requests by route and status", self.requests.clone());
        registry.register(
            "http_request_duration_seconds",
            "Time from the end of a request's headers to its response",
            self.durations.clone(),
        );
        let counters = [
            ("connections", "Connections accepted", &self.connections_accepted),
            (
                "connections_refused",
                "Connections closed because of a limit on their number",
                &self.connections_refused,
            ),
            (
                "connections_timed_out",
                "Connections closed because the client was too slow or idle",
                &self.connections_timed_out,
            ),
            (
                "tls_handshakes_failed",
                "TLS handshakes that failed or took too long",
                &self.handshakes_failed,
            ),
            (
                "queries_refused",
                "Queries refused because too many were waiting",
                &self.queries_refused,
            ),
            (
                "slow_requests",
                "Requests that took longer than the option slow_query_seconds",
                &self.slow_requests,
            ),
            ("panics", "Requests that failed because of a bug in the server", &self.panics),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "queries_cancelled",
            "Queries cancelled by their deadline or because the client has gone",
            self.queries_cancelled.clone(),
        );
        let open = self.connections_open.clone();
        registry.register("connections_open", "Connections that are open", open);
    }

    /// Counts a request.
    pub fn count(&self, route: &'static str, status: u16, duration: Duration) {
        self.requests.get_or_create(&RequestLabels { route, status }).inc();
        self.durations.get_or_create(&RouteLabels { route }).observe(duration.as_secs_f64());
    }

    /// All figures in a text format. Blocks, because it asks all stores.
    pub fn text(&self, app: &App, format: TextFormat) -> String {
        let mut now = Registry::default();
        now.register_collector(Box::new(state::Figures::of(app, self.started.elapsed())));
        let mut out = String::new();
        let written = [&self.registry, &now].into_iter().try_for_each(|registry| match format {
            TextFormat::Prometheus => prometheus_text::encode(&mut out, registry),
            TextFormat::OpenMetrics => text::encode_registry(&mut out, registry),
        });
        written.expect("a string takes everything");
        if format == TextFormat::OpenMetrics {
            text::encode_eof(&mut out).expect("a string takes everything");
        }
        out
    }
}
