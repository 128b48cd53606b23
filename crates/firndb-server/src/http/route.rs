//! Routes: which function a path belongs to.
//!
//! Names of stores need no percent-encoding; a key is the rest of the path after `/keys/`.

use super::problem::Problem;
use crate::auth::Role;
use crate::stores::Kind;

/// A route with the variable parts of its path.
#[derive(Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `/livez`
    Live,
    /// `/readyz`
    Ready,
    /// `/metrics`
    Metrics,
    /// `/openapi.json`
    OpenApi,
    /// `/v1/stores`
    Stores,
    /// `/v1/KIND/NAME`
    Store {
        /// The kind in the path.
        kind: Kind,
        /// The name of the store.
        store: &'a str,
    },
    /// `/v1/KIND/NAME/keys/KEY`
    Key {
        /// The kind in the path.
        kind: Kind,
        /// The name of the store.
        store: &'a str,
        /// The key as it is in the path.
        key: &'a str,
    },
    /// `/v1/KIND/NAME:VERB`
    Verb {
        /// The kind in the path.
        kind: Kind,
        /// The name of the store.
        store: &'a str,
        /// What to do.
        verb: Verb,
    },
    /// The prefix of `--bsdb-compat`, and a key
    Bsdb {
        /// The key as it is in the path.
        key: &'a str,
    },
    /// `/v1/catalogs`
    Catalogs,
    /// `/v1/catalogs/NAME`
    Catalog {
        /// The name under which the entry is served.
        store: &'a str,
    },
}

/// What can be done with a store by `POST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; docs/server.md describes them")]
pub enum Verb {
    Mget,
    Mput,
    Scan,
    Search,
    Count,
    Facets,
    Group,
    Explain,
    Backup,
    Compact,
    Verify,
}

impl Verb {
    const ALL: [(Verb, &'static str); 11] = [
        (Verb::Mget, "mget"),
        (Verb::Mput, "mput"),
        (Verb::Scan, "scan"),
        (Verb::Search, "search"),
        (Verb::Count, "count"),
        (Verb::Facets, "facets"),
        (Verb::Group, "group"),
        (Verb::Explain, "explain"),
        (Verb::Backup, "backup"),
        (Verb::Compact, "compact"),
        (Verb::Verify, "verify"),
    ];

    /// All verbs.
    pub fn all() -> impl Iterator<Item = Verb> {
        Verb::ALL.iter().map(|(verb, _)| *verb)
    }

    fn parse(name: &str) -> Option<Verb> {
        Verb::ALL.iter().find(|(_, its)| *its == name).map(|(verb, _)| *verb)
    }

    /// The name in the path.
    pub fn name(self) -> &'static str {
        Verb::ALL.iter().find(|(verb, _)| *verb == self).map_or("", |(_, name)| name)
    }

    /// Whether stores of this kind have the verb.
    pub fn fits(self, kind: Kind) -> bool {
        match self {
            Verb::Mget | Verb::Scan => kind != Kind::Collection,
            Verb::Mput | Verb::Backup => kind == Kind::Log,
            Verb::Compact => kind != Kind::Table,
            Verb::Verify => true,
            Verb::Search | Verb::Count | Verb::Facets | Verb::Group | Verb::Explain => {
                kind == Kind::Collection
            }
        }
    }

    /// Who may use the verb.
    pub fn role(self) -> Role {
        match self {
            Verb::Mput => Role::Write,
            Verb::Backup | Verb::Compact | Verb::Verify => Role::Admin,
            _ => Role::Read,
        }
    }
}

impl<'a> Route<'a> {
    /// The route of a path, without its query.
    pub fn parse(path: &'a str) -> Result<Route<'a>, Problem> {
        let route = match path {
            "/livez" => Some(Route::Live),
            "/readyz" => Some(Route::Ready),
            "/metrics" => Some(Route::Metrics),
            "/openapi.json" => Some(Route::OpenApi),
            "/v1/stores" => Some(Route::Stores),
            "/v1/catalogs" => Some(Route::Catalogs),
            _ => path.strip_prefix("/v1/").and_then(Route::of_store),
        };
        route.ok_or_else(Problem::no_route)
    }

    /// The route of what follows `/v1/`.
    fn of_store(path: &'a str) -> Option<Route<'a>> {
        let (kind, rest) = path.split_once('/')?;
        let kind = match kind {
            "logs" => Kind::Log,
            "tables" => Kind::Table,
            "collections" => Kind::Collection,
            "catalogs" if is_name(rest) => return Some(Route::Catalog { store: rest }),
            _ => return None,
        };
        if let Some((store, rest)) = rest.split_once('/') {
            let key = rest.strip_prefix("keys/")?;
            let has_keys = kind != Kind::Collection && is_name(store);
            return has_keys.then_some(Route::Key { kind, store, key });
        }
        if let Some((store, verb)) = rest.split_once(':') {
            let verb = Verb::parse(verb).filter(|verb| verb.fits(kind) && is_name(store))?;
            return Some(Route::Verb { kind, store, verb });
        }
        is_name(rest).then_some(Route::Store { kind, store: rest })
    }

    /// The name of the route, for counters.
    pub fn name(&self) -> &'static str {
        match self {
            Route::Live => "livez",
            Route::Ready => "readyz",
            Route::Metrics => "metrics",
            Route::OpenApi => "openapi",
            Route::Stores => "stores",
            Route::Store { .. } => "store",
            Route::Key { .. } => "key",
            Route::Verb { verb, .. } => verb.name(),
            Route::Bsdb { .. } => "bsdb",
            Route::Catalogs => "catalogs",
            Route::Catalog { .. } => "catalog",
        }
    }
}

/// Whether this can be the name of a store. A path that contains something else, such as `..` or a
/// percent sign, has no route.
fn is_name(text: &str) -> bool {
    crate::config::check_name(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_routes() {
        let key = |path| match Route::parse(path) {
            Ok(Route::Key { kind, store, key }) => Some((kind, store, key)),
            _ => None,
        };
        assert_eq!(key("/v1/logs/a/keys/k"), Some((Kind::Log, "a", "k")));
        assert_eq!(key("/v1/tables/a.b/keys/x/y%2F:z"), Some((Kind::Table, "a.b", "x/y%2F:z")));
        assert_eq!(key("/v1/logs/a/keys/"), Some((Kind::Log, "a", "")));
        let verb = Route::Verb { kind: Kind::Collection, store: "c", verb: Verb::Search };
        assert_eq!(Route::parse("/v1/collections/c:search").ok(), Some(verb));
        assert_eq!(Route::parse("/v1/stores").ok(), Some(Route::Stores));
        let store = Route::Store { kind: Kind::Log, store: "a" };
        assert_eq!(Route::parse("/v1/logs/a").ok(), Some(store));
        assert_eq!(Route::parse("/v1/catalogs/a").ok(), Some(Route::Catalog { store: "a" }));
    }

    #[test]
    fn other_paths_have_none() {
        for path in [
            "",
            "/",
            "/v1",
            "/v1/",
            "/v1/logs",
            "/v1/logs/",
            "/v1/logs/a/",
            "/v1/logs/a/keys",
            "/v1/logs/../keys/k",
            "/v1/logs/%61/keys/k",
            "/v1/logs/a%2fb/keys/k",
            "/v1/logs/a:search",
            "/v1/tables/a:mput",
            "/v1/collections/a:mget",
            "/v1/collections/a/keys/k",
            "/v1/logs/a:",
            "/v1/logs/:mget",
            "/v1/other/a",
            "/v2/logs/a",
            "//v1/logs/a",
        ] {
            assert!(Route::parse(path).is_err(), "{path}");
        }
    }
}
