//! Names of catalogs: which version is open, and which versions there are.

use super::Context;
use super::problem::Problem;
use super::reply::{Reply, json};
use crate::stores::{Entry, Source};
use firndb::catalog::{Catalog, Version};
use firndb::search::timestamp_to_text;
use firndb::{Result, redact};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde_json::{Value as Json, json};

/// The maximum number of versions of a catalog in a response: the newest ones.
const MAX_VERSIONS: usize = 1000;

/// The state of all names of catalogs. The catalogs themselves are not asked.
pub async fn list(context: &Context, request: &Request<Incoming>) -> Reply {
    only_get(request)?;
    let all = context.app.stores.all();
    let catalogs: Vec<Json> = all.iter().filter_map(|entry| state(entry)).collect();
    Ok(json(StatusCode::OK, &json!({ "catalogs": catalogs })))
}

/// The state of one name, with its versions in the catalog.
pub async fn show(context: &Context, store: &str, request: &Request<Incoming>) -> Reply {
    only_get(request)?;
    let entry = context.app.stores.entry(store)?;
    let Some(mut facts) = state(&entry) else {
        let detail = format!("`{store}` does not come from a catalog: use /v1/stores");
        return Err(Problem::new(StatusCode::NOT_FOUND, "not_found", detail));
    };
    let facts = context.app.work(move |_| {
        if let Source::Catalog { catalog, name, .. } = &entry.source {
            match versions(catalog, name) {
                Ok((count, newest)) => {
                    facts["version_count"] = count.into();
                    facts["versions"] = newest.into();
                }
                // What the server knows without the catalog is useful then, too.
                Err(error) => facts["catalog_error"] = redact(&error.to_string()).into(),
            }
        }
        Ok(facts)
    });
    Ok(json(StatusCode::OK, &facts.await?))
}

fn only_get(request: &Request<Incoming>) -> Result<(), Problem> {
    match *request.method() {
        Method::GET => Ok(()),
        _ => Err(Problem::method("GET")),
    }
}

/// The number of versions in the catalog, and the newest ones, descending.
fn versions(catalog: &Catalog, name: &str) -> Result<(usize, Vec<u64>)> {
    let mut versions = catalog.versions(name)?;
    let count = versions.len();
    versions.reverse();
    versions.truncate(MAX_VERSIONS);
    Ok((count, versions))
}

/// What the server knows about a name of a catalog; `None` for other stores.
fn state(entry: &Entry) -> Option<Json> {
    let Source::Catalog { place, name, reader, .. } = &entry.source else { return None };
    let (generation, mut stats) = (reader.current(), reader.stats());
    // Messages may have the URL of the catalog.
    stats.last_error = stats.last_error.map(|error| redact(&error));
    let version = generation.version();
    Some(json!({
        "name": entry.name,
        "kind": entry.kind(),
        "place": place,
        "catalog_name": name,
        "version": version.number,
        "newest": stats.newest.max(version.number),
        "switched": timestamp_to_text(stats.switched),
        "last_error": stats.last_error,
        "live": live(version),
        "stats": stats,
    }))
}

/// The open version.
fn live(version: &Version) -> Json {
    json!({
        "number": version.number,
        "id": version.id,
        "kind": version.kind.name(),
        "published": timestamp_to_text(version.time),
        "parent": version.parent,
        "restores": version.restores,
        "labels": version.labels,
        "statistics": version.statistics,
        "files": version.files.len(),
        "bytes": version.bytes(),
    })
}
