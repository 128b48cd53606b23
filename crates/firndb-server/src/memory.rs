//! Limits the memory that the bodies of requests and responses take together.
//!
//! Each body has a limit of its own, but many clients that send or read slowly could still fill the
//! memory.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

/// The memory of all bodies.
#[derive(Clone)]
pub struct Memory(Arc<Shared>);

struct Shared {
    limit: usize,
    used: AtomicUsize,
}

/// A share of the memory; it is returned when this is dropped.
pub struct Held {
    memory: Arc<Shared>,
    bytes: AtomicUsize,
}

/// There is not enough memory for a body.
#[derive(Debug)]
pub struct Exceeded;

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bodies of all requests take too much memory: try again later")
    }
}

impl Error for Exceeded {}

impl Memory {
    /// Allows `limit` bytes.
    pub fn new(limit: usize) -> Memory {
        Memory(Arc::new(Shared { limit, used: AtomicUsize::new(0) }))
    }

    /// The bytes that are in use.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// A share of 0 bytes.
    pub fn hold(&self) -> Held {
        Held { memory: self.0.clone(), bytes: AtomicUsize::new(0) }
    }
}

impl Held {
    /// Makes the share larger.
    pub fn add(&self, bytes: usize) -> Result<(), Exceeded> {
        let limit = self.memory.limit;
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= limit);
        let used = &self.memory.used;
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| Exceeded)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

/// Bytes that hold a share of the memory until the last reference to them is dropped.
pub fn held(bytes: Bytes, held: Arc<Held>) -> Bytes {
    struct Owner(Bytes, #[allow(dead_code, reason = "dropped with the bytes")] Arc<Held>);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Owner(bytes, held))
}

/// A body whose share of the memory grows as it arrives.
pub struct Counted<B> {
    body: B,
    held: Arc<Held>,
}

impl<B> Counted<B> {
    /// Counts `body`.
    pub fn new(body: B, held: Arc<Held>) -> Counted<B> {
        Counted { body, held }
    }
}

impl<B> Body for Counted<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other.map(|frame| frame.map_err(Into::into))),
        };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let added = self.held.add(bytes);
        Poll::Ready(Some(added.map(|()| frame).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bodies of responses up to this size are not counted: the buffers of a connection are larger.
const SMALL: u64 = 64 << 10;

/// Counts the body of a response until it has been sent. Errors: there is not enough memory.
pub async fn count_response(
    memory: &Memory,
    response: Response<crate::http::Body>,
) -> Result<Response<crate::http::Body>, Exceeded> {
    let size = response.body().size_hint().lower();
    if size <= SMALL {
        return Ok(response);
    }
    let share = memory.hold();
    share.add(size as usize)?;
    let (parts, body) = response.into_parts();
    let Ok(body) = body.collect().await;
    let body = held(body.to_bytes(), Arc::new(share));
    Ok(Response::from_parts(parts, body.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_limited_and_returned() {
        let memory = Memory::new(100);
        let first = memory.hold();
        first.add(60).unwrap();
        let second = memory.hold();
        second.add(40).unwrap();
        assert!(second.add(1).is_err());
        assert!(second.add(usize::MAX).is_err());
        assert_eq!(memory.used(), 100);
        drop(first);
        assert_eq!(memory.used(), 40);
        let bytes = held(Bytes::from_static(b"abc"), Arc::new(second));
        let part = bytes.slice(1..);
        drop(bytes);
        assert_eq!((&part[..], memory.used()), (&b"bc"[..], 40));
        drop(part);
        assert_eq!(memory.used(), 0);
    }
}
