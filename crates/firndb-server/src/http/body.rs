//! Reads the body of a request, within its limits of size and time.

use super::Context;
use super::problem::Problem;
use crate::config::duration;
use crate::memory::{Counted, Exceeded, held};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use std::sync::Arc;

/// The whole body.
pub async fn read(context: &Context, body: Incoming) -> Result<Bytes, Problem> {
    read_at_most(context, body, context.app.config.limits.body_bytes).await
}

/// The whole body, of at most `limit` bytes.
///
/// A body that declares a length beyond the limit is refused before it is read.
pub async fn read_at_most(
    context: &Context,
    body: Incoming,
    limit: usize,
) -> Result<Bytes, Problem> {
    let limits = &context.app.config.limits;
    let too_large =
        || Problem::too_large(format!("the body has more than {limit} bytes, the limit"));
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let share = Arc::new(context.app.memory.hold());
    let read = Limited::new(Counted::new(body, share.clone()), limit).collect();
    match tokio::time::timeout(duration(limits.body_seconds), read).await {
        Ok(Ok(collected)) => Ok(held(collected.to_bytes(), share)),
        Ok(Err(error)) if error.is::<Exceeded>() => Err(Problem::busy(error.to_string())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::bad_request("the body ended early or is malformed")),
        Err(_) => {
            let detail = format!("the body took longer than {} seconds", limits.body_seconds);
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail))
        }
    }
}
