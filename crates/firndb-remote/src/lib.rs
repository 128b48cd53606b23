//! Catalogs of FirnDB in object stores, in HDFS, and over HTTP.
//!
//! | type | purpose |
//! |---|---|
//! | [`open`], [`create`] | open a catalog: a directory, `s3://`, `hdfs://` or `https://` |
//! | [`ObjectOrigin`] | objects in S3, in HDFS, or in any store supported by `object_store` |
//! | [`HttpOrigin`] | a read-only catalog on a web server |
//! | [`Relay`] | serves the files of readers over HTTP |
//! | [`Peers`] | fetches files from relays and falls back to the catalog |
//!
//! The library `firndb` contains neither an async runtime nor HTTP. This crate contains both behind
//! the blocking interface [`firndb::catalog::Origin`]. HDFS is the feature `hdfs`, which is off by
//! default.

mod failure;
#[cfg(feature = "hdfs")]
mod hdfs;
mod http;
mod index;
mod peers;
mod place;
mod relay;
mod respond;
mod runtime;
mod store;
mod upload;

pub use http::HttpOrigin;
pub use object_store;
pub use peers::Peers;
pub use place::Place;
pub use relay::{Relay, RelayStats};
pub use store::{ObjectOrigin, Patience};

use firndb::Result;
use firndb::catalog::{Catalog, Origin};
use std::path::Path;
use std::sync::Arc;

/// Opens the catalog at a location, as parsed by [`Place::parse`]. `NotFound` if the directory or
/// bucket does not exist; an empty prefix of a bucket is an empty catalog.
pub fn open(place: &str) -> Result<Catalog> {
    at(place, |dir| Catalog::open(dir))
}

/// Opens the catalog at a location like [`open`]. Creates a missing directory, but not a missing
/// bucket.
pub fn create(place: &str) -> Result<Catalog> {
    at(place, |dir| Catalog::create(dir))
}

fn at(place: &str, local: impl FnOnce(&Path) -> Result<Catalog>) -> Result<Catalog> {
    let patience = Patience::default();
    let origin: Arc<dyn Origin> = match Place::parse(place)? {
        Place::Directory(dir) => return local(&dir),
        Place::S3 { bucket, prefix } => Arc::new(ObjectOrigin::s3(&bucket, &prefix, patience)?),
        #[cfg(feature = "hdfs")]
        Place::Hdfs { server, prefix } => Arc::new(ObjectOrigin::hdfs(&server, &prefix, patience)?),
        #[cfg(not(feature = "hdfs"))]
        Place::Hdfs { .. } => {
            let message = "this program was built without HDFS; build it with `--features hdfs`";
            return Err(firndb::Error::invalid(message).in_file(place.as_ref()));
        }
        Place::Http(url) => Arc::new(HttpOrigin::new(&url, patience)?),
    };
    Ok(Catalog::at(origin))
}

/// Compiles the programs of docs/catalog.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/catalog.md")]
pub struct CatalogGuide;
