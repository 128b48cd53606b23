//! Files that figures are written to.

use clap::Args;
use firndb_bench_protocol::Result;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

/// Where to.
#[derive(Args)]
pub struct Outputs {
    /// Write the figures to this file as JSON.
    #[arg(long, value_parser = writable)]
    pub json: Option<PathBuf>,
    /// Write the figures to this file as a page of Markdown.
    #[arg(long, value_parser = writable)]
    pub markdown: Option<PathBuf>,
    /// Draw times to this file as SVG.
    #[arg(long, value_parser = writable)]
    pub chart: Option<PathBuf>,
}

impl Outputs {
    /// Writes those that were asked for.
    pub fn write(&self, json: &Value, page: &str, chart: &str) -> Result<()> {
        let json = format!("{json:#}\n");
        let files = [(&self.json, &*json), (&self.markdown, page), (&self.chart, chart)];
        for (path, text) in files {
            let Some(path) = path else { continue };
            fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(())
    }
}

/// The path of a file that can be written, whose folder is made if need be. Asked before a run: it
/// may take an hour, and its figures would be lost.
pub fn writable(path: &str) -> std::io::Result<PathBuf> {
    let path = PathBuf::from(path);
    fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
    OpenOptions::new().append(true).create(true).open(&path)?;
    Ok(path)
}
