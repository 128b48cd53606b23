//! Catalogs of FirnDB in object stores, in HDFS, and over HTTP.
//!
//! | type | what it is |
//! |---|---|
//! | [`open`], [`create`] | a catalog by its place: a directory, `s3://`, `hdfs://`, `https://` |
//! | [`ObjectOrigin`] | objects of S3, of HDFS, or of any store that `object_store` knows |
//! | [`HttpOrigin`] | a catalog that a web server shows: to read |
//! | [`Relay`] | serves the files of readers over HTTP |
//! | [`Peers`] | asks relays for files before it asks the catalog |
//!
//! The library `firndb` has neither an async runtime nor HTTP in it; this crate has both, hidden
//! behind [`firndb::catalog::Origin`]: calls block. HDFS is the feature `hdfs`, on by default.

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

/// The catalog at a place, named as [`Place::parse`] reads it. `NotFound` if there is no such
/// directory or bucket; an empty prefix of a bucket is an empty catalog.
pub fn open(place: &str) -> Result<Catalog> {
    at(place, |dir| Catalog::open(dir))
}

/// The catalog at a place, as [`open`]; a directory is made if it is missing, a bucket is not.
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
            let message = "this was built without the feature `hdfs`";
            return Err(firndb::Error::invalid(message).in_file(place.as_ref()));
        }
        Place::Http(url) => Arc::new(HttpOrigin::new(&url, patience)?),
    };
    Ok(Catalog::at(origin))
}
