//! Administration: backups, compaction and verification of stores, and adding and removing them.
//!
//! This work has no deadline, takes no permits of queries, and continues when the client goes: the
//! library cannot interrupt it. Few such tasks run at a time; a further one is refused.
//!
//! Stores that are added or removed here are not written to the configuration: after a restart the
//! server has the stores of its options again.

use super::body;
use super::keys::writable;
use super::parse::{self, Input};
use super::problem::Problem;
use super::reply::{Reply, json, no_content};
use super::stores::{find, summary};
use super::{Context, Verb};
use crate::app::Phase;
use crate::config::{
    AccessMode, CatalogOptions, CollectionOptions, LogOptions, TableOptions, check_name, duration,
    refresh_seconds,
};
use crate::stores::{self, Entry, Kind, Source};
use bytes::Bytes;
use firndb::search::{Collection, MergePolicy};
use firndb::{Error, ErrorKind, Result};
use hyper::body::Incoming;
use hyper::header::{HeaderValue, LOCATION};
use hyper::{Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often to look whether the last request has released a store.
const POLL: Duration = Duration::from_millis(5);
/// The default of the stale share from which on a segment is compacted.
const THRESHOLD: f64 = 0.1;

/// Handles `:backup`, `:compact` and `:verify`.
pub async fn verb(
    context: &Context,
    kind: Kind,
    store: &str,
    verb: Verb,
    request: Request<Incoming>,
) -> Reply {
    let entry = match (verb, kind) {
        (Verb::Backup | Verb::Compact, Kind::Log) => writable(context, store)?,
        _ => find(context, kind, store)?,
    };
    let body = read(context, request).await?;
    let facts = match verb {
        Verb::Backup => backup(context, entry, &body).await?,
        Verb::Compact => compact(context, entry, &body).await?,
        _ => {
            let Nothing {} = options(&body)?;
            let verified = context.app.administer(move || entry.verify()).await?;
            serde_json::to_value(verified).unwrap_or_default()
        }
    };
    Ok(json(StatusCode::OK, &facts))
}

async fn read(context: &Context, request: Request<Incoming>) -> Result<Bytes, Problem> {
    Input::of(request.headers(), &[Input::Json])?;
    body::read(context, request.into_body()).await
}

/// The options of a body; an empty one is `{}`.
fn options<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    let body = body.trim_ascii();
    parse::json(if body.is_empty() { b"{}" } else { body }, 1, 1)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Backup {
    /// A directory of the server.
    to: PathBuf,
}

async fn backup(context: &Context, entry: Arc<Entry>, body: &[u8]) -> Result<Json, Problem> {
    let Backup { to } = options(body)?;
    if !to.is_absolute() {
        let detail = "`to` must be an absolute path, in the file system of the server";
        return Err(Problem::bad_request(detail));
    }
    let backup = context.app.administer(move || entry.log()?.backup(&to)).await?;
    let firndb::log::Backup { segments, kept, copied, .. } = backup;
    Ok(json!({ "segments": segments, "kept": kept, "copied": copied }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompactLog {
    /// The stale share of a segment from which on it is rewritten.
    threshold: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompactCollection {
    small: Option<u32>,
    most_documents: Option<u32>,
    most_bytes: Option<u64>,
    at_least: Option<usize>,
    unchanged_seconds: Option<f64>,
}

async fn compact(context: &Context, entry: Arc<Entry>, body: &[u8]) -> Result<Json, Problem> {
    if entry.kind() == Kind::Log {
        let CompactLog { threshold } = options(body)?;
        let threshold = threshold.unwrap_or(THRESHOLD);
        if !(0.0..=1.0).contains(&threshold) {
            return Err(Problem::bad_request("`threshold` must be from 0 to 1"));
        }
        let compacted = context.app.administer(move || entry.log()?.compact(threshold)).await?;
        return Ok(json!({ "segments": compacted }));
    }
    let policy = options::<CompactCollection>(body)?.policy()?;
    let Source::Collection { collection, .. } = &entry.source else {
        let detail = "a collection of a catalog is compacted where it is published";
        return Err(Problem::bad_request(detail));
    };
    let collection = collection.clone();
    let work = move || {
        let _entry = entry; // Not closed before the work is done.
        merge(&collection, &policy)
    };
    Ok(json!({ "merges": context.app.administer(work).await? }))
}

impl CompactCollection {
    fn policy(self) -> Result<MergePolicy, Problem> {
        let default = MergePolicy::default();
        let unchanged = match self.unchanged_seconds {
            None => default.unchanged_for,
            Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| {
                Problem::bad_request("`unchanged_seconds` is not a number of seconds")
            })?,
        };
        let (small, documents) = (default.small, default.most_documents);
        let (bytes, at_least) = (default.most_bytes, default.at_least);
        Ok(default
            .small(self.small.unwrap_or(small))
            .most_documents(self.most_documents.unwrap_or(documents))
            .most_bytes(self.most_bytes.unwrap_or(bytes))
            .at_least(self.at_least.unwrap_or(at_least))
            .unchanged_for(unchanged))
    }
}

fn merge(collection: &Collection, policy: &MergePolicy) -> Result<Vec<Json>> {
    let mut merges = Vec::new();
    collection.compact(policy, |merge| {
        let (from, into, documents) = (&merge.from, &merge.into, merge.documents);
        merges.push(json!({ "from": from, "into": into, "documents": documents }));
    })?;
    Ok(merges)
}

/// A store to add: the options of the configuration, with the name and the kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewStore {
    name: String,
    kind: NewKind,
    path: Option<PathBuf>,
    create: Option<bool>,
    ordered: Option<bool>,
    read_only: Option<bool>,
    sync: Option<bool>,
    access: Option<AccessMode>,
    refresh_seconds: Option<f64>,
    /// The catalog.
    place: Option<String>,
    /// The name in the catalog.
    entry: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NewKind {
    Log,
    Table,
    Collection,
    Catalog,
}

impl NewStore {
    /// An error if an option belongs to another kind of store.
    fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        use NewKind::{Catalog, Collection, Log, Table};
        let given: [(&str, bool, &[NewKind]); 9] = [
            ("path", self.path.is_some(), &[Log, Table, Collection]),
            ("create", self.create.is_some(), &[Log]),
            ("ordered", self.ordered.is_some(), &[Log]),
            ("read_only", self.read_only.is_some(), &[Log]),
            ("sync", self.sync.is_some(), &[Log]),
            ("access", self.access.is_some(), &[Table, Catalog]),
            ("refresh_seconds", self.refresh_seconds.is_some(), &[Collection, Catalog]),
            ("place", self.place.is_some(), &[Catalog]),
            ("entry", self.entry.is_some(), &[Catalog]),
        ];
        let wrong = given.iter().find(|(_, given, kinds)| *given && !kinds.contains(&self.kind));
        match wrong {
            None => Ok(()),
            Some((name, ..)) => {
                let kind = format!("{:?}", self.kind).to_lowercase();
                Err(Error::invalid(format!("a store of the kind `{kind}` has no `{name}`")))
            }
        }
    }

    fn open(self, config: &crate::config::Config) -> Result<Entry> {
        let name = &self.name;
        let missing = |what: &str| Error::invalid(format!("`{what}` is missing"));
        let refresh_seconds = self.refresh_seconds.unwrap_or(refresh_seconds());
        let access = self.access.unwrap_or_default();
        if self.kind == NewKind::Catalog {
            let place = self.place.ok_or_else(|| missing("place"))?;
            let entry = self.entry.ok_or_else(|| missing("entry"))?;
            let options = CatalogOptions { place, name: entry, refresh_seconds, access };
            return stores::open_catalog(name, &options, config);
        }
        let path = self.path.ok_or_else(|| missing("path"))?;
        if !path.is_absolute() {
            let message = "`path` must be absolute, in the file system of the server";
            return Err(Error::invalid(message));
        }
        match self.kind {
            NewKind::Log => {
                let [create, ordered, read_only, sync] =
                    [self.create, self.ordered, self.read_only, self.sync]
                        .map(Option::unwrap_or_default);
                stores::open_log(name, &LogOptions { path, create, ordered, read_only, sync })
            }
            NewKind::Table => stores::open_table(name, &TableOptions { path, access }),
            _ => stores::open_collection(name, &CollectionOptions { path, refresh_seconds }),
        }
    }
}

/// Opens and warms a store, and serves it.
pub async fn add(context: &Context, request: Request<Incoming>) -> Reply {
    let body = read(context, request).await?;
    let new: NewStore = options(&body)?;
    new.check()?;
    let app = context.app.clone();
    let work = move || {
        // Otherwise the name may be one of the options, or the store would not be closed.
        if app.phase() != Phase::Ready {
            return Err(Error::new(ErrorKind::Failed, "the server is starting or draining"));
        }
        if app.stores.entry(&new.name).is_ok() {
            let message = format!("there is a store `{}` already", new.name);
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        app.stores.add(new.open(&app.config)?)
    };
    let entry = context.app.administer(work).await?;
    tracing::info!(store = entry.name, location = entry.location, "added a store");
    let mut response = json(StatusCode::CREATED, &summary(&entry));
    let location = format!("/v1/{}/{}", entry.kind().path(), entry.name);
    let location = HeaderValue::from_str(&location).expect("names are printable");
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// Removes a store: new requests do not find it, running ones finish, then it is closed. Its files
/// stay.
pub async fn remove(context: &Context, kind: Kind, store: &str) -> Reply {
    find(context, kind, store)?;
    let entry = context.app.stores.remove(store)?;
    tracing::info!(store, "removed a store");
    let limit = duration(context.app.config.limits.drain_seconds);
    // A task of its own: the store is closed even if the client goes.
    let closing = tokio::spawn(async move {
        let until = Instant::now() + limit;
        while Arc::strong_count(&entry) > 1 && Instant::now() < until {
            tokio::time::sleep(POLL).await;
        }
        tokio::task::spawn_blocking(move || entry.close()).await
    });
    match closing.await {
        Ok(Ok(closed)) => closed?,
        _ => return Err(Error::new(ErrorKind::Failed, "closing the store panicked").into()),
    }
    Ok(no_content())
}
