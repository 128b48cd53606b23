//! The Redis protocol: RESP2 and RESP3, for log stores and, read-only, for tables.
//!
//! A connection takes these steps: [`codec::Parser`] finds the commands in its buffer,
//! `Session::run` runs them and writes the replies into one buffer, which is sent when no command
//! is left or it is large enough. Nothing is read from a client that does not read its replies.
//!
//! Gets, and writes that survive a process crash, run in the task of the connection: they take
//! about a microsecond. Writes that wait for the disk and commands on all keys run where they may
//! block.

mod codec;
mod commands;
mod database;
mod float;
mod glob;
mod metrics;
mod number;
mod reply;
mod session;
mod transaction;
mod unit;

pub use codec::{Args, Limits, Parser, ProtocolError};
pub use metrics::Metrics;

use crate::app::App;
use crate::config::duration;
use crate::net::{Peer, Protocol, Stream};
use bytes::{Buf, BytesMut};
use database::Database;
use reply::Out;
use session::{Context, Mode, Session, Step, Turn};
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::Instant;

/// Commands that are parsed at a time.
const COMMANDS: usize = 512;
/// Memory for what a client sends, at first and when it has sent much.
const BUFFER: usize = 4 << 10;
const BUFFER_MAX: usize = 64 << 10;
/// Arguments of a client without credentials, and their length, as in Redis.
const UNAUTHENTICATED: (usize, usize) = (10, 16 << 10);

/// The Redis interface of a server.
pub struct Redis {
    app: Arc<App>,
    databases: Vec<Database>,
    started: std::time::Instant,
    port: u16,
    next: AtomicU64,
    clients: AtomicU64,
}

impl Redis {
    /// The interface to the stores of `app`, at a port.
    pub fn new(app: Arc<App>, port: u16) -> Redis {
        let databases = Database::all(&app.config);
        let started = std::time::Instant::now();
        let [next, clients] = [1, 0].map(AtomicU64::new);
        Redis { app, databases, started, port, next, clients }
    }

    fn context(&self) -> Context<'_> {
        Context {
            app: &self.app,
            databases: &self.databases,
            started: self.started,
            port: self.port,
            clients: &self.clients,
        }
    }
}

/// Counts an open connection.
struct Counted<'c>(&'c AtomicU64);

impl<'c> Counted<'c> {
    fn new(count: &'c AtomicU64) -> Counted<'c> {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Protocol for Redis {
    async fn serve(
        self: Arc<Self>,
        stream: Stream,
        peer: Peer,
        mut draining: watch::Receiver<bool>,
    ) {
        let _counted = Counted::new(&self.clients);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let connection = Connection {
            redis: &self,
            stream,
            input: BytesMut::new(),
            parser: Parser::default(),
            out: Out::default(),
            session: Session::new(id, peer),
            begun: None,
        };
        let drained = pin!(async move {
            let _ = draining.wait_for(|draining| *draining).await; // Fails if the server has ended.
        });
        if let Err(error) = connection.run(drained).await {
            tracing::debug!(address = %peer.address, %error, "the connection ended early");
        }
    }
}

/// A connection.
struct Connection<'r> {
    redis: &'r Redis,
    stream: Stream,
    /// What the client has sent, from the first command that has not run.
    input: BytesMut,
    parser: Parser,
    /// Replies that were not sent.
    out: Out,
    session: Session,
    /// When the client began to send the command that is incomplete.
    begun: Option<Instant>,
}

impl Connection<'_> {
    /// Serves the client until it or the server ends the connection.
    async fn run(mut self, mut drained: Pin<&mut impl Future<Output = ()>>) -> io::Result<()> {
        loop {
            self.session.update_role(&self.redis.context());
            let limits = self.limits();
            let error = self.parser.parse(&self.input, &limits).err();
            let count = self.parser.count();
            self.run_commands().await?;
            let consumed = self.parser.clear();
            self.input.advance(consumed);
            if let Some(error) = error.filter(|_| !self.session.is_closing()) {
                self.out.error(&format!("ERR {error}"));
                self.session.close();
            }
            if self.session.is_closing() {
                self.send().await?;
                return self.stream.shutdown().await;
            }
            if count == limits.commands {
                continue; // There may be more commands in the buffer.
            }
            if consumed > 0 {
                self.begun = None;
            }
            self.send().await?;
            if !self.receive(&mut drained).await? {
                return Ok(());
            }
        }
    }

    /// What the client may send. Until it has authenticated, that is little, and one command at a
    /// time: the limits of the next one depend on whether it has by then.
    fn limits(&self) -> Limits {
        let limits = &self.redis.app.config.limits;
        let is_unauthenticated = self.session.role().is_none();
        match is_unauthenticated {
            true => Limits {
                command_bytes: UNAUTHENTICATED.0 * (UNAUTHENTICATED.1 + 32),
                argument_bytes: UNAUTHENTICATED.1,
                arguments: UNAUTHENTICATED.0,
                commands: 1,
                is_unauthenticated,
            },
            false => Limits {
                command_bytes: limits.body_bytes,
                argument_bytes: limits.body_bytes,
                arguments: self.redis.context().arguments(),
                commands: COMMANDS,
                is_unauthenticated,
            },
        }
    }

    /// Runs the commands that were parsed.
    async fn run_commands(&mut self) -> io::Result<()> {
        let (mut next, errors) = (0, self.out.errors);
        let start = std::time::Instant::now();
        while next < self.parser.count() && !self.session.is_closing() {
            match self.run_from(&mut next, Mode::Inline) {
                Step::Done => {}
                Step::Flush => self.send().await?,
                Step::Synced => {
                    block_in_place(|| self.run_from(&mut next, Mode::Synced));
                }
                Step::Long => self.run_long(&mut next).await,
            }
        }
        let app = &self.redis.app;
        app.metrics.redis.errors.inc_by(self.out.errors.wrapping_sub(errors));
        let seconds = start.elapsed().as_secs_f64();
        if next > 0 && seconds >= app.config.log.slow_query_seconds {
            let last = self.parser.args(next - 1, &self.input).at(0);
            let command = String::from_utf8_lossy(&last[..last.len().min(32)]).into_owned();
            tracing::warn!(command, commands = next, seconds, "slow Redis commands");
        }
        Ok(())
    }

    /// Runs commands that may take long, as one of the queries of the server.
    async fn run_long(&mut self, next: &mut usize) {
        match self.redis.app.admit().await {
            Ok((_permits, deadline)) => {
                block_in_place(|| self.run_from(next, Mode::Long(&deadline)));
            }
            Err(error) => {
                commands::Fail::from(error).write(&mut self.out);
                *next += 1;
            }
        }
    }

    fn run_from(&mut self, next: &mut usize, mode: Mode<'_>) -> Step {
        let mut turn = Turn {
            context: self.redis.context(),
            parser: &self.parser,
            input: &self.input,
            next: *next,
            out: &mut self.out,
            mode,
        };
        let step = self.session.run(&mut turn);
        *next = turn.next;
        step
    }

    /// Sends the replies. Fails if the client does not read them in time.
    async fn send(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.stream.write_all(self.out.bytes()).await?;
            self.stream.flush().await?;
            self.out.clear();
        }
        Ok(())
    }

    /// Waits for more bytes. Returns false if the client has gone, was too slow or idle for too
    /// long, or the server drains.
    async fn receive(
        &mut self,
        drained: &mut Pin<&mut impl Future<Output = ()>>,
    ) -> io::Result<bool> {
        let config = &self.redis.app.config;
        let until = match (self.input.is_empty(), config.redis.idle_seconds) {
            (true, idle) if idle > 0.0 => Some(Instant::now() + duration(idle)),
            (true, _) => None,
            (false, _) => {
                let begun = *self.begun.get_or_insert_with(Instant::now);
                Some(begun + duration(config.limits.body_seconds))
            }
        };
        if self.input.is_empty() && self.input.capacity() > BUFFER_MAX {
            self.input = BytesMut::new();
        }
        // What a client announces costs memory only as it arrives.
        let wanted = self.parser.wanted(&self.input).min(self.input.len());
        self.input.reserve(wanted.max(BUFFER));
        let timer = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            read = self.stream.read_buf(&mut self.input) => Ok(read? > 0),
            () = drained => Ok(false),
            () = timer => Ok(false),
        }
    }
}
