//! Options of the server: a TOML file, then the command line, which overrides the file.
//!
//! An unknown key of the file is an error, so that a misspelt limit does not go unnoticed.

mod args;
mod limits;

pub use args::Args;
pub use limits::{Limits, duration};

use crate::auth::Role;
use firndb::table::Access;
use firndb::{Error, Result, redact, redact_url};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The options of a server.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The HTTP interface.
    pub http: Http,
    /// The Redis interface.
    pub redis: Redis,
    /// Certificates; `None` serves plain text.
    pub tls: Option<Tls>,
    /// Who may do what.
    pub auth: Auth,
    /// Limits of connections, requests and queries.
    pub limits: Limits,
    /// The log of the server itself.
    pub log: Log,
    /// Threads that answer requests; `None` for one per processor. Queries run in further threads.
    pub threads: Option<usize>,
    /// The directory with the caches of catalog readers, one folder per store.
    pub cache: Option<PathBuf>,
    /// Log stores by name.
    pub logs: BTreeMap<String, LogOptions>,
    /// Tables and approximate tables by name.
    pub tables: BTreeMap<String, TableOptions>,
    /// Collections by name.
    pub collections: BTreeMap<String, CollectionOptions>,
    /// Tables and collections of catalogs, by the name under which they are served.
    pub catalogs: BTreeMap<String, CatalogOptions>,
}

/// The HTTP interface.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Where to listen; port 0 lets the system choose one.
    pub address: SocketAddr,
    /// Origins of web pages that may call the server (CORS): `https://example.org`, or `*`.
    pub cors_origins: Vec<String>,
    /// Names of the server, besides `localhost` and addresses, in the header `Host` of requests, or
    /// `*`. Only a server whose clients need no credentials checks the header: a web page could
    /// otherwise reach it under a name that resolves to its address (DNS rebinding).
    pub hosts: Vec<String>,
    /// Serves `PREFIX KEY` like BSDB's HttpServer, from the only table or the store that
    /// `bsdb_store` names: `/bsdb/`.
    pub bsdb_prefix: Option<String>,
    /// The table or log store for `bsdb_prefix`.
    pub bsdb_store: Option<String>,
}

impl Default for Http {
    fn default() -> Http {
        let address = SocketAddr::from(([127, 0, 0, 1], 7070));
        let (cors_origins, hosts) = (Vec::new(), Vec::new());
        Http { address, cors_origins, hosts, bsdb_prefix: None, bsdb_store: None }
    }
}

/// The Redis interface.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Redis {
    /// Where to listen; without it the interface is off. Port 0 lets the system choose one.
    pub address: Option<SocketAddr>,
    /// The stores that `SELECT 0`, `SELECT 1`, ... choose; by default the log stores, the tables
    /// and the names of catalogs, each in the order of their names.
    pub databases: Vec<String>,
    /// Allows FLUSHDB, which removes all keys of a log store, to clients with the role `admin`.
    pub flushdb: bool,
    /// Seconds after which a connection without commands is closed; 0 is never.
    pub idle_seconds: f64,
}

/// Certificates, in PEM files. They are read again on SIGHUP.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The server's certificate and the certificates between it and the root.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// Roots of client certificates. Then a client without a certificate is refused.
    pub client_ca: Option<PathBuf>,
    /// What a client with a certificate may do without a token.
    pub client_role: Option<Role>,
}

/// Who may do what.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// The tokens; without any, every client may do everything.
    pub tokens: Vec<TokenSource>,
    /// Allows an address that other machines reach without tokens or client certificates.
    pub insecure: bool,
}

/// Where tokens of a role come from: a file with one token per line, or an environment variable.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSource {
    /// What the tokens allow.
    pub role: Role,
    /// The file. It is read again on SIGHUP.
    pub file: Option<PathBuf>,
    /// The name of the environment variable.
    pub env: Option<String>,
}

/// The log of the server itself, on standard error.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// `text` or `json`.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,firndb=debug`.
    pub level: String,
    /// Queries that take at least this long are logged; 0 logs all of them.
    pub slow_query_seconds: f64,
}

impl Default for Log {
    fn default() -> Log {
        Log { format: LogFormat::Text, level: "info".to_string(), slow_query_seconds: 1.0 }
    }
}

/// The form of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// A log store.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LogOptions {
    /// Its directory.
    pub path: PathBuf,
    /// Creates the store if it is missing.
    #[serde(default)]
    pub create: bool,
    /// Creates it as an ordered store, whose keys can be scanned in their order.
    #[serde(default)]
    pub ordered: bool,
    /// Opens it without writing; another process may write to it.
    #[serde(default)]
    pub read_only: bool,
    /// Writes survive power loss before they are acknowledged.
    #[serde(default)]
    pub sync: bool,
}

/// A table.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TableOptions {
    /// Its file, or the directory with its shards: `shard-00000.table`, `shard-00001.table`, ...
    pub path: PathBuf,
    /// How blocks are read.
    #[serde(default)]
    pub access: AccessMode,
}

/// How the blocks of a table are read: see [`Access`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum AccessMode {
    /// From a map.
    #[default]
    Map,
    /// By reads.
    Buffered,
    /// By reads past the page cache.
    Direct,
    /// The whole file is loaded into memory.
    Resident,
}

impl From<AccessMode> for Access {
    fn from(mode: AccessMode) -> Access {
        match mode {
            AccessMode::Map => Access::Map,
            AccessMode::Buffered => Access::Buffered,
            AccessMode::Direct => Access::Direct,
            AccessMode::Resident => Access::Resident,
        }
    }
}

/// A collection in a local directory.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CollectionOptions {
    /// Its directory.
    pub path: PathBuf,
    /// How often the server looks for changes by other processes, in seconds.
    #[serde(default = "refresh_seconds")]
    pub refresh_seconds: f64,
}

/// A table or collection of a catalog.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogOptions {
    /// The catalog: a directory or a URL.
    pub place: String,
    /// The name in the catalog.
    pub name: String,
    /// How often the server looks for a newer version, in seconds.
    #[serde(default = "refresh_seconds")]
    pub refresh_seconds: f64,
    /// How blocks of tables are read.
    #[serde(default)]
    pub access: AccessMode,
}

/// How often the server looks for changes, in seconds, unless an option says otherwise.
pub fn refresh_seconds() -> f64 {
    1.0
}

impl Config {
    /// The options of the file and of the command line, checked.
    pub fn from_args(args: &Args) -> Result<Config> {
        let mut config = match &args.config {
            Some(path) => Config::from_file(path)?,
            None => Config::default(),
        };
        args.apply(&mut config)?;
        config.check()?;
        Ok(config)
    }

    /// The options of a TOML file.
    pub fn from_file(path: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
        // The message shows the line with the mistake.
        let wrong = |e: toml::de::Error| Error::invalid(redact(&e.to_string())).in_file(path);
        toml::from_str(&text).map_err(wrong)
    }

    /// The options as a TOML file, without credentials in URLs. Tokens are never part of it.
    pub fn to_toml(&self) -> String {
        let mut shown = self.clone();
        for catalog in shown.catalogs.values_mut() {
            catalog.place = redact_url(&catalog.place);
        }
        toml::to_string_pretty(&shown).expect("options have text keys and plain values")
    }

    /// The names of all stores, in the order in which they are numbered.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let logs = self.logs.keys().chain(self.tables.keys());
        logs.chain(self.collections.keys()).chain(self.catalogs.keys()).map(String::as_str)
    }

    /// An error if options contradict each other or a name cannot be used.
    pub fn check(&self) -> Result<()> {
        let mut seen = std::collections::BTreeSet::new();
        for name in self.names() {
            check_name(name)?;
            if !seen.insert(name) {
                let message = format!("two stores have the name `{name}`: names must differ");
                return Err(Error::invalid(message));
            }
        }
        if seen.is_empty() {
            let message = "there is nothing to serve: name a store with --log, --table, \
                           --collection or --catalog, or in a configuration file";
            return Err(Error::invalid(message));
        }
        if self.threads == Some(0) {
            return Err(Error::invalid("threads is 0: nothing could be served"));
        }
        if let Some(prefix) = self.http.bsdb_prefix.as_ref().filter(|p| !p.starts_with('/')) {
            let message = format!("the prefix `{prefix}` of --bsdb-compat does not begin with `/`");
            return Err(Error::invalid(message));
        }
        self.limits.check()?;
        self.http.cors_origins.iter().try_for_each(|origin| check_origin(origin))?;
        self.check_redis()?;
        self.check_address(self.http.address)
    }

    fn check_redis(&self) -> Result<()> {
        let redis = &self.redis;
        limits::check_seconds("redis.idle_seconds", redis.idle_seconds, 0.0)?;
        let known = |name: &String| {
            let (logs, tables) = (self.logs.contains_key(name), self.tables.contains_key(name));
            logs || tables || self.catalogs.contains_key(name)
        };
        if let Some(name) = redis.databases.iter().find(|name| !known(name)) {
            let message = format!(
                "redis.databases names `{name}`, which is no log store, no table and no name of a \
                 catalog"
            );
            return Err(Error::invalid(message));
        }
        redis.address.map_or(Ok(()), |address| self.check_address(address))
    }

    /// Whether clients need a token or a certificate.
    pub fn needs_credentials(&self) -> bool {
        let certificates = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        !self.auth.tokens.is_empty() || certificates
    }

    /// An error if `address` is reachable from other machines and clients need no credentials.
    pub fn check_address(&self, address: SocketAddr) -> Result<()> {
        let is_local = address.ip().to_canonical().is_loopback();
        if is_local || self.needs_credentials() || self.auth.insecure {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{address} is reachable from other machines, and clients need no token: give tokens \
             with --token-file, require client certificates with --tls-client-ca, listen on \
             127.0.0.1, or allow it with --insecure"
        )))
    }
}

/// An error unless this is `*` or what browsers send in the header `Origin`.
fn check_origin(origin: &str) -> Result<()> {
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    let plain = |text: &str| {
        !text.is_empty() && !text.contains(['/', '?', '#', '@', '*', ' ']) && text.is_ascii()
    };
    if origin == "*" || authority.is_some_and(plain) && origin == origin.to_ascii_lowercase() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{}` is not an origin: origins are `https://HOST` or `https://HOST:PORT` in lower case, \
         without a path, or `*` for all",
        redact_url(origin).escape_debug()
    )))
}

/// An error unless `name` can be part of a URL and of a file name as it is.
pub fn check_name(name: &str) -> Result<()> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    let valid = !name.is_empty() && name.len() <= 64 && name.bytes().all(plain);
    if valid && !name.starts_with(['.', '-']) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{}` cannot be the name of a store: a name has 1 to 64 letters, digits, `-`, `_` and `.`, \
         and begins with a letter, a digit or `_`",
        name.escape_default()
    )))
}
