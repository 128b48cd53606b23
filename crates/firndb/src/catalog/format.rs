//! The manifest of a version, and the names of the objects of a catalog.
//!
//! Each published name is a folder of objects. Every object is written once; only the hint is
//! replaced:
//! ```text
//! NAME/versions/NUMBER.json       the manifest of version NUMBER
//! NAME/files/NUMBER-BLAKE3        a file with this hash, stored for version NUMBER and listed by
//!                                 all later versions that contain it
//! NAME/pins/NUMBER                pins version NUMBER; the content is a note
//! NAME/leaving/NUMBER             the removal mark of version NUMBER, see `pins.rs`
//! NAME/staged/MICROS-BLAKE3       a file staged MICROS microseconds after 1970, see `stage.rs`
//! NAME/newest                     NUMBER and a line feed: a hint, see `newest.rs`
//! ```
//! `NUMBER` and `MICROS` have 20 digits. Versions count from 1; the highest is the newest. The
//! number in the name of a file makes clean-ups safe without relying on clocks: files stored for a
//! version that does not exist yet have a higher number than every existing version.
//!
//! A manifest of format 1 is a JSON object of ASCII text. It has these members in this order. Each
//! member and each file is on its own line:
//! ```text
//! "format": 1             readers refuse a higher number (`UnsupportedVersion`)
//! "name", "version"       as in the name of the object
//! "id"                    32 hexadecimal digits, unique to this publication
//! "parent"                the version that was the newest before; null for the first
//! "parent_id"             "id" of the parent; omitted for the first
//! "restores"              after a rollback, the version that has these files; else null
//! "time"                  time of publication, RFC 3339, by the clock of the publisher
//! "kind"                  "table", "approximate table", "sharded table" or "collection"
//! "schema"                schema of a collection as TOML, or value schema of a table; null if none
//! "statistics"            names to numbers, reported by the store
//! "labels"                names to texts, given by the publisher
//! "files"                 ordered by name, and so the shards of a sharded table; for each file:
//!   "name"                name in the source directory; "shard-NNNNN.table" for shard NNNNN
//!   "bytes"               length
//!   "content"             content id in the footer, 32 hexadecimal digits
//!   "blake3"              BLAKE3 of all bytes, 64 hexadecimal digits
//!   "since"               the NUMBER in the name of the object
//! "checksum"              16 hexadecimal digits: XXH3-64 of the text before `,\n"checksum"`
//! ```
//! Files are identified by BLAKE3 because they may come from an untrusted peer: it is infeasible to
//! construct another file with the same hash. The XXH3 checksums inside the files do not give that
//! guarantee.

use crate::search::{timestamp_from_text, timestamp_to_text};
use crate::{Error, ErrorKind, Result};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_64;

/// The format that this release writes, and the newest that it reads.
const FORMAT: u64 = 1;

/// Longest manifest in bytes; longer ones are rejected as truncated.
pub(super) const MAX_MANIFEST: usize = 1 << 28;

const CHECKSUM: &str = ",\n\"checksum\": \"";

/// The kind of store that a version contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionKind {
    /// One file: a [`crate::table::Table`].
    Table,
    /// One file: a [`crate::table::ApproximateTable`].
    ApproximateTable,
    /// One file per shard: a [`crate::table::ShardedTable`].
    ShardedTable,
    /// A set file and its partitions: a [`crate::search::Collection`].
    Collection,
}

impl VersionKind {
    /// The name of the kind in a manifest.
    pub fn name(self) -> &'static str {
        match self {
            VersionKind::Table => "table",
            VersionKind::ApproximateTable => "approximate table",
            VersionKind::ShardedTable => "sharded table",
            VersionKind::Collection => "collection",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<VersionKind> {
        use VersionKind::{ApproximateTable, Collection, ShardedTable, Table};
        let mut kinds = [Table, ApproximateTable, ShardedTable, Collection].into_iter();
        kinds.find(|kind| kind.name() == name)
    }
}

/// A published version of a table or collection: the content of its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Version {
    /// The name under which the version was published.
    pub name: String,
    /// The number of the version: 1 for the first, then ascending by 1.
    pub number: u64,
    /// Identifies the publication: 32 hexadecimal digits.
    pub id: String,
    /// The version that was the newest before; `None` for the first.
    pub parent: Option<u64>,
    /// The id of the parent. Its number alone is not unique: it may be reused after a clean-up.
    pub parent_id: Option<String>,
    /// The version whose files this one restores, if it is a rollback.
    pub restores: Option<u64>,
    /// Time of publication in microseconds since 1970, by the clock of the publisher.
    pub time: i64,
    /// The kind of store.
    pub kind: VersionKind,
    /// Schema of a collection as TOML, or value schema of a table.
    pub schema: Option<String>,
    /// Facts that the store reports, such as `records` or `documents`.
    pub statistics: BTreeMap<String, u64>,
    /// Names and texts given by the publisher.
    pub labels: BTreeMap<String, String>,
    /// The files, ordered by name.
    pub files: Vec<VersionFile>,
}

/// A file of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionFile {
    /// Name in the source directory.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Content id in the footer: 32 hexadecimal digits.
    pub content: String,
    /// BLAKE3 of all bytes: 64 hexadecimal digits.
    pub blake3: String,
    /// The version for which the file was stored.
    pub since: u64,
}

impl Version {
    /// Total length of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// The manifest, as stored in the catalog.
    pub fn manifest(&self) -> String {
        encode(self)
    }

    /// The name of the object of a file of this version.
    pub fn object(&self, file: &VersionFile) -> String {
        file_object(&self.name, file)
    }
}

/// The folder of the manifests of a name.
pub(super) fn versions_dir(name: &str) -> String {
    format!("{name}/versions")
}

/// The name of the object of a manifest.
pub(super) fn version_object(name: &str, number: u64) -> String {
    format!("{name}/versions/{number:020}.json")
}

/// Parses the name of a manifest in its folder; `None` for any other name.
pub(super) fn version_number(name: &str) -> Option<u64> {
    twenty_digits(name.strip_suffix(".json")?)
}

/// The folder of the files of a name.
pub(super) fn files_dir(name: &str) -> String {
    format!("{name}/files")
}

/// The name of the object of a file.
pub(super) fn file_object(name: &str, file: &VersionFile) -> String {
    format!("{name}/files/{:020}-{}", file.since, file.blake3)
}

/// The number in the name of a file's object, or the time in that of a staged file; `None` for any
/// other name.
pub(super) fn file_number(object: &str) -> Option<u64> {
    let (number, hash) = object.split_once('-')?;
    twenty_digits(number).filter(|_| is_hex(hash, 64))
}

/// The folder of the staged files of a name.
pub(super) fn staged_dir(name: &str) -> String {
    format!("{name}/staged")
}

/// The name of the object of a file that was staged `micros` microseconds after 1970.
pub(super) fn staged_object(name: &str, micros: u64, blake3: &str) -> String {
    format!("{name}/staged/{micros:020}-{blake3}")
}

/// The folder of the pins of a name.
pub(super) fn pins_dir(name: &str) -> String {
    format!("{name}/pins")
}

/// The name of the object that pins a version.
pub(super) fn pin_object(name: &str, number: u64) -> String {
    format!("{name}/pins/{number:020}")
}

/// The folder of the removal marks of a name.
pub(super) fn leaving_dir(name: &str) -> String {
    format!("{name}/leaving")
}

/// The name of the object that marks a version for removal.
pub(super) fn leaving_object(name: &str, number: u64) -> String {
    format!("{name}/leaving/{number:020}")
}

/// The name of the object that hints at the newest version.
pub(super) fn hint_object(name: &str) -> String {
    format!("{name}/newest")
}

/// Parses a number of exactly 20 digits.
pub(super) fn twenty_digits(text: &str) -> Option<u64> {
    let digits = text.len() == 20 && text.bytes().all(|c| c.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    text.len() == digits && text.bytes().all(hex)
}

/// Whether `name` is a plain file name, which cannot lead out of a directory.
pub(super) fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// Encodes a manifest.
pub(super) fn encode(version: &Version) -> String {
    let number = |n: Option<u64>| n.map_or("null".to_string(), |n| n.to_string());
    let mut out = String::with_capacity(512 + 320 * version.files.len());
    let mut line = |name: &str, value: String| {
        let _ = write!(out, "{}\"{name}\": {value}", if out.is_empty() { "{\n" } else { ",\n" });
    };
    line("format", FORMAT.to_string());
    line("name", text(&version.name));
    line("version", version.number.to_string());
    line("id", text(&version.id));
    line("parent", number(version.parent));
    version.parent_id.iter().for_each(|id| line("parent_id", text(id)));
    line("restores", number(version.restores));
    line("time", text(&timestamp_to_text(version.time)));
    line("kind", text(version.kind.name()));
    line("schema", version.schema.as_deref().map_or("null".to_string(), text));
    let pairs = version.statistics.iter().map(|(name, n)| format!("{}: {n}", text(name)));
    line("statistics", format!("{{{}}}", pairs.collect::<Vec<_>>().join(", ")));
    let pairs = version.labels.iter().map(|(name, v)| format!("{}: {}", text(name), text(v)));
    line("labels", format!("{{{}}}", pairs.collect::<Vec<_>>().join(", ")));
    let files = version.files.iter().map(|file| {
        format!(
            "\n{{\"name\": {}, \"bytes\": {}, \"content\": \"{}\", \"blake3\": \"{}\", \
             \"since\": {}}}",
            text(&file.name),
            file.bytes,
            file.content,
            file.blake3,
            file.since
        )
    });
    line("files", format!("[{}]", files.collect::<Vec<_>>().join(",")));
    let checksum = xxh3_64(out.as_bytes());
    let _ = writeln!(out, "{CHECKSUM}{checksum:016x}\"\n}}");
    out
}

/// Encodes a JSON string in ASCII.
pub(super) fn text(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for unit in value.encode_utf16() {
        match char::from_u32(unit.into()) {
            Some(c @ ('"' | '\\')) => out.extend(['\\', c]),
            Some(c @ ' '..='~') => out.push(c),
            _ => drop(write!(out, "\\u{unit:04x}")),
        }
    }
    out.push('"');
    out
}

/// Decodes the manifest of version `number` of `name`.
pub(super) fn decode(bytes: &[u8], name: &str, number: u64) -> Result<Version> {
    let object = version_object(name, number);
    parse(bytes, name, number).map_err(|e| e.in_file(object.as_ref()))
}

fn parse(bytes: &[u8], name: &str, number: u64) -> Result<Version> {
    let cut = || Error::corrupt("the manifest is cut or is none: it does not end in its checksum");
    let whole = std::str::from_utf8(bytes).map_err(|_| cut())?;
    let (body, end) = whole.rsplit_once(CHECKSUM).ok_or_else(cut)?;
    let expected = format!("{:016x}\"\n}}\n", xxh3_64(body.as_bytes()));
    if end != expected {
        return Err(Error::corrupt(format!(
            "the checksum of the manifest is {}, expected {}",
            expected.get(..16).unwrap_or_default(),
            end.get(..16).unwrap_or(end)
        )));
    }
    let json: Json = serde_json::from_str(whole)
        .map_err(|e| Error::corrupt(format!("the manifest is no JSON: {e}")))?;
    let members = json.as_object().ok_or_else(|| Error::corrupt("the manifest is no object"))?;
    let of = Members(members);
    let format = of.number("format")?;
    if format > FORMAT {
        let message = format!(
            "format {format} of a manifest; this release reads up to {FORMAT}: use a newer release"
        );
        return Err(Error::new(ErrorKind::UnsupportedVersion, message));
    }
    let version = of.version()?;
    if (version.name.as_str(), version.number) != (name, number) {
        return Err(Error::corrupt(format!(
            "this is the manifest of version {} of `{}`",
            version.number, version.name
        )));
    }
    Ok(version)
}

/// The members of a JSON object in a manifest, or in the text of a staged file.
pub(super) struct Members<'a>(pub(super) &'a Map<String, Json>);

impl Members<'_> {
    fn version(&self) -> Result<Version> {
        let mut files: Vec<VersionFile> = Vec::new();
        for file in self.get("files", Json::as_array)? {
            let file = file.as_object().ok_or_else(|| impossible("files"))?;
            files.push(Members(file).file()?);
        }
        let number = self.number("version")?;
        let ascend = files.is_sorted_by(|a, b| a.name < b.name);
        if !ascend || files.iter().any(|file| file.since == 0 || file.since > number) {
            return Err(impossible("files"));
        }
        let statistics = self.statistics()?;
        let mut labels = BTreeMap::new();
        for (name, value) in self.get("labels", Json::as_object)? {
            let value = value.as_str().ok_or_else(|| impossible("labels"))?;
            labels.insert(name.clone(), value.to_string());
        }
        let time = timestamp_from_text(self.text("time")?).ok_or_else(|| impossible("time"))?;
        let kind = self.text("kind")?;
        Ok(Version {
            name: self.text("name")?.to_string(),
            number,
            id: self.hex("id", 32)?,
            parent: self.unless_null("parent", Json::as_u64)?,
            parent_id: match self.0.contains_key("parent_id") {
                true => Some(self.hex("parent_id", 32)?),
                false => None,
            },
            restores: self.unless_null("restores", Json::as_u64)?,
            time,
            kind: VersionKind::from_name(kind).ok_or_else(|| impossible("kind"))?,
            schema: self.unless_null("schema", Json::as_str)?.map(str::to_string),
            statistics,
            labels,
            files,
        })
    }

    pub(super) fn statistics(&self) -> Result<BTreeMap<String, u64>> {
        let mut statistics = BTreeMap::new();
        for (name, n) in self.get("statistics", Json::as_object)? {
            let n = n.as_u64().ok_or_else(|| impossible("statistics"))?;
            statistics.insert(name.clone(), n);
        }
        Ok(statistics)
    }

    fn file(&self) -> Result<VersionFile> {
        let name = self.text("name")?.to_string();
        if !is_file_name(&name) {
            return Err(impossible("name")); // It could lead out of the reader's directory.
        }
        Ok(VersionFile {
            name,
            bytes: self.number("bytes")?,
            content: self.hex("content", 32)?,
            blake3: self.hex("blake3", 64)?,
            since: self.number("since")?,
        })
    }

    pub(super) fn get<'a, T>(
        &'a self,
        name: &str,
        read: impl Fn(&'a Json) -> Option<T>,
    ) -> Result<T> {
        self.0.get(name).and_then(read).ok_or_else(|| impossible(name))
    }

    pub(super) fn unless_null<'a, T>(
        &'a self,
        name: &str,
        read: impl Fn(&'a Json) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.0.get(name) {
            Some(Json::Null) => Ok(None),
            _ => self.get(name, read).map(Some),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<u64> {
        self.get(name, Json::as_u64)
    }

    pub(super) fn text(&self, name: &str) -> Result<&str> {
        self.get(name, Json::as_str)
    }

    pub(super) fn hex(&self, name: &str, digits: usize) -> Result<String> {
        let text = self.text(name)?;
        if is_hex(text, digits) { Ok(text.to_string()) } else { Err(impossible(name)) }
    }
}

pub(super) fn impossible(member: &str) -> Error {
    Error::corrupt(format!("the member `{member}` is missing or impossible"))
}
