//! Output files of `export`: their names say the format, and they appear complete or not at all.

use super::load::progress_bar;
use crate::interrupt;
use crate::output::{Out, STDOUT};
use crate::target::{Content, check_file};
use clap::ValueEnum;
use firndb::{Error, Result};
use firndb_ingest::{Format, OutputFile};
use indicatif::ProgressBar;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// A format of exported files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Comma-separated values with a header line.
    Csv,
    /// Tab-separated values with a header line.
    Tsv,
    /// One JSON object per line.
    Jsonl,
    /// Parquet, compressed with zstd.
    Parquet,
    /// An Arrow IPC stream.
    Arrow,
    /// An Avro object container file, compressed with deflate.
    Avro,
    /// KEY, separator, VALUE and a newline; only for keys and values.
    Text,
}

/// Extensions of the formats.
const EXTENSIONS: [(&str, FileFormat); 14] = [
    ("csv", FileFormat::Csv),
    ("tsv", FileFormat::Tsv),
    ("tab", FileFormat::Tsv),
    ("jsonl", FileFormat::Jsonl),
    ("ndjson", FileFormat::Jsonl),
    ("json", FileFormat::Jsonl),
    ("parquet", FileFormat::Parquet),
    ("pq", FileFormat::Parquet),
    ("arrow", FileFormat::Arrow),
    ("arrows", FileFormat::Arrow),
    ("ipc", FileFormat::Arrow),
    ("avro", FileFormat::Avro),
    ("txt", FileFormat::Text),
    ("text", FileFormat::Text),
];

impl FileFormat {
    /// The format by the name of a file, and whether the file is compressed.
    fn of_name(path: &Path) -> (Option<FileFormat>, bool) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let plain = [".gz", ".zst", ".zstd"].iter().find_map(|end| name.strip_suffix(end));
        let (_, extension) = plain.unwrap_or(&name).rsplit_once('.').unwrap_or_default();
        let found = EXTENSIONS.iter().find(|(known, _)| *known == extension);
        (found.map(|(_, format)| *format), plain.is_some())
    }

    /// Whether files of this format are not text.
    pub fn is_batches(self) -> bool {
        matches!(self, FileFormat::Parquet | FileFormat::Arrow | FileFormat::Avro)
    }

    /// The same format of the library.
    pub fn format(self) -> Format {
        match self {
            FileFormat::Csv => Format::Csv,
            FileFormat::Tsv => Format::Tsv,
            FileFormat::Jsonl => Format::JsonLines,
            FileFormat::Parquet => Format::Parquet,
            FileFormat::Arrow => Format::Arrow,
            FileFormat::Avro => Format::Avro,
            FileFormat::Text => Format::Text,
        }
    }
}

/// The file to export to.
#[derive(clap::Args)]
pub struct Target {
    /// The file to write; its name says the format: .csv, .tsv, .jsonl, .parquet, .arrow, .avro,
    /// and for keys and values .txt. Text formats are compressed if .gz or .zst follows. `-` is
    /// standard output, in JSON lines.
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    output: PathBuf,
    /// The format, whatever the name is.
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Replace a regular file of this name. Files of FirnDB, directories, links, pipes and devices
    /// are never replaced.
    #[arg(long)]
    force: bool,
}

/// Where an export writes.
pub enum Sink {
    File(Box<OutputFile>),
    Stdout(Out),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File(file) => file.write(bytes),
            Sink::Stdout(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::File(file) => file.flush(),
            Sink::Stdout(out) => out.flush(),
        }
    }
}

impl Sink {
    fn finish(self) -> Result<()> {
        match self {
            Sink::File(file) => file.finish(),
            Sink::Stdout(out) => out.finish(),
        }
    }
}

/// What an export wrote.
pub struct Exported<T> {
    pub counts: T,
    /// Bytes of the file; `None` for standard output.
    pub file_bytes: Option<u64>,
}

impl Target {
    /// The file, or the name of standard output.
    pub fn path(&self) -> &Path {
        if self.is_stdout() { Path::new(STDOUT) } else { &self.output }
    }

    fn is_stdout(&self) -> bool {
        self.output.as_os_str() == "-"
    }

    /// The format. `InvalidArgument` if nothing says it; `AlreadyExists` if the file cannot be
    /// written. Nothing is read or written before.
    pub fn check(&self) -> Result<FileFormat> {
        if !self.is_stdout() {
            check_file(&self.output, Content::Rows, self.force)?;
        }
        let (by_name, is_compressed) = FileFormat::of_name(&self.output);
        let format = match (self.format, by_name) {
            (Some(format), _) | (None, Some(format)) => format,
            (None, None) if self.is_stdout() => FileFormat::Jsonl,
            (None, None) => {
                let message = "the name does not say the format: end it in .csv, .tsv, .jsonl, \
                               .parquet, .arrow or .avro, or name a --format";
                return Err(Error::invalid(message).in_file(&self.output));
            }
        };
        if format.is_batches() && is_compressed {
            let message = "Parquet, Arrow and Avro files are not compressed as a whole: leave out \
                           .gz or .zst";
            return Err(Error::invalid(message).in_file(&self.output));
        }
        if self.is_stdout() && format.is_batches() && io::stdout().is_terminal() {
            let message = "Parquet, Arrow and Avro are not printed on a terminal; name a file with \
                           -o";
            return Err(Error::invalid(message));
        }
        Ok(format)
    }

    /// Writes the file under a temporary name, and renames it once `fill` has written all of it.
    pub fn write<T>(
        &self,
        fill: impl FnOnce(Sink, &ProgressBar) -> Result<(Sink, T)>,
    ) -> Result<Exported<T>> {
        if self.is_stdout() {
            interrupt::says("nothing was changed; the output is incomplete");
            let (sink, counts) = fill(Sink::Stdout(Out::new()), &ProgressBar::hidden())?;
            sink.finish()?;
            return Ok(Exported { counts, file_bytes: None });
        }
        let path = &self.output;
        let mut name = path.as_os_str().to_os_string();
        name.push(format!(".part-{}", std::process::id()));
        let part = PathBuf::from(name);
        interrupt::says("no file was written");
        // Fails if there is such a file: only what this command created is removed.
        let mut file = None;
        let (part, temporary) = interrupt::created(|| {
            file = Some(OutputFile::create(&part, path)?);
            Ok(part)
        })?;
        let Some(file) = file else { return Err(Error::invalid("there is no output file")) };
        let bar = progress_bar(None);
        let written = fill(Sink::File(Box::new(file)), &bar).and_then(|(sink, counts)| {
            sink.finish()?;
            self.name(&part)?;
            Ok(counts)
        });
        bar.finish_and_clear();
        if written.is_ok() {
            interrupt::says("the file is complete");
        } else {
            // Report the first error.
            let _ = std::fs::remove_file(&part);
        }
        drop(temporary);
        let counts = written?;
        let file_bytes = path.metadata().map_err(|e| Error::io("read", path, e))?.len();
        Ok(Exported { counts, file_bytes: Some(file_bytes) })
    }
}

impl Target {
    /// Gives the complete file its name. Without --force, a file that another program has created
    /// meanwhile stays.
    fn name(&self, part: &Path) -> Result<()> {
        let path = &self.output;
        let fail = |e| Error::io("name the file", path, e);
        if self.force {
            return std::fs::rename(part, path).map_err(fail);
        }
        match std::fs::hard_link(part, path) {
            Ok(()) => std::fs::remove_file(part).map_err(fail),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(fail(e)),
            // The file system has no hard links.
            Err(_) => {
                check_file(path, Content::Rows, false)?;
                std::fs::rename(part, path).map_err(fail)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_format() {
        let of = |name: &str| FileFormat::of_name(Path::new(name));
        assert_eq!(of("a/b.CSV"), (Some(FileFormat::Csv), false));
        assert_eq!(of("b.jsonl.zst"), (Some(FileFormat::Jsonl), true));
        assert_eq!(of("b.parquet"), (Some(FileFormat::Parquet), false));
        for unknown in ["b", "b.gz", "b.xlsx", ".csv.d/b", "csv", "-"] {
            assert_eq!(of(unknown).0, None, "{unknown}");
        }
    }
}
