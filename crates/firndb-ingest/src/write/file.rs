//! Output files, compressed by their names.

use firndb::{Error, Result};
use flate2::write::GzEncoder;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A new file, compressed if its name ends in `.gz`, `.zst` or `.zstd`.
pub struct OutputFile {
    encoder: Encoder,
    path: PathBuf,
}

enum Encoder {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl OutputFile {
    /// Creates a file at `path` with the compression of `name`, which can differ from `path` while
    /// the file has a temporary name.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` or `Io`.
    pub fn create(path: &Path, name: &Path) -> Result<OutputFile> {
        let fail = |e| Error::io("create", path, e);
        let file = BufWriter::with_capacity(1 << 17, File::create_new(path).map_err(fail)?);
        let encoder = match name.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Encoder::Gzip(GzEncoder::new(file, flate2::Compression::default())),
            Some("zst" | "zstd") => Encoder::Zstd(zstd::Encoder::new(file, 3).map_err(fail)?),
            _ => Encoder::Plain(file),
        };
        Ok(OutputFile { encoder, path: name.to_path_buf() })
    }

    /// Writes buffered bytes and makes the file durable. Without it the file is incomplete.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn finish(self) -> Result<()> {
        let OutputFile { encoder, path } = self;
        let finish = || -> io::Result<()> {
            let file = match encoder {
                Encoder::Plain(file) => file,
                Encoder::Gzip(encoder) => encoder.finish()?,
                Encoder::Zstd(encoder) => encoder.finish()?,
            };
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
        };
        finish().map_err(|e| Error::io("write", &path, e))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.encoder {
            Encoder::Plain(file) => file.write(bytes),
            Encoder::Gzip(encoder) => encoder.write(bytes),
            Encoder::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::Plain(file) => file.flush(),
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
        }
    }
}

impl fmt::Debug for OutputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputFile").field("path", &self.path).finish_non_exhaustive()
    }
}
