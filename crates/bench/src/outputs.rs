//! Files that figures are written to.

use clap::Args;
use firndb_bench_protocol::Result;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

/// The output files.
#[derive(Args)]
pub struct Outputs {
    /// Write the figures to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write a page with the figures to this file, as Markdown.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Write a bar chart of the times to this file, as SVG.
    #[arg(long)]
    pub chart: Option<PathBuf>,
}

impl Outputs {
    /// Runs [`prepare`] for the requested files.
    pub fn prepare(&self) -> Result<()> {
        [&self.json, &self.markdown, &self.chart].into_iter().flatten().try_for_each(prepare)
    }

    /// Writes the requested files. Writes the others too if one fails, and returns the first error.
    pub fn write(&self, json: &Value, page: &str, chart: &str) -> Result<()> {
        let json = format!("{json:#}\n");
        let files = [(&self.json, &*json), (&self.markdown, page), (&self.chart, chart)];
        let written = files.map(|(path, text)| path.iter().try_for_each(|path| write(path, text)));
        written.into_iter().collect()
    }
}

/// Creates a file and its directory if they are missing. Called before a run: a run may take an
/// hour, and its figures would be lost.
pub fn prepare(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let folder = path.parent().unwrap_or(Path::new(""));
    let made = fs::create_dir_all(folder)
        .and_then(|()| OpenOptions::new().append(true).create(true).open(path));
    made.map(drop).map_err(|e| cannot(path, &e))
}

/// Writes a file.
pub fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| cannot(path, &e))
}

fn cannot(path: &Path, error: &std::io::Error) -> firndb_bench_protocol::Error {
    format!("{} cannot be written: {error}", path.display()).into()
}
