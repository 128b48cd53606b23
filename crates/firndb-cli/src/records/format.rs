//! Forms of inputs, and how they are told apart.

use crate::ingest::source::{self, Input};
use clap::ValueEnum;
use std::path::Path;

/// Form of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// By the file's name, else by its first bytes; text if neither says anything.
    #[default]
    Auto,
    /// A record a line: key, separator, value.
    Text,
    /// Comma-separated values with a header line.
    Csv,
    /// Tab-separated values with a header line.
    Tsv,
    /// A JSON object a line.
    Jsonl,
    /// Parquet.
    Parquet,
    /// Arrow IPC, as a file or as a stream.
    Arrow,
}

const EXTENSIONS: [(&str, Format); 15] = [
    ("txt", Format::Auto),
    ("text", Format::Auto),
    ("gz", Format::Auto),
    ("csv", Format::Csv),
    ("tsv", Format::Tsv),
    ("tab", Format::Tsv),
    ("jsonl", Format::Jsonl),
    ("ndjson", Format::Jsonl),
    ("json", Format::Jsonl),
    ("parquet", Format::Parquet),
    ("pq", Format::Parquet),
    ("arrow", Format::Arrow),
    ("arrows", Format::Arrow),
    ("ipc", Format::Arrow),
    ("feather", Format::Arrow),
];

/// The files of a directory that are read.
pub const DATA_FILES: source::DataFiles = source::DataFiles {
    is_one: |path| by_name(path).is_some(),
    names: ".txt, .csv, .tsv, .jsonl, .parquet, .arrow, also .gz and .zst",
};

/// The format that a file's name promises; `None` if it is not the name of a data file.
fn by_name(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let plain = [".gz", ".zst", ".zstd"].iter().find_map(|s| name.strip_suffix(s));
    let (_, extension) = plain.unwrap_or(&name).rsplit_once('.').unwrap_or_default();
    let known = EXTENSIONS.iter().find(|(known, _)| *known == extension);
    known.map(|(_, format)| *format).or(plain.map(|_| Format::Auto))
}

impl Format {
    /// The format of an input with these first bytes. Rows of columns are expected if `columns`.
    pub fn of(self, input: &Input, head: &[u8], columns: bool) -> Format {
        if self != Format::Auto {
            return self;
        }
        let named = match input {
            Input::Stdin => None,
            Input::File(path) => by_name(path).filter(|format| *format != Format::Auto),
        };
        named.unwrap_or_else(|| match head {
            head if head.starts_with(b"PAR1") => Format::Parquet,
            head if head.starts_with(b"ARROW1") || head.starts_with(&[0xff; 4]) => Format::Arrow,
            head if columns => match source::format_by_content(head) {
                source::Format::Jsonl => Format::Jsonl,
                source::Format::Tsv => Format::Tsv,
                _ => Format::Csv,
            },
            _ => Format::Text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_name_and_by_content() {
        let of = |name: &str, head: &[u8], columns| {
            Format::Auto.of(&Input::File(name.into()), head, columns)
        };
        assert_eq!(of("a/b.PARQUET", b"", false), Format::Parquet);
        assert_eq!(of("b.jsonl.zst", b"", false), Format::Jsonl);
        assert_eq!(of("b.txt.gz", b"a,b", false), Format::Text);
        assert_eq!(of("b", b"a,b\n", true), Format::Csv);
        assert_eq!(of("b", b"a\tb\n", true), Format::Tsv);
        assert_eq!(of("b", b"{\"a\":1}", true), Format::Jsonl);
        assert_eq!(of("b", b"PAR1", false), Format::Parquet);
        assert_eq!(of("b", b"ARROW1\0\0", false), Format::Arrow);
        assert_eq!(Format::Csv.of(&Input::Stdin, b"{", true), Format::Csv);
        let data = |name: &str| (DATA_FILES.is_one)(Path::new(name));
        assert!(data("a.txt") && data("part-0.gz") && data("x.zstd") && data("a.feather"));
        assert!(!data("README") && !data("_SUCCESS") && !data("a.crc"));
    }
}
