//! Inputs: files, directories of them and standard input, decompressed by what they contain.

use clap::ValueEnum;
use firndb::{Error, Result};
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Form of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// By the file's name, else by its first line.
    #[default]
    Auto,
    /// Comma-separated values with a header line.
    Csv,
    /// Tab-separated values with a header line.
    Tsv,
    /// A JSON object a line.
    Jsonl,
}

/// One input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Stdin,
    File(PathBuf),
}

const EXTENSIONS: [(&str, Format); 7] = [
    ("csv", Format::Csv),
    ("tsv", Format::Tsv),
    ("tab", Format::Tsv),
    ("jsonl", Format::Jsonl),
    ("ndjson", Format::Jsonl),
    ("json", Format::Jsonl),
    ("txt", Format::Auto),
];

impl Input {
    /// The name that messages use.
    pub fn name(&self) -> String {
        match self {
            Input::Stdin => "standard input".to_string(),
            Input::File(path) => path.display().to_string(),
        }
    }

    /// Size in bytes on disk, if that is known beforehand.
    pub fn size(&self) -> Option<u64> {
        match self {
            Input::Stdin => None,
            Input::File(path) => {
                path.metadata().ok().filter(|meta| meta.is_file()).map(|meta| meta.len())
            }
        }
    }

    /// Opens the input: its decompressed bytes, whatever the name says. The first line stands in
    /// the buffer, so that the form can be told. `progress` advances by the bytes read from the
    /// disk.
    pub fn open(&self, progress: &ProgressBar) -> Result<Box<dyn BufRead>> {
        let path = PathBuf::from(self.name());
        let raw: Box<dyn Read> = match self {
            Input::Stdin => Box::new(std::io::stdin()),
            Input::File(path) => Box::new(open_file(path)?),
        };
        let read_error = |e| Error::io("read", &path, e);
        let mut raw = ahead(progress.wrap_read(raw), |head| head.len() >= 4).map_err(read_error)?;
        let head = raw.fill_buf().map_err(read_error)?;
        let plain: Box<dyn Read> = if head.starts_with(&[0x1f, 0x8b]) {
            Box::new(flate2::bufread::MultiGzDecoder::new(raw))
        } else if is_zstd(head) {
            let plain = zstd::stream::read::Decoder::with_buffer(raw);
            Box::new(plain.map_err(|e| Error::io("decompress", &path, e))?)
        } else {
            Box::new(raw)
        };
        let is_line = |head: &[u8]| head.len() >= 8 && head.trim_ascii_start().contains(&b'\n');
        Ok(Box::new(ahead(plain, is_line).map_err(read_error)?))
    }

    /// The format that the file's name promises.
    pub fn format_by_name(&self) -> Format {
        match self {
            Input::Stdin => Format::Auto,
            Input::File(path) => format_by_name(path).unwrap_or_default(),
        }
    }
}

/// Most bytes that are read before the form of an input is told.
const HEAD: usize = 1 << 16;

/// A reader whose first buffer is `enough`, or all there is: a pipe may give a byte at a time.
fn ahead<R: Read>(mut reader: R, enough: fn(&[u8]) -> bool) -> std::io::Result<impl BufRead> {
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

/// A frame of data, or one to be skipped, which may stand before it.
fn is_zstd(head: &[u8]) -> bool {
    let skipped = matches!(head, [0x50..=0x5f, rest @ ..] if rest.starts_with(&[0x2a, 0x4d, 0x18]));
    skipped || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

fn open_file(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| Error::io("open", path, e))
}

/// The format by the name without its compression suffix; `None` if the name says nothing.
fn format_by_name(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = [".gz", ".zst", ".zstd"].iter().find_map(|s| name.strip_suffix(s)).unwrap_or(&name);
    let (_, extension) = name.rsplit_once('.')?;
    EXTENSIONS.iter().find(|(known, _)| *known == extension).map(|(_, format)| *format)
}

/// The format by the first bytes of the input.
pub fn format_by_content(head: &[u8]) -> Format {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let line =
        head.split(|b| *b == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or(head);
    match line.trim_ascii_start().first() {
        Some(b'{') => Format::Jsonl,
        _ if line.contains(&b'\t') && !line.contains(&b',') => Format::Tsv,
        _ => Format::Csv,
    }
}

/// The files of a directory that a command reads.
pub struct DataFiles {
    pub is_one: fn(&Path) -> bool,
    /// Their names, for people.
    pub names: &'static str,
}

/// The data files of `firn search`.
pub const ROWS: DataFiles = DataFiles {
    is_one: |path| format_by_name(path).is_some(),
    names: ".csv, .tsv, .tab, .jsonl, .ndjson, .json, .txt, also .gz and .zst of them",
};

/// Turns the arguments of a command into inputs: `-` is standard input, a directory stands for the
/// data files below it in the order of their names.
pub fn expand(arguments: &[PathBuf], files: &DataFiles) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for argument in arguments {
        if argument.as_os_str() == "-" {
            inputs.push(Input::Stdin);
            continue;
        }
        let meta = argument.metadata().map_err(|e| Error::io("open", argument, e))?;
        if !meta.is_dir() {
            inputs.push(Input::File(argument.clone()));
            continue;
        }
        let before = inputs.len();
        walk(argument, files, &mut inputs)?;
        if inputs.len() == before {
            return Err(Error::invalid(format!(
                "directory {} holds no data file ({})",
                argument.display(),
                files.names
            )));
        }
    }
    if inputs.iter().filter(|input| **input == Input::Stdin).count() > 1 {
        return Err(Error::invalid("standard input (`-`) is named twice"));
    }
    Ok(inputs)
}

fn walk(dir: &Path, files: &DataFiles, inputs: &mut Vec<Input>) -> Result<()> {
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
        } else if path.is_file() && (files.is_one)(&path) {
            inputs.push(Input::File(path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_there_however_it_comes() {
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

    #[test]
    fn formats_are_found_by_name_and_by_content() {
        let by_name = |name: &str| Input::File(name.into()).format_by_name();
        assert_eq!(by_name("a/b.CSV.gz"), Format::Csv);
        assert_eq!(by_name("b.ndjson.zst"), Format::Jsonl);
        assert_eq!(by_name("b.tsv"), Format::Tsv);
        assert_eq!(by_name("b"), Format::Auto);
        assert_eq!(format_by_content(b"\n {\"a\":1}"), Format::Jsonl);
        assert_eq!(format_by_content(b"a\tb\n1,5\t2"), Format::Tsv);
        assert_eq!(format_by_content(b"\xef\xbb\xbfa,b\n"), Format::Csv);
        assert_eq!(format_by_content(b""), Format::Csv);
    }
}
