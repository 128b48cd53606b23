//! Formats of inputs, and how they are detected.

use crate::parse::avro::MAGIC;
use std::path::Path;

/// The format of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Detected: by the name of the file, else by its first bytes.
    #[default]
    Auto,
    /// A record per line: key, separator, value.
    Text,
    /// Comma-separated values with a header line (RFC 4180).
    Csv,
    /// Tab-separated values with a header line.
    Tsv,
    /// A JSON object per line.
    JsonLines,
    /// Parquet.
    Parquet,
    /// Arrow IPC, as a file or as a stream.
    Arrow,
    /// Avro, as an object container file.
    Avro,
}

/// The first bytes of a file of the first version of Feather, which is not Arrow IPC.
pub(crate) const FEATHER_1: &[u8] = b"FEA1";

/// Extensions of files of rows.
const ROW_EXTENSIONS: [(&str, Format); 14] = [
    ("csv", Format::Csv),
    ("tsv", Format::Tsv),
    ("tab", Format::Tsv),
    ("jsonl", Format::JsonLines),
    ("ndjson", Format::JsonLines),
    ("json", Format::JsonLines),
    ("txt", Format::Auto),
    ("parquet", Format::Parquet),
    ("pq", Format::Parquet),
    ("arrow", Format::Arrow),
    ("arrows", Format::Arrow),
    ("ipc", Format::Arrow),
    ("feather", Format::Arrow),
    ("avro", Format::Avro),
];

/// Further extensions of files of records.
const RECORD_EXTENSIONS: [(&str, Format); 2] = [("text", Format::Auto), ("gz", Format::Auto)];

/// Which files of a directory are inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataFiles {
    /// Files of CSV, TSV, JSON lines, Parquet, Arrow and Avro.
    Rows,
    /// These, and files of text.
    Records,
}

impl DataFiles {
    /// Whether a file with this name is an input.
    pub fn contains(self, path: &Path) -> bool {
        match self {
            DataFiles::Rows => row_format(path).is_some(),
            DataFiles::Records => record_format(path).is_some(),
        }
    }

    /// The extensions, for messages.
    pub fn extensions(self) -> &'static str {
        match self {
            DataFiles::Rows => {
                ".csv, .tsv, .tab, .jsonl, .ndjson, .json, .txt, .parquet, .arrow, .avro, also .gz \
                 and .zst of them"
            }
            DataFiles::Records => {
                ".txt, .csv, .tsv, .jsonl, .parquet, .arrow, .avro, also .gz and .zst"
            }
        }
    }
}

/// The name of a file in lower case without its compression suffix, and whether it had one.
fn plain_name(path: &Path) -> Option<(String, bool)> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let plain = [".gz", ".zst", ".zstd"].iter().find_map(|suffix| name.strip_suffix(suffix));
    Some(plain.map_or_else(|| (name.clone(), false), |plain| (plain.to_string(), true)))
}

fn by_extension(name: &str, known: &[(&str, Format)]) -> Option<Format> {
    let (_, extension) = name.rsplit_once('.')?;
    known.iter().find(|(known, _)| *known == extension).map(|(_, format)| *format)
}

/// The format of rows by the name of a file; `None` if the name is not that of a data file.
pub(crate) fn row_format(path: &Path) -> Option<Format> {
    by_extension(&plain_name(path)?.0, &ROW_EXTENSIONS)
}

/// The format of records by the name of a file; `None` if the name is not that of a data file.
fn record_format(path: &Path) -> Option<Format> {
    let (name, is_compressed) = plain_name(path)?;
    by_extension(&name, &ROW_EXTENSIONS)
        .or_else(|| by_extension(&name, &RECORD_EXTENSIONS))
        .or(is_compressed.then_some(Format::Auto))
}

impl Format {
    /// The format of records in an input that starts with `head`; `path` is its name if it is a
    /// file. If neither decides, the format is JSON lines, TSV or CSV with `columns`, else text.
    pub fn detect(self, path: Option<&Path>, head: &[u8], columns: bool) -> Format {
        if self != Format::Auto {
            return self;
        }
        let by_name = path.and_then(record_format).filter(|format| *format != Format::Auto);
        by_name.unwrap_or_else(|| match head {
            head if columns => Format::of_rows(head),
            head => Format::of_columns(head).unwrap_or(Format::Text),
        })
    }

    /// The format of a file that starts with `head`, if it is one of typed columns.
    fn of_columns(head: &[u8]) -> Option<Format> {
        match head {
            head if head.starts_with(b"PAR1") || head.starts_with(b"PARE") => Some(Format::Parquet),
            head if head.starts_with(b"ARROW1") || head.starts_with(FEATHER_1) => {
                Some(Format::Arrow)
            }
            head if head.starts_with(&[0xff; 4]) => Some(Format::Arrow),
            head if head.starts_with(MAGIC) => Some(Format::Avro),
            _ => None,
        }
    }

    /// The format of rows by the first bytes of an input; CSV, TSV or JSON lines by the first line.
    pub fn of_rows(head: &[u8]) -> Format {
        if let Some(format) = Format::of_columns(head) {
            return format;
        }
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let line =
            head.split(|b| *b == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or(head);
        match line.trim_ascii_start().first() {
            Some(b'{') => Format::JsonLines,
            _ if line.contains(&b'\t') && !line.contains(&b',') => Format::Tsv,
            _ => Format::Csv,
        }
    }

    /// Whether columns have types in the format: Parquet, Arrow and Avro.
    pub fn has_types(self) -> bool {
        matches!(self, Format::Parquet | Format::Arrow | Format::Avro)
    }

    /// The name of the format in messages.
    pub fn name(self) -> &'static str {
        match self {
            Format::Auto => "auto",
            Format::Text => "text",
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::JsonLines => "jsonl",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
            Format::Avro => "avro",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_records_are_detected_by_name_and_by_content() {
        let of = |name: &str, head: &[u8], columns| {
            Format::Auto.detect(Some(Path::new(name)), head, columns)
        };
        assert_eq!(of("a/b.PARQUET", b"", false), Format::Parquet);
        assert_eq!(of("b.jsonl.zst", b"", false), Format::JsonLines);
        assert_eq!(of("b.txt.gz", b"a,b", false), Format::Text);
        assert_eq!(of("b", b"a,b\n", true), Format::Csv);
        assert_eq!(of("b", b"a\tb\n", true), Format::Tsv);
        assert_eq!(of("b", b"{\"a\":1}", true), Format::JsonLines);
        assert_eq!(of("b", b"PAR1", false), Format::Parquet);
        assert_eq!(of("b", b"ARROW1\0\0", false), Format::Arrow);
        assert_eq!(of("b", b"Obj\x01", true), Format::Avro);
        assert_eq!(of("b.AVRO", b"", false), Format::Avro);
        assert_eq!(Format::Csv.detect(None, b"{", true), Format::Csv);
        let data = |name: &str| DataFiles::Records.contains(Path::new(name));
        assert!(data("a.txt") && data("part-0.gz") && data("x.zstd") && data("a.feather"));
        assert!(!data("README") && !data("_SUCCESS") && !data("a.crc"));
    }

    #[test]
    fn formats_of_rows_are_detected_by_name_and_by_content() {
        let by_name = |name: &str| row_format(Path::new(name));
        assert_eq!(by_name("a/b.CSV.gz"), Some(Format::Csv));
        assert_eq!(by_name("b.ndjson.zst"), Some(Format::JsonLines));
        assert_eq!(by_name("b.tsv"), Some(Format::Tsv));
        assert_eq!(by_name("b.txt"), Some(Format::Auto));
        assert_eq!(by_name("b"), None);
        assert_eq!(by_name("b.gz"), None);
        assert_eq!(Format::of_rows(b"\n {\"a\":1}"), Format::JsonLines);
        assert_eq!(Format::of_rows(b"a\tb\n1,5\t2"), Format::Tsv);
        assert_eq!(Format::of_rows(b"\xef\xbb\xbfa,b\n"), Format::Csv);
        assert_eq!(Format::of_rows(b""), Format::Csv);
    }
}
