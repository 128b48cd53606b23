//! The server's own log, on standard error.

use crate::config::{Log, LogFormat};
use firndb::{Error, Result};
use tracing_subscriber::EnvFilter;

/// Starts logging for this process. The variable RUST_LOG overrides the level of the options.
pub fn init(options: &Log) -> Result<()> {
    let level = std::env::var("RUST_LOG").unwrap_or_else(|_| options.level.clone());
    let filter = EnvFilter::try_new(&level)
        .map_err(|e| Error::invalid(format!("`{level}` is not a level for the log: {e}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match options.format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|e| Error::invalid(format!("cannot start the log: {e}")))?;
    // A bug is part of the log, in its form.
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(message, place, "panic");
    }));
    Ok(())
}
