//! A read-only catalog on a web server that serves the files of a catalog directory or bucket. A
//! relay is such a server, too.
//!
//! The server must support range requests if files are longer than one piece, and must be able to
//! list folders (parsed by `index.rs`). It should send an `ETag` with a folder: then checking for
//! new versions costs a response without a body.

use crate::Patience;
use crate::failure;
use crate::index::{self, Entry};
use crate::runtime::Runtime;
use firndb::catalog::{Content, Origin};
use firndb::{Error, ErrorKind, Result, redact_url};
use reqwest::header::{ACCEPT, CONTENT_RANGE, ETAG, IF_NONE_MATCH, RANGE, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest index of a folder in bytes.
const MAX_INDEX: usize = 64 << 20;

/// Folders whose indexes are cached.
const MAX_KEPT: usize = 64;

/// A read-only catalog at a URL.
#[derive(Debug)]
pub struct HttpOrigin {
    server: Arc<Server>,
    runtime: Runtime,
    /// The index of each folder and its `ETag`, as last received.
    kept: Mutex<HashMap<String, (String, Vec<Entry>)>>,
}

/// A web server and the client to access it.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) url: Url,
    pub(crate) retries: usize,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.shown()).finish()
    }
}

impl HttpOrigin {
    /// Opens the catalog at a URL. Does not contact the server yet.
    pub fn new(url: &str, patience: Patience) -> Result<HttpOrigin> {
        let server = Server::new(url, patience, Client::builder())?;
        let (server, kept) = (Arc::new(server), Mutex::default());
        Ok(HttpOrigin { server, runtime: Runtime::new()?, kept })
    }

    fn index(&self, folder: &str) -> Result<Vec<Entry>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept().get(folder).cloned();
        let (server, name) = (self.server.clone(), folder.to_string());
        let etag = before.as_ref().map(|(etag, _)| etag.clone());
        let answer = self.runtime.wait(async move { server.index(&name, etag).await })?;
        let entries = match (answer, before) {
            (Index::Same, Some((_, entries))) => return Ok(entries),
            (Index::Same | Index::Missing, _) => return Ok(Vec::new()),
            (Index::New(etag, entries), _) => {
                let mut kept = kept();
                if kept.len() >= MAX_KEPT {
                    kept.clear();
                }
                kept.remove(folder);
                etag.map(|etag| kept.insert(folder.to_string(), (etag, entries.clone())));
                entries
            }
        };
        Ok(entries)
    }

    fn names(&self, folder: &str, folders: bool) -> Result<Vec<String>> {
        let entries = self.index(folder)?.into_iter();
        Ok(entries.filter(|entry| entry.is_folder == folders).map(|entry| entry.name).collect())
    }

    fn read_only(&self) -> Error {
        let message = "a catalog over HTTP can only be read: publish to the place that it shows";
        Error::invalid(message).in_file(self.server.shown().as_ref())
    }
}

impl Origin for HttpOrigin {
    fn create(&self, _: &str, _: &[u8]) -> Result<()> {
        Err(self.read_only())
    }

    fn store(&self, _: &[(String, Content<'_>)], _: &dyn Fn(u64)) -> Result<()> {
        Err(self.read_only())
    }

    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        let (server, object) = (self.server.clone(), object.to_string());
        self.runtime.wait(async move { server.read(&object, offset, len).await })
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.names(folder, false)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>> {
        self.names(folder, true)
    }

    fn remove(&self, _: &[String]) -> Result<()> {
        Err(self.read_only())
    }
}

/// The response for the index of a folder.
enum Index {
    /// The folder is unchanged.
    Same,
    /// The folder does not exist.
    Missing,
    New(Option<String>, Vec<Entry>),
}

impl Server {
    pub(crate) fn new(
        url: &str,
        patience: Patience,
        client: reqwest::ClientBuilder,
    ) -> Result<Server> {
        let wrong = |e: &dyn fmt::Display| Error::invalid(format!("`{}`: {e}", redact_url(url)));
        let parsed = Url::parse(url).map_err(|e| wrong(&e))?;
        let client = client.connect_timeout(patience.connect).timeout(patience.request);
        let client = client.build().map_err(|e| wrong(&failure::root(&e)))?;
        Ok(Server { client, url: parsed, retries: patience.retries })
    }

    /// The URL without credentials, for messages.
    pub(crate) fn shown(&self) -> String {
        redact_url(self.url.as_str())
    }

    fn url_of(&self, object: &str) -> Result<Url, Failed> {
        let wrong = |e| Failed::new(ErrorKind::InvalidArgument, format!("`{object}`: {e}"), false);
        self.url.join(object).map_err(wrong)
    }

    pub(crate) async fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        self.again(|| self.read_once(object, offset, len)).await
    }

    /// [`Server::read`] without retries; `len` is not 0.
    pub(crate) async fn read_once(
        &self,
        object: &str,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, Failed> {
        let url = self.url_of(object)?;
        let end = offset.saturating_add(len as u64 - 1);
        let range = format!("bytes={offset}-{end}");
        let answer = self.client.get(url.clone()).header(RANGE, &range).send().await;
        let answer = answer.map_err(|e| Failed::to_pass(&e, &url))?;
        part(answer, offset, len).await.map_err(|failed| failed.at(&url))
    }

    async fn index(&self, folder: &str, etag: Option<String>) -> Result<Index> {
        let slash = if folder.is_empty() { "" } else { "/" };
        let url = self.url_of(&format!("{folder}{slash}")).map_err(|failed| failed.error)?;
        let ask = || async {
            let mut request = self.client.get(url.clone());
            request = request.header(ACCEPT, "application/json, text/html;q=0.9");
            if let Some(etag) = &etag {
                request = request.header(IF_NONE_MATCH, etag);
            }
            let answer = request.send().await.map_err(|e| Failed::to_pass(&e, &url))?;
            of_folder(answer, &url).await.map_err(|failed| failed.at(&url))
        };
        self.again(ask).await
    }

    /// Retries failures that may be temporary, after a pause that doubles each time.
    async fn again<T, F>(&self, call: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let mut wait = Duration::from_millis(100);
        for _ in 0..self.retries {
            match call().await {
                Err(failed) if failed.may_pass => tokio::time::sleep(wait).await,
                done => return done.map_err(|failed| failed.error),
            }
            wait *= 2;
        }
        call().await.map_err(|failed| failed.error)
    }
}

/// Why a request failed.
pub(crate) struct Failed {
    pub(crate) error: Error,
    may_pass: bool,
    /// The pause that the server asked for.
    pub(crate) retry_after: Option<Duration>,
}

impl Failed {
    fn new(kind: ErrorKind, message: impl Into<String>, may_pass: bool) -> Failed {
        Failed { error: Error::new(kind, message), may_pass, retry_after: None }
    }

    fn to_pass(error: &reqwest::Error, url: &Url) -> Failed {
        let why = failure::root(error);
        let message = format!("no answer: {why}; look at the server and the network, try again");
        Failed::new(ErrorKind::Io, message, true).at(url)
    }

    /// The error of a response with an unexpected status.
    fn status(status: StatusCode) -> Failed {
        let passes = status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
        Failed::new(ErrorKind::Io, format!("the server answers {status}"), passes)
    }

    fn at(self, url: &Url) -> Failed {
        let shown = redact_url(url.as_str());
        Failed { error: self.error.in_file(shown.as_ref()), ..self }
    }
}

/// At most `len` bytes of a response, from `offset` on.
async fn part(answer: Response, offset: u64, len: usize) -> Result<Vec<u8>, Failed> {
    let wrong = |message: &str| Err(Failed::new(ErrorKind::Io, message, true));
    let expected = match answer.status() {
        StatusCode::PARTIAL_CONTENT => {
            let range = answer.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
            let Some((start, whole)) = range.and_then(content_range) else {
                return wrong("the answer does not say which part of the file it is");
            };
            if start != offset {
                return wrong("the answer is another part of the file than was asked for");
            }
            Some(usize::try_from(whole.saturating_sub(start)).unwrap_or(len).min(len))
        }
        StatusCode::OK if offset == 0 => None,
        StatusCode::OK => {
            let message = "the server does not answer ranges of files: use one that does";
            return Err(Failed::new(ErrorKind::Io, message, false));
        }
        StatusCode::RANGE_NOT_SATISFIABLE => return Ok(Vec::new()),
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            return Err(Failed::new(ErrorKind::NotFound, "there is no such file", false));
        }
        status => {
            let said = answer.headers().get(RETRY_AFTER).map(|value| value.to_str());
            // The header may also contain a date, which is ignored.
            let seconds = |text: &str| text.trim().parse().unwrap_or(1);
            let retry_after = said.map(|text| Duration::from_secs(text.map_or(1, seconds)));
            return Err(Failed { retry_after, ..Failed::status(status) });
        }
    };
    let bytes = body(answer, len).await?;
    match expected {
        Some(expected) if expected != bytes.len() => {
            wrong(&format!("{} bytes of {expected} were given", bytes.len()))
        }
        _ => Ok(bytes),
    }
}

/// The start of the range and the total length, in `bytes 0-1/2`.
fn content_range(text: &str) -> Option<(u64, u64)> {
    let (range, whole) = text.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, whole.parse().ok()?))
}

/// The body of a response, but at most `len` bytes.
async fn body(mut answer: Response, len: usize) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let chunk = answer.chunk().await.map_err(|e| {
            let message = format!("the answer was cut off: {}", failure::root(&e));
            Failed::new(ErrorKind::Io, message, true)
        })?;
        let Some(chunk) = chunk else { break };
        bytes.extend_from_slice(&chunk[..chunk.len().min(len - bytes.len())]);
    }
    Ok(bytes)
}

async fn of_folder(answer: Response, url: &Url) -> Result<Index, Failed> {
    let no_index = "the server does not show what is in this folder: turn its index pages on \
                    (nginx: autoindex on), or ask a relay";
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED => return Ok(Index::Same),
        StatusCode::NOT_FOUND => return Ok(Index::Missing),
        StatusCode::FORBIDDEN => return Err(Failed::new(ErrorKind::Io, no_index, false)),
        status => return Err(Failed::status(status)),
    }
    let etag = answer.headers().get(ETAG).and_then(|etag| etag.to_str().ok());
    let etag = etag.map(str::to_string);
    let page = body(answer, MAX_INDEX).await?;
    let entries = std::str::from_utf8(&page).ok().and_then(|page| index::parse(url, page));
    let entries = entries.ok_or_else(|| Failed::new(ErrorKind::Io, no_index, false))?;
    Ok(Index::New(etag, entries))
}
