//! Health and metrics.

use super::Context;
use super::reply::{Body, full, text, with_type};
use crate::app::Phase;
use hyper::{Response, StatusCode};

/// The server answers.
pub fn live() -> Response<Body> {
    text(StatusCode::OK, "ok\n")
}

/// Whether requests should be sent here.
pub fn ready(context: &Context) -> Response<Body> {
    match context.app.phase() {
        Phase::Ready => text(StatusCode::OK, "ready\n"),
        Phase::Starting => text(StatusCode::SERVICE_UNAVAILABLE, "opening stores\n"),
        Phase::Draining => text(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
    }
}

/// All figures for Prometheus.
pub fn metrics(context: &Context) -> Response<Body> {
    let body = context.app.metrics.text(&context.app);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    with_type(full(StatusCode::OK, body), kind)
}
