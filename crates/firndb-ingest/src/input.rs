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
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Set by an error of the reader.
    failed: Arc<AtomicBool>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(buffer).inspect_err(|e| {
            let is_failure = e.kind() != ErrorKind::Interrupted;
            self.failed.fetch_or(is_failure, Ordering::Relaxed);
        })?;
        self.progress.add(read as u64);
        Ok(read)
    }
}

/// A decompressor. Its own errors are [`Damage`], unlike those of its input.
struct Decompressor<R> {
    reader: R,
    format: &'static str,
    failed: Arc<AtomicBool>,
}

impl<R: Read> Read for Decompressor<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.reader.read(buffer).map_err(|e| {
            match e.kind() == ErrorKind::Interrupted || self.failed.load(Ordering::Relaxed) {
                true => e,
                false => {
                    let damage = Damage(format!("the {} data is damaged: {e}", self.format));
                    std::io::Error::new(ErrorKind::InvalidData, damage)
                }
            }
        })
    }
}

/// The input is not what its first bytes promised. The text is the reason.
#[derive(Debug)]
struct Damage(String);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damage {}

/// The error of reading an input: `Corrupt` if compressed bytes are damaged, else as
/// [`Error::io`](firndb::Error::io). `name` is the name of the input.
pub fn read_error(name: &str, error: std::io::Error) -> Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Damage>()) {
        Some(damage) => Error::corrupt(damage.to_string()).in_file(Path::new(name)),
        None => Error::io("read", Path::new(name), error),
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
    /// `NotFound` or `Io` if the file cannot be read; `Corrupt` if its compression is damaged;
    /// `InvalidArgument` if it is an archive that is not supported.
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
    let read_error = |e| read_error(&name.to_string_lossy(), e);
    let failed = Arc::new(AtomicBool::new(false));
    let raw = Counted { reader: raw, progress: progress.clone(), failed: failed.clone() };
    let mut raw = ahead(raw, |head| head.len() >= ARCHIVE_HEAD).map_err(read_error)?;
    let head = raw.fill_buf().map_err(read_error)?;
    if compression == Compression::Auto
        && let Some((form, command)) = unsupported_archive(head)
    {
        let message = format!(
            "{}: it is {form}, which is not supported: decompress it first, for example with \
             `{command}`, or compress it with gzip or zstd",
            name.display()
        );
        return Err(Error::invalid(message));
    }
    let compression = match (compression, head) {
        (Compression::Auto, [0x1f, 0x8b, ..]) => Compression::Gzip,
        (Compression::Auto, head) if is_zstd(head) => Compression::Zstd,
        (Compression::Auto, _) => Compression::None,
        (compression, _) => compression,
    };
    let plain: Box<dyn Read + Send> = match compression {
        Compression::Gzip => {
            let reader = flate2::bufread::MultiGzDecoder::new(raw);
            Box::new(Decompressor { reader, format: "gzip", failed })
        }
        Compression::Zstd => {
            let reader = zstd::stream::read::Decoder::with_buffer(raw);
            let reader = reader.map_err(|e| Error::io("decompress", name, e))?;
            Box::new(Decompressor { reader, format: "zstd", failed })
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

/// Bytes at the start of an input that show how it is compressed.
const ARCHIVE_HEAD: usize = 10;

/// The form of an archive that cannot be read, and a command that decompresses it.
fn unsupported_archive(head: &[u8]) -> Option<(&'static str, &'static str)> {
    // A block of bzip2 starts with the digits of pi, an empty file with those of its square root.
    let is_bzip2 = head.starts_with(b"BZh")
        && head.get(3).is_some_and(|level| (b'1'..=b'9').contains(level))
        && head.get(4..10).is_some_and(|block| {
            matches!(
                block,
                [0x31, 0x41, 0x59, 0x26, 0x53, 0x59] | [0x17, 0x72, 0x45, 0x38, 0x50, 0x90]
            )
        });
    match head {
        _ if is_bzip2 => Some(("compressed with bzip2", "bzip2 -dc")),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(("compressed with xz", "xz -dc")),
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(("a zip archive", "unzip -p")),
        [0x04, 0x22, 0x4d, 0x18, ..] => Some(("compressed with lz4", "lz4 -dc")),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Some(("a 7z archive", "7z x -so")),
        _ => None,
    }
}

/// Whether a zstd frame starts here: a frame of data, or a skippable one.
fn is_zstd(head: &[u8]) -> bool {
    let skippable =
        matches!(head, [0x50..=0x5f, rest @ ..] if rest.starts_with(&[0x2a, 0x4d, 0x18]));
    skippable || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

/// The inputs that paths name: `-` is standard input, and a directory is replaced by the data files
/// below it, ordered by name. Hidden files and symbolic links to directories are skipped. A link
/// with the name of a data file must lead to a file.
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
        let is_data = files.contains(&path);
        match path.metadata() {
            Ok(meta) if meta.is_dir() && !path.is_symlink() => walk(&path, files, inputs)?,
            Ok(meta) if meta.is_file() && is_data => inputs.push(Input::File(path)),
            // Without this file, a part of the data would be missing.
            Err(e) if is_data => return Err(Error::io("open", &path, e)),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_that_cannot_be_read_are_refused_with_a_remedy() {
        let open = |bytes: &[u8], compression| {
            let bytes = Box::new(Cursor::new(bytes.to_vec()));
            decompress(bytes, Path::new("a.csv"), compression, &Progress::default())
        };
        for (head, remedy) in [
            (&b"BZh91AY&SY\x92\x91"[..], "`bzip2 -dc`"),
            (b"BZh1\x17rE8P\x90", "`bzip2 -dc`"),
            (b"\xfd7zXZ\0\0\x04", "`xz -dc`"),
            (b"PK\x03\x04\x14", "`unzip -p`"),
            (b"PK\x05\x06", "`unzip -p`"),
            (b"\x04\x22\x4d\x18d", "`lz4 -dc`"),
            (b"7z\xbc\xaf\x27\x1c", "`7z x -so`"),
        ] {
            let error = open(head, Compression::Auto).map(drop).unwrap_err();
            let shown = error.to_string();
            assert!(shown.contains("a.csv: it is ") && shown.contains(remedy), "{shown}");
            assert!(open(head, Compression::None).is_ok());
        }
        for text in ["BZh9,a\n1,2\n", "PK\n", "7z\n", ""] {
            let mut all = Vec::new();
            open(text.as_bytes(), Compression::Auto).unwrap().read_to_end(&mut all).unwrap();
            assert_eq!(all, text.as_bytes());
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_an_error_if_it_names_a_data_file() {
        let dir = std::env::temp_dir().join(format!("firndb-links-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("a.csv"), "k\n").unwrap();
        std::os::unix::fs::symlink("nowhere", dir.join("README")).unwrap();
        let inputs = || expand(std::slice::from_ref(&dir), DataFiles::Rows);
        assert_eq!(inputs().unwrap(), [Input::File(dir.join("a.csv"))]);
        std::os::unix::fs::symlink("nowhere", dir.join("b.csv")).unwrap();
        let error = inputs().unwrap_err();
        assert_eq!(
            (error.kind(), error.file()),
            (firndb::ErrorKind::NotFound, Some(&*dir.join("b.csv")))
        );
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn damaged_compression_is_not_a_failure_of_the_system() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("the disk is gone"))
            }
        }
        let kind = |reader: Box<dyn Read + Send>| {
            let name = Path::new("a.gz");
            let mut plain = decompress(reader, name, Compression::Auto, &Progress::default())?;
            let mut all = Vec::new();
            plain.read_to_end(&mut all).map_err(|e| read_error("a.gz", e))
        };
        let text = "some,text\n".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
        let mut zstd = zstd::Encoder::new(Vec::new(), 3).unwrap();
        zstd.include_checksum(true).unwrap();
        std::io::Write::write_all(&mut zstd, text.as_bytes()).unwrap();
        let files = [("gzip", gzip.finish().unwrap()), ("zstd", zstd.finish().unwrap())];
        for (format, bytes) in files {
            let length = bytes.len();
            let mut wrong = bytes.clone();
            wrong[length / 2] ^= 0xff;
            for damaged in [bytes[..length - 3].to_vec(), wrong] {
                let error = kind(Box::new(Cursor::new(damaged))).unwrap_err();
                assert_eq!(error.kind(), firndb::ErrorKind::Corrupt, "{error}");
                assert!(error.message().starts_with(&format!("the {format} data is damaged")));
            }
            let broken = Cursor::new(bytes[..length / 2].to_vec()).chain(Broken);
            assert_eq!(kind(Box::new(broken)).unwrap_err().kind(), firndb::ErrorKind::Io);
        }
    }

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
