//! The command line.

use super::{
    AccessMode, CatalogOptions, CollectionOptions, Config, LogFormat, LogOptions, TableOptions,
    Tls, TokenSource, refresh_seconds,
};
use crate::auth::Role;
use clap::CommandFactory;
use firndb::{Error, Result};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve log stores, tables, collections and catalogs over HTTP.
///
/// For example: firn serve --log users=data/users --collection flights=data/flights
///
/// Every option can also be set in a configuration file; `--print-config` shows all of them.
/// docs/server.md is the guide.
#[derive(clap::Parser, Debug, Default)]
#[command(name = "firn-serve", version, max_term_width = 100)]
pub struct Args {
    /// A TOML file with options. The command line overrides it.
    pub config: Option<PathBuf>,
    /// Serve a log store for reading and writing; it is created if it is missing.
    #[arg(long = "log", value_name = "NAME=DIR")]
    pub logs: Vec<String>,
    /// Serve a table or an approximate table, or a directory with the shards of a table.
    #[arg(long = "table", value_name = "NAME=FILE")]
    pub tables: Vec<String>,
    /// Serve a collection.
    #[arg(long = "collection", value_name = "NAME=DIR")]
    pub collections: Vec<String>,
    /// Serve the newest version of a name in a catalog: a directory, s3://BUCKET/PREFIX, or
    /// http(s)://HOST/FOLDER, then a slash and the name in the catalog.
    #[arg(long = "catalog", value_name = "NAME=PLACE/NAME")]
    pub catalogs: Vec<String>,
    /// The directory for copies of the files of catalogs [default: $CACHE_DIRECTORY, or
    /// firn-serve in the user's cache directory]. Each server needs its own.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Open log stores without writing, while another process may write to them.
    #[arg(long)]
    pub read_only: bool,
    /// Acknowledge writes to log stores only when they survive power loss.
    #[arg(long)]
    pub sync: bool,
    /// How blocks of tables are read.
    #[arg(long, value_enum)]
    pub access: Option<AccessMode>,
    /// The address of the HTTP interface [default: 127.0.0.1:7070].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub http: Option<SocketAddr>,
    /// Also serve log stores and tables over the Redis protocol, at this address.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub redis: Option<SocketAddr>,
    /// A file with tokens of a role (read, write or admin), one per line. May be repeated.
    /// Tokens are also taken from FIRNDB_READ_TOKEN, FIRNDB_WRITE_TOKEN and FIRNDB_ADMIN_TOKEN.
    #[arg(long = "token-file", value_name = "ROLE=FILE")]
    pub token_files: Vec<String>,
    /// Allow an address that other machines can reach although clients need no token.
    #[arg(long)]
    pub insecure: bool,
    /// The server's certificates, a PEM file: serve TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Require client certificates that these roots have signed, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Origins of web pages that may call the server (CORS). May be repeated.
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    pub cors_origins: Vec<String>,
    /// A name under which clients reach the server. May be repeated; `*` allows all names. Without
    /// tokens or client certificates, other names than localhost are refused.
    #[arg(long = "allow-host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// Also serve the paths of BSDB's HttpServer: PREFIX followed by a key returns the value of the
    /// key, or status 200 with an empty body if the key is absent.
    #[arg(long, value_name = "PREFIX", num_args = 0..=1, default_missing_value = "/bsdb/")]
    pub bsdb_compat: Option<String>,
    /// The store for --bsdb-compat [default: the only table].
    #[arg(long, value_name = "NAME", requires = "bsdb_compat")]
    pub bsdb_store: Option<String>,
    /// Threads that answer requests [default: one per processor].
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// The form of the server's log.
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
    /// Log in JSON, and report errors in JSON: what `firn --json serve` passes on.
    #[arg(long)]
    pub json: bool,
    /// What is logged: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Log queries that take at least this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub slow_query: Option<f64>,
    /// Print all options as a configuration file, and exit.
    #[arg(long)]
    pub print_config: bool,
    /// Print a completion script for a shell, and exit.
    #[arg(long, value_name = "SHELL")]
    pub completions: Option<clap_complete::Shell>,
    /// Print the manual page, and exit.
    #[arg(long)]
    pub man: bool,
}

/// Environment variables with tokens.
const TOKEN_VARIABLES: [(&str, Role); 3] = [
    ("FIRNDB_READ_TOKEN", Role::Read),
    ("FIRNDB_WRITE_TOKEN", Role::Write),
    ("FIRNDB_ADMIN_TOKEN", Role::Admin),
];

impl Args {
    /// The manual page or completion script, if one of them is asked for.
    pub fn document(&self) -> Result<Option<Vec<u8>>> {
        let mut command = Args::command();
        let mut out = Vec::new();
        if let Some(shell) = self.completions {
            clap_complete::generate(shell, &mut command, "firn-serve", &mut out);
        } else if self.man {
            let page = clap_mangen::Man::new(command).title("FIRN-SERVE").render(&mut out);
            page.map_err(|e| Error::invalid(format!("cannot make the page: {e}")))?;
        }
        Ok((!out.is_empty()).then_some(out))
    }

    /// Overrides the options that are given.
    pub(super) fn apply(&self, config: &mut Config) -> Result<()> {
        self.apply_stores(config)?;
        self.apply_security(config)?;
        let http = &mut config.http;
        http.address = self.http.unwrap_or(http.address);
        config.redis.address = self.redis.or(config.redis.address);
        http.cors_origins.extend(self.cors_origins.iter().cloned());
        http.hosts.extend(self.hosts.iter().cloned());
        if self.bsdb_compat.is_some() {
            http.bsdb_prefix = self.bsdb_compat.clone();
        }
        if self.bsdb_store.is_some() {
            http.bsdb_store = self.bsdb_store.clone();
        }
        config.threads = self.threads.or(config.threads);
        let log = &mut config.log;
        let json = self.json.then_some(LogFormat::Json);
        log.format = self.log_format.or(json).unwrap_or(log.format);
        if let Some(level) = &self.log_level {
            log.level = level.clone();
        }
        log.slow_query_seconds = self.slow_query.unwrap_or(log.slow_query_seconds);
        Ok(())
    }

    fn apply_stores(&self, config: &mut Config) -> Result<()> {
        for text in &self.logs {
            let (name, path) = pair("--log", "NAME=DIR", text)?;
            let options = LogOptions { path: path.into(), create: true, ..LogOptions::default() };
            insert(&mut config.logs, name, options)?;
        }
        for log in config.logs.values_mut() {
            log.read_only |= self.read_only;
            log.sync |= self.sync;
        }
        for text in &self.tables {
            let (name, path) = pair("--table", "NAME=FILE", text)?;
            let options = TableOptions { path: path.into(), ..TableOptions::default() };
            insert(&mut config.tables, name, options)?;
        }
        for text in &self.collections {
            let (name, path) = pair("--collection", "NAME=DIR", text)?;
            let refresh_seconds = refresh_seconds();
            let options = CollectionOptions { path: path.into(), refresh_seconds };
            insert(&mut config.collections, name, options)?;
        }
        for text in &self.catalogs {
            let form = "NAME=PLACE/NAME";
            let (name, place) = pair("--catalog", form, text)?;
            let Some((place, entry)) = place.rsplit_once('/').filter(|(_, e)| !e.is_empty()) else {
                return Err(wrong("--catalog", form, text));
            };
            let place = if place.is_empty() { "/" } else { place };
            let (place, entry) = (place.to_string(), entry.to_string());
            let options = CatalogOptions {
                place,
                name: entry,
                refresh_seconds: refresh_seconds(),
                access: AccessMode::default(),
            };
            insert(&mut config.catalogs, name, options)?;
        }
        if let Some(access) = self.access {
            config.tables.values_mut().for_each(|table| table.access = access);
            config.catalogs.values_mut().for_each(|entry| entry.access = access);
        }
        if self.cache.is_some() {
            config.cache = self.cache.clone();
        }
        Ok(())
    }

    fn apply_security(&self, config: &mut Config) -> Result<()> {
        config.auth.insecure |= self.insecure;
        for text in &self.token_files {
            let form = "ROLE=FILE";
            let (role, file) = pair("--token-file", form, text)?;
            let role = Role::parse(role).ok_or_else(|| wrong("--token-file", form, text))?;
            let source = TokenSource { role, file: Some(file.into()), env: None };
            config.auth.tokens.push(source);
        }
        for (variable, role) in TOKEN_VARIABLES {
            if std::env::var_os(variable).is_some() {
                let source = TokenSource { role, file: None, env: Some(variable.to_string()) };
                config.auth.tokens.push(source);
            }
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            let (certificate, key) = (certificate.clone(), key.clone());
            let client_ca = self.tls_client_ca.clone();
            config.tls = Some(Tls { certificate, key, client_ca, client_role: None });
        }
        Ok(())
    }
}

fn insert<T>(
    map: &mut std::collections::BTreeMap<String, T>,
    name: &str,
    options: T,
) -> Result<()> {
    match map.insert(name.to_string(), options) {
        None => Ok(()),
        Some(_) => {
            let message = format!("the store `{name}` is given twice: names must differ");
            Err(Error::invalid(message))
        }
    }
}

fn pair<'a>(option: &str, form: &str, text: &'a str) -> Result<(&'a str, &'a str)> {
    let parts = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    parts.ok_or_else(|| wrong(option, form, text))
}

fn wrong(option: &str, form: &str, text: &str) -> Error {
    Error::invalid(format!("`{option} {text}` does not have the form {option} {form}"))
}
