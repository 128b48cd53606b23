//! Where a catalog is: what every command that takes one takes.

use firndb::Result;
use firndb::catalog::Catalog;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Where a catalog is.
#[derive(clap::Args)]
pub struct Place {
    /// Where the catalog is: a directory, s3://BUCKET/PREFIX, or http(s)://HOST/FOLDER to read.
    #[arg(id = "catalog", value_name = "CATALOG")]
    name: PathBuf,
}

impl Place {
    pub fn new(name: impl AsRef<OsStr>) -> Place {
        Place { name: PathBuf::from(name.as_ref()) }
    }

    /// The catalog that is there.
    pub fn open(&self) -> Result<Catalog> {
        match self.url() {
            Some(url) => remote::open(url),
            None => Catalog::open(&self.name),
        }
    }

    /// The catalog; a directory is made if there is none.
    pub fn create(&self) -> Result<Catalog> {
        match self.url() {
            Some(url) => remote::open(url),
            None => Catalog::create(&self.name),
        }
    }

    fn url(&self) -> Option<&str> {
        self.name.to_str().filter(|name| name.contains("://"))
    }
}

#[cfg(feature = "remote")]
use firndb_remote as remote;

#[cfg(not(feature = "remote"))]
mod remote {
    use firndb::catalog::Catalog;
    use firndb::{Error, Result};

    pub fn open(url: &str) -> Result<Catalog> {
        let message = "this `firn` was built without the feature `remote`: it knows directories";
        Err(Error::invalid(message).in_file(url.as_ref()))
    }
}
