//! Inputs: files, directories of files and standard input, decompressed by their content.

use crate::format::DataFiles;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use firndb::{Error, Result};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// How the bytes of an input are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// By the first bytes: gzip, zstd or none. Names of files do not matter.
    #[default]
    Auto,
    /// Not compressed.
    None,
    /// Gzip; members follow each other.
    Gzip,
    /// Zstandard; frames follow each other.
    Zstd,
}

/// Receives the number of bytes that were read, as reading advances. Bytes are counted before
/// decompression.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(u64) + Send + Sync>>);

impl Progress {
    /// Calls `advance` with the number of bytes of each read.
    pub fn new(advance: impl Fn(u64) + Send + Sync + 'static) -> Progress {
        Progress(Some(Arc::new(advance)))
    }

    /// Adds bytes that were read.
    pub(crate) fn add(&self, bytes: u64) {
        if let Some(advance) = &self.0 {
            advance(bytes);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(..)" } else { "Progress(none)" })
    }
}

/// A reader that reports its reads.
struct Counted<R> {
    reader: R,
    progress: Progress,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.progress.add(read as u64);
        Ok(read)
    }
}

impl Input {
    /// The name in messages.
    pub fn name(&self) -> String {
        match self {
            Input::Stdin => "standard input".to_string(),
            Input::File(path) => path.display().to_string(),
        }
    }

    /// Path of the file; `None` for standard input.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Input::Stdin => None,
            Input::File(path) => Some(path),
        }
    }

    /// Size of the file in bytes; `None` if it is not known before reading.
    pub fn size(&self) -> Option<u64> {
        match self {
            Input::Stdin => None,
            Input::File(path) => {
                path.metadata().ok().filter(|meta| meta.is_file()).map(|meta| meta.len())
            }
        }
    }

    /// Opens the input for reading its decompressed bytes. The first buffer holds the first line or
    /// 64 KiB, so that [`Format::detect`](crate::Format::detect) can look at it.
    ///
    /// # Errors
    ///
    /// `NotFound` or `Io` if the file cannot be read.
    pub fn open(&self, progress: &Progress) -> Result<Box<dyn BufRead + Send>> {
        self.open_with(Compression::Auto, progress)
    }

    /// [`Input::open`] with a compression that is known.
    ///
    /// # Errors
    ///
    /// As [`Input::open`].
    pub fn open_with(
        &self,
        compression: Compression,
        progress: &Progress,
    ) -> Result<Box<dyn BufRead + Send>> {
        let path = PathBuf::from(self.name());
        let raw: Box<dyn Read + Send> = match self {
            Input::Stdin => Box::new(std::io::stdin()),
            Input::File(path) => {
                Box::new(File::open(path).map_err(|e| Error::io("open", path, e))?)
            }
        };
        decompress(raw, &path, compression, progress)
    }
}

/// Record batches that a caller passes, as Arrow's readers return them.
pub(crate) type GivenBatches =
    Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send>;

/// An input, or what a caller passes: a reader of bytes, or record batches.
pub(crate) enum Source {
    Input(Input),
    Reader { name: PathBuf, reader: Box<dyn Read + Send> },
    Batches { name: String, schema: SchemaRef, batches: GivenBatches },
}

impl Source {
    /// The name in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Source::Input(input) => input.name(),
            Source::Reader { name, .. } => name.display().to_string(),
            Source::Batches { name, .. } => name.clone(),
        }
    }

    /// The name whose extension shows the format.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Source::Input(input) => input.path(),
            Source::Reader { name, .. } => Some(name),
            Source::Batches { .. } => None,
        }
    }

    /// The file, for formats that are not read from front to back.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Source::Input(input) => input.path(),
            Source::Reader { .. } | Source::Batches { .. } => None,
        }
    }

    /// Opens the input. A reader can be opened once. Record batches are not bytes: they are empty.
    pub(crate) fn open(
        &mut self,
        compression: Compression,
        progress: &Progress,
    ) -> Result<Box<dyn BufRead + Send>> {
        match self {
            Source::Input(input) => input.open_with(compression, progress),
            Source::Reader { name, reader } => {
                let reader = std::mem::replace(reader, Box::new(std::io::empty()));
                decompress(reader, name, compression, progress)
            }
            Source::Batches { .. } => Ok(Box::new(std::io::empty())),
        }
    }
}

/// The decompressed bytes of a reader. `name` is for messages.
fn decompress(
    raw: Box<dyn Read + Send>,
    name: &Path,
    compression: Compression,
    progress: &Progress,
) -> Result<Box<dyn BufRead + Send>> {
    let read_error = |e| Error::io("read", name, e);
    let raw = Counted { reader: raw, progress: progress.clone() };
    let mut raw = ahead(raw, |head| head.len() >= 4).map_err(read_error)?;
    let compression = match (compression, raw.fill_buf().map_err(read_error)?) {
        (Compression::Auto, [0x1f, 0x8b, ..]) => Compression::Gzip,
        (Compression::Auto, head) if is_zstd(head) => Compression::Zstd,
        (Compression::Auto, _) => Compression::None,
        (compression, _) => compression,
    };
    let plain: Box<dyn Read + Send> = match compression {
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(raw)),
        Compression::Zstd => {
            let plain = zstd::stream::read::Decoder::with_buffer(raw);
            Box::new(plain.map_err(|e| Error::io("decompress", name, e))?)
        }
        Compression::None | Compression::Auto => Box::new(raw),
    };
    let is_line = |head: &[u8]| head.len() >= 8 && head.trim_ascii_start().contains(&b'\n');
    Ok(Box::new(ahead(plain, is_line).map_err(read_error)?))
}

/// Maximum number of bytes read ahead to detect the format of an input.
const HEAD: usize = 1 << 16;

/// A reader whose first buffer satisfies `enough`, or holds the whole input or [`HEAD`] bytes. A
/// pipe may deliver single bytes.
fn ahead<R: Read>(
    mut reader: R,
    enough: fn(&[u8]) -> bool,
) -> std::io::Result<BufReader<std::io::Chain<Cursor<Vec<u8>>, R>>> {
    let (mut head, mut len) = (vec![0; HEAD], 0);
    while len < HEAD && !enough(&head[..len]) {
        match reader.read(&mut head[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    head.truncate(len);
    Ok(BufReader::with_capacity(1 << 17, Cursor::new(head).chain(reader)))
}

/// Whether a zstd frame starts here: a frame of data, or a skippable one.
fn is_zstd(head: &[u8]) -> bool {
    let skippable =
        matches!(head, [0x50..=0x5f, rest @ ..] if rest.starts_with(&[0x2a, 0x4d, 0x18]));
    skippable || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

/// The inputs that paths name: `-` is standard input, and a directory is replaced by the data files
/// below it, ordered by name. Hidden files and symbolic links to directories are skipped.
///
/// # Errors
///
/// `NotFound` or `Io` if a path cannot be read; `InvalidArgument` if a directory holds no data
/// file, or standard input is named twice.
pub fn expand(paths: &[PathBuf], files: DataFiles) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            inputs.push(Input::Stdin);
            continue;
        }
        let meta = path.metadata().map_err(|e| Error::io("open", path, e))?;
        if !meta.is_dir() {
            inputs.push(Input::File(path.clone()));
            continue;
        }
        let before = inputs.len();
        walk(path, files, &mut inputs)?;
        if inputs.len() == before {
            return Err(Error::invalid(format!(
                "directory {} holds no data file ({})",
                path.display(),
                files.extensions()
            )));
        }
    }
    if inputs.iter().filter(|input| **input == Input::Stdin).count() > 1 {
        return Err(Error::invalid("standard input (`-`) is named twice"));
    }
    Ok(inputs)
}

fn walk(dir: &Path, files: DataFiles, inputs: &mut Vec<Input>) -> Result<()> {
    let fail = |e| Error::io("list", dir, e);
    let mut paths = std::fs::read_dir(dir)
        .map_err(fail)?
        .map(|entry| Ok(entry.map_err(fail)?.path()))
        .collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    let is_hidden = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
    };
    for path in paths.into_iter().filter(|path| !is_hidden(path)) {
        if path.is_dir() && !path.is_symlink() {
            walk(&path, files, inputs)?;
        } else if path.is_file() && files.contains(&path) {
            inputs.push(Input::File(path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_buffered_whatever_the_size_of_reads() {
        struct Drip(&'static [u8]);
        impl Read for Drip {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let (first, rest) = self.0.split_at(self.0.len().min(1));
                self.0 = rest;
                buffer[..first.len()].copy_from_slice(first);
                Ok(first.len())
            }
        }
        let text = b"\nsome names\n1,2\n";
        let mut reader = ahead(Drip(text), |head| head.ends_with(b"names\n")).unwrap();
        assert_eq!(reader.fill_buf().unwrap(), b"\nsome names\n");
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert_eq!(all, text);
        assert_eq!(ahead(Drip(b"ab"), |_| false).unwrap().fill_buf().unwrap(), b"ab");
        assert!(is_zstd(&[0x5a, 0x2a, 0x4d, 0x18, 4]) && !is_zstd(&[0x4f, 0x2a, 0x4d, 0x18]));
    }
}
