//! The HTTP interface.
//!
//! A request takes these steps: [`Http::serve`] reads its headers, [`route::Route::parse`] finds
//! its route, `access::check` looks at its token and origin, `dispatch` calls the function of
//! the route, and `answer` adds the request's id and counts it.

mod access;
mod admin;
mod body;
mod bsdb;
mod catalogs;
mod cors;
mod health;
mod keys;
mod negotiate;
mod openapi;
mod parse;
mod problem;
mod query;
mod reply;
mod route;
mod stores;

pub(crate) use access::is_own_host;
pub(crate) use keys::{decode_key, parse_batches};
pub(crate) use negotiate::{Compression, Form};
pub use problem::Problem;
pub(crate) use query::parse_bodies;
pub use reply::{Body, Reply};
pub use route::{Route, Verb};

use crate::app::App;
use crate::auth::Role;
use crate::config::duration;
use crate::memory;
use crate::net::{Peer, Protocol, Stream};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Instant;
use tokio::sync::watch;

/// The header with the id of a request, which errors and the log repeat.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The maximum number of bytes of a query in the log.
const MAX_SHOWN_QUERY: usize = 1000;

/// The HTTP interface of a server.
pub struct Http {
    app: Arc<App>,
}

/// A request and what its handlers need.
pub struct Context {
    /// What all connections share.
    pub app: Arc<App>,
    /// The other end of the connection.
    pub peer: Peer,
    /// The id of the request.
    pub id: String,
    /// The body of the request, if it is a query: for the log of slow queries.
    query: OnceLock<Bytes>,
}

impl Context {
    fn new(app: Arc<App>, peer: Peer, id: String) -> Context {
        Context { app, peer, id, query: OnceLock::new() }
    }

    /// Keeps a query for the log of slow queries.
    fn note_query(&self, body: &Bytes) {
        let _ = self.query.set(body.clone()); // Fails if the request has one already.
    }

    /// The query for the log.
    fn shown_query(&self) -> Option<String> {
        self.query.get().map(|body| one_line(body))
    }
}

/// The beginning of a body, in one line of printable characters.
fn one_line(body: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&body[..body.len().min(MAX_SHOWN_QUERY)]);
    let mut shown = shown.replace(char::is_control, " ");
    if body.len() > MAX_SHOWN_QUERY {
        shown.push_str("...");
    }
    shown
}

impl Http {
    /// The interface to the stores of `app`.
    pub fn new(app: Arc<App>) -> Http {
        Http { app }
    }
}

impl Protocol for Http {
    async fn serve(
        self: Arc<Self>,
        stream: Stream,
        peer: Peer,
        mut draining: watch::Receiver<bool>,
    ) {
        let limits = &self.app.config.limits;
        let app = &self.app;
        let service = service_fn(move |request| {
            let app = app.clone();
            async move { Ok::<_, Infallible>(answer(app, peer, request).await) }
        });
        let mut builder = http1::Builder::new();
        // Without a timer the limit of the headers would have no effect.
        builder.timer(TokioTimer::new()).header_read_timeout(duration(limits.header_seconds));
        builder.max_header_size(limits.header_bytes).max_buf_size(limits.header_bytes);
        builder.max_headers(limits.headers);
        // Without `pipeline_flush`: it keeps responses in memory, without a limit, while there are
        // requests to read.
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let early = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = drained(&mut draining) => None,
        };
        let ended = match early {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            if is_timeout(&error) {
                app.metrics.connections_timed_out.inc();
            }
            tracing::debug!(address = %peer.address, %error, "the connection ended early");
        }
    }
}

/// Whether a connection was closed because its client was too slow.
fn is_timeout(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|e| e.downcast_ref::<io::Error>());
    error.is_timeout() || cause.is_some_and(|e| e.kind() == io::ErrorKind::TimedOut)
}

/// Returns when the server drains.
async fn drained(draining: &mut watch::Receiver<bool>) {
    let _ = draining.wait_for(|draining| *draining).await; // Fails if the server has ended.
}

/// Answers a request; counts and logs it.
async fn answer(app: Arc<App>, peer: Peer, request: Request<Incoming>) -> Response<Body> {
    let start = Instant::now();
    let id = access::request_id(request.headers());
    let header = HeaderValue::from_str(&id).expect("ids are printable");
    let context = Context::new(app, peer, id);
    let path = request.uri().path().to_string();
    let method = request.method().clone();
    let origin = cors::allowed(&context.app.config.http, request.headers());
    // Whoever has forwarded a request with two lengths may not have used the one of the chunks, as
    // the HTTP library does: what follows such a request must not be taken for another one.
    let is_chunked = request.headers().contains_key(TRANSFER_ENCODING);
    let options = &context.app.config.http;
    let target = options.bsdb_prefix.as_ref().and_then(|_| request.uri().path_and_query());
    let target = target.map(|target| target.as_str().to_string()).unwrap_or_default();
    let route = Route::parse(&path).or_else(|e| bsdb::route(options, &target).ok_or(e));
    let name = route.as_ref().map_or("none", Route::name);
    let result = match origin.is_some() && cors::is_preflight(&method, request.headers()) {
        true => Ok(cors::preflight()),
        false => contained(&context, dispatch(&context, route, request)).await,
    };
    let result = match result {
        Ok(response) => memory::count_response(&context.app.memory, response)
            .await
            .map_err(|exceeded| Problem::busy(exceeded.to_string())),
        Err(problem) => Err(problem),
    };
    let mut response = result.unwrap_or_else(|problem| problem.response(&context.id));
    response.headers_mut().insert(REQUEST_ID, header);
    if is_chunked {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(origin) = origin {
        cors::allow(&mut response, origin);
    }
    let (status, elapsed) = (response.status().as_u16(), start.elapsed());
    context.app.metrics.count(name, status, elapsed);
    let seconds = elapsed.as_secs_f64();
    if seconds >= context.app.config.log.slow_query_seconds {
        context.app.metrics.slow_requests.inc();
        let query = context.shown_query();
        tracing::warn!(id = context.id, %method, path, status, seconds, query, "slow request");
    } else {
        tracing::debug!(id = context.id, %method, path, status, seconds, "request");
    }
    response
}

/// Runs the handler of a request. A bug in it ends neither the connection nor the server.
async fn contained(context: &Context, handler: impl Future<Output = Reply>) -> Reply {
    let mut handler = pin!(handler);
    let polled = poll_fn(|cx| {
        let poll = AssertUnwindSafe(|| handler.as_mut().poll(cx));
        catch_unwind(poll).unwrap_or_else(|_| {
            context.app.metrics.panics.inc();
            tracing::error!(id = context.id, "a bug in the server ended a request");
            Poll::Ready(Err(Problem::internal()))
        })
    });
    polled.await
}

/// Calls the function of a route, if the client may.
async fn dispatch(
    context: &Context,
    route: Result<Route<'_>, Problem>,
    request: Request<Incoming>,
) -> Reply {
    access::check(context, route.as_ref().ok(), &request)?;
    let route = route?;
    let only_read = matches!(route, Route::Live | Route::Ready | Route::Metrics);
    if only_read && ![Method::GET, Method::HEAD].contains(request.method()) {
        return Err(Problem::method("GET, HEAD"));
    }
    match route {
        Route::Live => Ok(health::live()),
        Route::Ready => Ok(health::ready(context)),
        Route::Metrics => health::metrics(context, request.headers()).await,
        Route::Key { kind, store, key } => keys::handle(context, kind, store, key, request).await,
        Route::Bsdb { key } => bsdb::get(context, key, &request),
        Route::Stores => match *request.method() {
            Method::GET | Method::HEAD => stores::list(context).await,
            Method::POST => admin::add(context, request).await,
            _ => Err(Problem::method("GET, HEAD, POST")),
        },
        Route::Store { kind, store } => match *request.method() {
            Method::GET | Method::HEAD => stores::show(context, kind, store).await,
            Method::DELETE => admin::remove(context, kind, store).await,
            _ => Err(Problem::method("GET, HEAD, DELETE")),
        },
        Route::Verb { verb: Verb::Scan, .. }
            if ![Method::GET, Method::POST].contains(request.method()) =>
        {
            Err(Problem::method("GET, POST"))
        }
        Route::Verb { verb, .. } if verb != Verb::Scan && request.method() != Method::POST => {
            Err(Problem::method("POST"))
        }
        Route::Verb { kind, store, verb } => match verb {
            Verb::Mget => keys::mget(context, kind, store, request).await,
            Verb::Mput => keys::mput(context, store, request).await,
            Verb::Scan => keys::scan(context, kind, store, request).await,
            Verb::Backup | Verb::Compact | Verb::Verify => {
                admin::verb(context, kind, store, verb, request).await
            }
            Verb::Search | Verb::Count | Verb::Facets | Verb::Group | Verb::Explain => {
                query::handle(context, store, verb, request).await
            }
        },
        Route::Catalogs => catalogs::list(context, &request).await,
        Route::Catalog { store } => catalogs::show(context, store, &request).await,
        Route::OpenApi => openapi::show(&request),
    }
}

/// What a request needs to be allowed to do.
pub(crate) fn required_role(route: &Route<'_>, method: &Method) -> Option<Role> {
    match route {
        Route::Live | Route::Ready => None,
        Route::Key { .. } if method != Method::GET && method != Method::HEAD => Some(Role::Write),
        Route::Verb { verb, .. } => Some(verb.role()),
        Route::Stores | Route::Store { .. } if method != Method::GET && method != Method::HEAD => {
            Some(Role::Admin)
        }
        _ => Some(Role::Read),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use hyper::StatusCode;

    #[test]
    fn a_bug_in_a_handler_is_a_response() {
        let app = Arc::new(App::new(Config::default()).unwrap());
        let address = ([127, 0, 0, 1], 1).into();
        let peer = Peer { address, has_certificate: false };
        let context = Context::new(app, peer, "id".to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // One before it waits, and one after.
        for yields in [false, true] {
            let handler = async {
                if yields {
                    tokio::task::yield_now().await;
                }
                panic!("an injected bug")
            };
            let problem = runtime.block_on(contained(&context, handler)).unwrap_err();
            let response = problem.response(&context.id);
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        }
        assert_eq!(context.app.metrics.panics.get(), 2);
    }

    #[test]
    fn queries_in_the_log_are_short_and_printable() {
        assert_eq!(one_line(b"a = 'x'\norder by b\x1b[31m"), "a = 'x' order by b [31m");
        assert_eq!(one_line(b"\xff"), "\u{fffd}");
        assert_eq!(one_line(&[b'x'; MAX_SHOWN_QUERY]).len(), MAX_SHOWN_QUERY);
        let cut = one_line("\u{e9}".repeat(MAX_SHOWN_QUERY).as_bytes());
        assert!(cut.ends_with("\u{e9}...") && cut.len() == MAX_SHOWN_QUERY + 3);
    }
}
