//! Arguments for the location of a catalog and for peers that serve its files.

use crate::kinds::{Kind, explain, kind_of};
use firndb::catalog::Catalog;
use firndb::{Error, ErrorKind, Result};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use remote::serve;

/// The location of a catalog.
#[derive(clap::Args)]
pub struct CatalogLocation {
    /// Where the catalog is: a directory, s3://BUCKET/PREFIX, hdfs://HOST:PORT/FOLDER, or
    /// http(s)://HOST/FOLDER to read.
    #[arg(id = "catalog", value_name = "CATALOG")]
    name: PathBuf,
}

impl CatalogLocation {
    pub fn new(name: impl AsRef<OsStr>) -> CatalogLocation {
        CatalogLocation { name: PathBuf::from(name.as_ref()) }
    }

    /// Opens the catalog.
    pub fn open(&self) -> Result<Catalog> {
        match self.url() {
            Some(url) => remote::open(url),
            None => Catalog::open(&self.name).and_then(|catalog| {
                // Any directory can be opened; another store is a mistake.
                match kind_of(&self.name) {
                    Kind::Missing | Kind::Catalog | Kind::OtherDirectory => Ok(catalog),
                    _ => Err(explain(Error::invalid("no catalog"), &self.name, &[])),
                }
            }),
        }
    }

    /// Opens the catalog to publish `path`. Creates the directory if it is missing, unless there is
    /// nothing to publish.
    pub fn create_for(&self, path: &Path) -> Result<Catalog> {
        match kind_of(path) {
            Kind::Table | Kind::Approximate | Kind::Collection | Kind::Damaged => {}
            // The directory of a sharded table.
            Kind::OtherDirectory if path.join("shard-00000.table").is_file() => {}
            Kind::Missing => {
                let message = "there is nothing to publish: name a table or a collection";
                return Err(Error::new(ErrorKind::NotFound, message).in_file(path));
            }
            found => {
                let message = format!(
                    "this is {}; a catalog has tables and collections, and `firn log freeze` makes \
                     a table of a log store",
                    found.noun()
                );
                return Err(Error::invalid(message).in_file(path));
            }
        }
        self.create()
    }

    /// Opens the catalog; creates the directory if it is missing.
    pub fn create(&self) -> Result<Catalog> {
        match self.url() {
            Some(url) => remote::open(url),
            None => Catalog::create(&self.name).map_err(|e| match kind_of(&self.name) {
                Kind::Missing | Kind::Catalog | Kind::OtherDirectory => e,
                found => {
                    let message = format!("this is {}; choose another one", found.noun());
                    Error::new(ErrorKind::AlreadyExists, message).in_file(&self.name)
                }
            }),
        }
    }

    fn url(&self) -> Option<&str> {
        self.name.to_str().filter(|name| name.contains("://"))
    }
}

/// Peers: readers nearby that serve the same files.
#[derive(clap::Args)]
pub struct Nearby {
    /// Ask this reader for files before the catalog: the URL at which it serves them. May be given
    /// several times; all peers should be given the same list, themselves included.
    #[arg(long = "peer", value_name = "URL")]
    peers: Vec<String>,
}

#[cfg(feature = "remote")]
mod remote {
    use super::Nearby;
    use firndb::Result;
    use firndb::catalog::{Catalog, Share};
    use firndb_remote::{Peers, Relay};
    use std::sync::Arc;

    pub use firndb_remote::open;

    /// Serves files to peers until it is dropped.
    pub type Serving = Relay;

    pub fn serve(address: &str, share: Share) -> Result<Serving> {
        Relay::serve(address, vec![share])
    }

    impl Nearby {
        /// The catalog, with these peers asked first.
        pub fn before(&self, catalog: Catalog, own: Option<&Serving>) -> Result<Catalog> {
            if self.peers.is_empty() {
                return Ok(catalog);
            }
            let origin = catalog.origin().clone();
            let peers = Peers::new(origin, &self.peers, own, Peers::patience())?;
            Ok(Catalog::at(Arc::new(peers)))
        }
    }
}

#[cfg(not(feature = "remote"))]
mod remote {
    use super::Nearby;
    use firndb::catalog::{Catalog, Share};
    use firndb::{Error, Result, redact_url};
    use std::net::SocketAddr;

    fn is_missing<T>(url: &str) -> Result<T> {
        let message = "this `firn` was built without the feature `remote`: it knows directories";
        Err(Error::invalid(message).in_file(redact_url(url).as_ref()))
    }

    pub fn open(url: &str) -> Result<Catalog> {
        is_missing(url)
    }

    pub enum Serving {}

    impl Serving {
        pub fn address(&self) -> SocketAddr {
            match *self {}
        }
    }

    pub fn serve(address: &str, _: Share) -> Result<Serving> {
        is_missing(address)
    }

    impl Nearby {
        pub fn before(&self, catalog: Catalog, _: Option<&Serving>) -> Result<Catalog> {
            self.peers.first().map_or(Ok(catalog), |url| is_missing(url))
        }
    }
}
