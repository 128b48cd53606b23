//! A connection, plain or with TLS, that fails if the client does not read for too long.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;

/// A connection.
pub struct Stream {
    transport: Transport,
    /// For how long the client may not read while bytes wait.
    stall: Duration,
    /// Runs while bytes wait.
    timer: Option<Pin<Box<Sleep>>>,
}

enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// A connection without TLS.
    pub fn plain(socket: TcpStream, stall: Duration) -> Stream {
        Stream { transport: Transport::Plain(socket), stall, timer: None }
    }

    /// A connection with TLS.
    pub fn tls(socket: TlsStream<TcpStream>, stall: Duration) -> Stream {
        Stream { transport: Transport::Tls(Box::new(socket)), stall, timer: None }
    }

    /// Passes on the result of a write; starts the timer if it has to wait, and fails when the
    /// timer has run out.
    fn timed<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.timer = None;
            return polled;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.stall)));
        match timer.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                timer.as_mut().reset(Instant::now());
                Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)))
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Transport::Tls(socket) => Pin::new(socket).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut self.transport {
            Transport::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Transport::Tls(socket) => Pin::new(socket).poll_write(cx, buf),
        };
        self.timed(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut self.transport {
            Transport::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Transport::Tls(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
        };
        self.timed(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(socket) => socket.is_write_vectored(),
            Transport::Tls(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = match &mut self.transport {
            Transport::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Transport::Tls(socket) => Pin::new(socket).poll_flush(cx),
        };
        self.timed(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = match &mut self.transport {
            Transport::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Transport::Tls(socket) => Pin::new(socket).poll_shutdown(cx),
        };
        self.timed(cx, polled)
    }
}
