//! A staged file, and its text.
//!
//! The text is a JSON object of ASCII text on one line, with these members in this order:
//! ```text
//! "format": 1             readers refuse a higher number (`UnsupportedVersion`)
//! "name"                  the name that the file was staged for
//! "object"                NAME/staged/MICROS-BLAKE3
//! "file"                  name of the source file
//! "bytes", "content", "blake3"    as in a manifest
//! "kind"                  "table" or "approximate table"
//! "schema"                value schema; null if none
//! "statistics"            names to numbers, reported by the table
//! "shard_hashes"          the least and the greatest shard hash of the keys, 16 hexadecimal digits
//!                         each; null for an approximate table, or without keys
//! "checksum"              16 hexadecimal digits: XXH3-64 of the text before `, "checksum"`
//! ```

use super::check_name;
use super::format::{
    Members, VersionFile, VersionKind, file_number, impossible, is_file_name, is_hex, staged_dir,
    text,
};
use crate::{Error, ErrorKind, Result};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use xxhash_rust::xxh3::xxh3_64;

/// The format that this release writes, and the newest that it reads.
const FORMAT: u64 = 1;

const CHECKSUM: &str = ", \"checksum\": \"";

/// A file that [`Catalog::stage`](crate::catalog::Catalog::stage) has stored in a catalog, and that
/// belongs to no version yet.
///
/// `Display` writes one line of JSON without a line feed, and `FromStr` reads it: send the line to
/// the machine that publishes. It contains no credentials and no path of the machine that staged
/// the file.
///
/// Errors of `FromStr`: `Corrupt` if the text is not such a line, or differs from it in any byte
/// between its braces; `UnsupportedVersion` if a newer release has written it. The checksum detects
/// accidents only. A forged line can lie about the keys and the statistics, but not about the
/// bytes: readers compare them with the BLAKE3. So take lines only from machines that may publish.
///
/// ```
/// use firndb::catalog::Staged;
///
/// /// Reads the lines that several machines have sent.
/// fn read(lines: &str) -> firndb::Result<Vec<Staged>> {
///     lines.lines().map(str::parse).collect()
/// }
/// assert!(read("{}").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    pub(super) name: String,
    pub(super) object: String,
    pub(super) kind: VersionKind,
    pub(super) schema: Option<String>,
    pub(super) statistics: BTreeMap<String, u64>,
    /// The least and the greatest shard hash of the keys.
    pub(super) shard_hashes: Option<(u64, u64)>,
    /// `since` is 0: it is stored for no version yet.
    pub(super) file: VersionFile,
}

impl Staged {
    /// The name that the file was staged for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The object in the catalog.
    pub fn object(&self) -> &str {
        &self.object
    }

    /// The name of the source file.
    pub fn file_name(&self) -> &str {
        &self.file.name
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.file.bytes
    }

    /// BLAKE3 of all bytes: 64 hexadecimal digits.
    pub fn blake3(&self) -> &str {
        &self.file.blake3
    }

    /// The kind of table.
    pub fn kind(&self) -> VersionKind {
        self.kind
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.statistics.get("records").copied().unwrap_or(0)
    }

    /// The value schema.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// Facts that the table reports, such as `records`.
    pub fn statistics(&self) -> &BTreeMap<String, u64> {
        &self.statistics
    }
}

impl fmt::Display for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statistics = self.statistics.iter().map(|(name, n)| format!("{}: {n}", text(name)));
        let hashes = self.shard_hashes;
        let line = format!(
            "{{\"format\": {FORMAT}, \"name\": {}, \"object\": {}, \"file\": {}, \"bytes\": {}, \
             \"content\": \"{}\", \"blake3\": \"{}\", \"kind\": {}, \"schema\": {}, \
             \"statistics\": {{{}}}, \"shard_hashes\": {}",
            text(&self.name),
            text(&self.object),
            text(&self.file.name),
            self.file.bytes,
            self.file.content,
            self.file.blake3,
            text(self.kind.name()),
            self.schema.as_deref().map_or("null".to_string(), text),
            statistics.collect::<Vec<_>>().join(", "),
            hashes.map_or("null".to_string(), |(a, b)| format!("[\"{a:016x}\", \"{b:016x}\"]")),
        );
        write!(f, "{line}{CHECKSUM}{:016x}\"}}", xxh3_64(line.as_bytes()))
    }
}

impl FromStr for Staged {
    type Err = Error;

    fn from_str(line: &str) -> Result<Staged> {
        parse(line.trim()).map_err(|e| {
            Error::new(e.kind(), format!("this is no line of a staged file: {}", e.message()))
        })
    }
}

fn parse(line: &str) -> Result<Staged> {
    let cut = || Error::corrupt("it does not end in its checksum");
    let (body, end) = line.rsplit_once(CHECKSUM).ok_or_else(cut)?;
    if end != format!("{:016x}\"}}", xxh3_64(body.as_bytes())) {
        return Err(Error::corrupt("it was changed or cut: its checksum is wrong"));
    }
    let json: Json =
        serde_json::from_str(line).map_err(|e| Error::corrupt(format!("it is no JSON: {e}")))?;
    let members = json.as_object().ok_or_else(|| Error::corrupt("it is no object"))?;
    let of = Members(members);
    let format = of.number("format")?;
    if format > FORMAT {
        let message = format!("format {format}; this release reads up to {FORMAT}");
        return Err(Error::new(ErrorKind::UnsupportedVersion, message));
    }
    let name = of.text("name")?;
    check_name(name).map_err(|_| impossible("name"))?;
    let file = VersionFile {
        name: of.text("file")?.to_string(),
        bytes: of.number("bytes")?,
        content: of.hex("content", 32)?,
        blake3: of.hex("blake3", 64)?,
        since: 0,
    };
    if !is_file_name(&file.name) {
        return Err(impossible("file")); // It could lead out of the reader's directory.
    }
    let object = of.text("object")?;
    let own = object.strip_prefix(&staged_dir(name)).and_then(|rest| rest.strip_prefix('/'));
    let is_own = own.is_some_and(|own| file_number(own).is_some() && own.ends_with(&file.blake3));
    if !is_own {
        return Err(impossible("object")); // It could be an object of another name, or of a version.
    }
    let kind = VersionKind::from_name(of.text("kind")?).filter(|&kind| is_stageable(kind));
    Ok(Staged {
        name: name.to_string(),
        object: object.to_string(),
        kind: kind.ok_or_else(|| impossible("kind"))?,
        schema: of.unless_null("schema", Json::as_str)?.map(str::to_string),
        statistics: of.statistics()?,
        shard_hashes: of.unless_null("shard_hashes", hashes)?,
        file,
    })
}

/// Whether files of this kind can be staged.
pub(super) fn is_stageable(kind: VersionKind) -> bool {
    matches!(kind, VersionKind::Table | VersionKind::ApproximateTable)
}

/// A pair of ascending hashes.
fn hashes(json: &Json) -> Option<(u64, u64)> {
    let hash = |json: &Json| {
        let digits = json.as_str().filter(|digits| is_hex(digits, 16))?;
        u64::from_str_radix(digits, 16).ok()
    };
    let [least, greatest] = json.as_array()?.as_slice() else { return None };
    Some((hash(least)?, hash(greatest)?)).filter(|(least, greatest)| least <= greatest)
}
