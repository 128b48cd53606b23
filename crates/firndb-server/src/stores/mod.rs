//! The open stores by name.
//!
//! The map is replaced as a whole when a store is added or removed, so that a request never waits
//! for either.

mod entry;
mod open;
mod refresher;
mod table;

pub use entry::{Entry, Kind, Source, TableHandle, TableRef};
pub use open::{open_catalog, open_collection, open_log, open_table};
pub use table::TableCursor;

use arc_swap::ArcSwap;
use firndb::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

type Map = BTreeMap<String, Arc<Entry>>;

/// The open stores by name.
#[derive(Default)]
pub struct Stores {
    map: ArcSwap<Map>,
    changing: Mutex<()>,
}

impl Stores {
    /// The store of a name.
    ///
    /// Errors: `NotFound`.
    pub fn entry(&self, name: &str) -> Result<Arc<Entry>> {
        self.map
            .load()
            .get(name)
            .cloned()
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no store `{name}`")))
    }

    /// Calls `read` with the store of a name. Cheaper than [`Stores::entry`] by a counter that all
    /// threads share.
    ///
    /// Errors: `NotFound`.
    pub fn with<T>(&self, name: &str, read: impl FnOnce(&Entry) -> T) -> Result<T> {
        match self.map.load().get(name) {
            Some(entry) => Ok(read(entry)),
            None => self.entry(name).map(|entry| read(&entry)),
        }
    }

    /// All stores, ordered by name.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.map.load().values().cloned().collect()
    }

    /// The only table.
    ///
    /// Errors: `NotFound` if there is none, or more than one.
    pub fn only_table(&self) -> Result<Arc<Entry>> {
        let map = self.map.load();
        let mut tables = map.values().filter(|entry| entry.kind() == Kind::Table);
        match (tables.next(), tables.next()) {
            (Some(table), None) => Ok(table.clone()),
            (None, _) => Err(Error::new(ErrorKind::NotFound, "there is no table")),
            (Some(_), Some(_)) => {
                let message = "there are several tables: name one with --bsdb-store";
                Err(Error::new(ErrorKind::NotFound, message))
            }
        }
    }

    /// Adds an open store.
    ///
    /// Errors: `AlreadyExists` if the name is taken.
    pub fn add(&self, entry: Entry) -> Result<Arc<Entry>> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut map = Map::clone(&self.map.load());
        if map.contains_key(&entry.name) {
            let message = format!("there is a store `{}` already", entry.name);
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let entry = Arc::new(entry);
        map.insert(entry.name.clone(), entry.clone());
        self.map.store(Arc::new(map));
        Ok(entry)
    }

    /// Removes a store from the map and returns it. Requests that have it finish.
    ///
    /// Errors: `NotFound`.
    pub fn remove(&self, name: &str) -> Result<Arc<Entry>> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = self.entry(name)?;
        let mut map = Map::clone(&self.map.load());
        map.remove(name);
        self.map.store(Arc::new(map));
        Ok(entry)
    }

    /// Removes and closes all stores. Returns the errors with the names of the stores.
    pub fn close(&self) -> Vec<(String, Error)> {
        let map = self.map.swap(Arc::default());
        let errors = map.values().map(|entry| (entry.name.clone(), entry.close()));
        errors.filter_map(|(name, result)| Some((name, result.err()?))).collect()
    }
}
