//! Health and metrics.

use super::Context;
use super::problem::Problem;
use super::reply::{Body, Reply, full, text, with_type};
use crate::app::Phase;
use crate::metrics::TextFormat;
use hyper::header::{ACCEPT, HeaderMap};
use hyper::{Response, StatusCode};
use tokio::sync::Semaphore;

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
///
/// They are collected outside of the limit on queries, so that a server with too many queries can
/// still be watched; one collection runs at a time.
pub async fn metrics(context: &Context, headers: &HeaderMap) -> Reply {
    static COLLECTING: Semaphore = Semaphore::const_new(1);
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = TextFormat::choose(accept.unwrap_or_default());
    let collecting = COLLECTING.acquire().await.map_err(|_| Problem::internal())?;
    let app = context.app.clone();
    let task = tokio::task::spawn_blocking(move || {
        let _collecting = collecting;
        app.metrics.text(&app, format)
    });
    let body = task.await.map_err(|_| Problem::internal())?;
    Ok(with_type(full(StatusCode::OK, body), format.content_type()))
}
