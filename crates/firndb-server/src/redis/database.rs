//! The stores by their numbers, which clients choose with SELECT.

use super::unit::Source;
use crate::app::{App, Phase};
use crate::config::Config;
use crate::stores;
use firndb::Error;

/// A store that has a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// The name of the store.
    pub name: String,
    /// Whether a write may wait for the disk.
    pub is_synced: bool,
    /// Whether the store is only read.
    pub is_read_only: bool,
}

impl Database {
    /// The databases of a server: those that the options name, otherwise the log stores, the
    /// tables and the names of catalogs, each in the order of their names.
    pub fn all(config: &Config) -> Vec<Database> {
        let mut names: Vec<&String> = config.redis.databases.iter().collect();
        if names.is_empty() {
            names.extend(config.logs.keys());
            names.extend(config.tables.keys());
            names.extend(config.catalogs.keys());
        }
        let of = |name: &String| {
            let log = config.logs.get(name);
            Database {
                name: name.clone(),
                is_synced: log.is_some_and(|log| log.sync),
                is_read_only: log.is_none_or(|log| log.read_only),
            }
        };
        names.into_iter().map(of).collect()
    }

    /// Calls `f` with the store, as it is now, or with the text of an error.
    pub fn with<T>(&self, app: &App, f: impl FnOnce(Result<Source<'_>, String>) -> T) -> T {
        let mut f = Some(f);
        let mut call = |source: Result<Source<'_>, String>| f.take().map(|f| f(source));
        let result = app.stores.with(&self.name, |entry| match &entry.source {
            stores::Source::Log(store) => call(Ok(Source::Log(store))),
            _ => {
                let handle = match entry.table() {
                    Ok(handle) => handle,
                    Err(error) => return call(Err(shown(&error))),
                };
                let version = match &handle {
                    stores::TableHandle::Version(generation) => generation.version().number,
                    _ => 0,
                };
                let result = entry.with_shown(&handle, |rows| match handle.get_ref() {
                    Ok(table) => call(Ok(Source::Table(table, version, rows))),
                    Err(error) => call(Err(shown(&error))),
                });
                match result {
                    Ok(result) => result,
                    Err(error) => call(Err(shown(&error))),
                }
            }
        });
        let result = match result {
            Ok(result) => result,
            Err(error) => call(Err(absent(app, &error))),
        };
        result.expect("the function was called once")
    }
}

fn shown(error: &Error) -> String {
    format!("{} {}", error.kind().redis_prefix(), error.message())
}

/// The error of a store that is not there.
fn absent(app: &App, error: &Error) -> String {
    match app.phase() {
        Phase::Starting => "LOADING Redis is loading the dataset in memory".to_string(),
        _ => shown(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LogOptions, TableOptions};

    #[test]
    fn stores_are_numbered_by_kind_and_name_or_as_the_options_say() {
        let mut config = Config::default();
        config.tables.insert("a".to_string(), TableOptions::default());
        for (name, sync) in [("z", true), ("b", false)] {
            config.logs.insert(name.to_string(), LogOptions { sync, ..LogOptions::default() });
        }
        let shown = |config: &Config| {
            let all = Database::all(config);
            let show = |d: &Database| format!("{} {} {}", d.name, d.is_synced, d.is_read_only);
            all.iter().map(show).collect::<Vec<_>>()
        };
        assert_eq!(shown(&config), ["b false false", "z true false", "a false true"]);
        config.redis.databases = vec!["a".to_string(), "b".to_string()];
        assert_eq!(shown(&config), ["a false true", "b false false"]);
    }
}
