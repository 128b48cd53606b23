//! Which partition a document belongs to: by the hash of its key, by a field, or by both.
//!
//! The name of a partition is made from the value and the number, and values may be any text:
//!
//! | by | names |
//! |---|---|
//! | hash | `00000` to `31999` |
//! | field | the value; every byte but `A-Z a-z 0-9 -` becomes `_` and two hexadecimal digits |
//! | both | the value as above, a dot, the number |
//!
//! A missing value is `_none`, an empty one `_empty`. Of a value that needs more than 80 characters
//! the first 60 are taken, then `__` and 16 digits of a hash. So different values have different
//! names.

use super::format::{Id, decode_document};
use crate::search::{Schema, Type, Value, timestamp_to_text};
use crate::{Error, Result};
use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_64;

/// Partitions by hash that there may be (for each value of the field, if there is one; all together
/// are limited by [`crate::search::MAX_PARTITIONS`]).
pub const MAX_PARTITIONS: u32 = 32_000;

/// How documents come to partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioning {
    pub(super) field: Option<String>,
    /// 0: not by hash.
    pub(super) parts: u32,
}

impl Partitioning {
    /// So many partitions, 1 to [`MAX_PARTITIONS`], by the hash of the key.
    pub fn by_hash(partitions: u32) -> Partitioning {
        Partitioning { field: None, parts: partitions }
    }

    /// A partition for each value of a field that is single-valued and of type bool, i64, u64 or
    /// string.
    pub fn by_field(field: impl Into<String>) -> Partitioning {
        Partitioning { field: Some(field.into()), parts: 0 }
    }

    /// So many partitions by the hash of the key for each value of a field.
    pub fn by_field_and_hash(field: impl Into<String>, partitions: u32) -> Partitioning {
        Partitioning { field: Some(field.into()), parts: partitions }
    }

    /// The field, if documents are divided by one.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// The number of partitions by hash, if documents are divided by it.
    pub fn partitions(&self) -> Option<u32> {
        (self.parts > 0).then_some(self.parts)
    }

    /// `InvalidArgument` unless documents of this schema can be divided so.
    pub(super) fn check(&self, schema: &Schema) -> Result<()> {
        if schema.is_dynamic() {
            return Err(Error::invalid(
                "an index needs a schema that names its fields; this one is dynamic",
            ));
        }
        let least = u32::from(self.field.is_none());
        if !(least..=MAX_PARTITIONS).contains(&self.parts) {
            return Err(Error::invalid(format!(
                "{} partitions; choose 1 to {MAX_PARTITIONS}",
                self.parts
            )));
        }
        let Some(name) = &self.field else { return Ok(()) };
        let (_, field) = schema.field(name).ok_or_else(|| schema.unknown(name))?;
        let is_fit = matches!(field.ty, Type::Bool | Type::I64 | Type::U64 | Type::String);
        if is_fit && !field.multi {
            return Ok(());
        }
        let several = if field.multi { ", multi-valued" } else { "" };
        Err(Error::invalid(format!(
            "cannot divide by field `{name}` of type {}{several}; it must have one value of type \
             bool, i64, u64 or string",
            field.ty.name()
        )))
    }

    /// The partition of a document that is stored as `document`.
    pub(super) fn name_of(&self, schema: &Schema, id: Id, document: &[u8]) -> Result<String> {
        let mut name = match &self.field {
            None => String::new(),
            Some(field) => {
                let document = decode_document(schema, document)?;
                partition_name(document.fields().find(|(name, _)| name == field).map(|(_, v)| v))
            }
        };
        if self.parts > 0 {
            let part = id.0 as u64 % u64::from(self.parts);
            let dot = if name.is_empty() { "" } else { "." };
            let _ = write!(name, "{dot}{part:05}"); // Writing to a string cannot fail.
        }
        Ok(name)
    }
}

/// The name of the partition of the documents that have this value, or none. Every byte but
/// `A-Z a-z 0-9 -` becomes `_` and two hexadecimal digits; no value is `_none`, an empty text is
/// `_empty`, a long one its first 60 characters, `__` and a hash. So different values have
/// different names.
pub fn partition_name(value: Option<&Value>) -> String {
    let text = match value {
        None => return "_none".to_string(),
        Some(Value::Str(text)) => text.clone(),
        Some(Value::Timestamp(micros)) => timestamp_to_text(*micros),
        Some(other) => other.to_string(),
    };
    let mut name = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || byte == b'-' {
            true => name.push(char::from(byte)),
            false => name += &format!("_{byte:02x}"),
        }
    }
    match name.len() {
        0 => "_empty".to_string(),
        1..=80 => name,
        _ => format!("{}__{:016x}", &name[..60], xxh3_64(text.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{encode_document, id_of};
    use super::*;
    use crate::ErrorKind;
    use crate::search::{Document, Field, Roles};

    fn schema() -> Schema {
        let text = Field::new("text", Type::String, Roles::FILTERABLE).nullable();
        let tags = Field::new("tags", Type::String, Roles::FILTERABLE).multi();
        let price = Field::new("price", Type::F64, Roles::FULL).nullable();
        Schema::new([text, tags, price]).unwrap()
    }

    fn name(partitioning: &Partitioning, key: &str, text: Option<&str>) -> String {
        let document = text.map_or_else(Document::new, |text| Document::new().set("text", text));
        let bytes = encode_document(&schema(), &document).unwrap();
        partitioning.name_of(&schema(), id_of(key.as_bytes()), &bytes).unwrap()
    }

    #[test]
    fn names_are_those_of_values_and_numbers() {
        let by_text = Partitioning::by_field("text");
        for (text, expected) in [
            (Some("UA"), "UA"),
            (Some("2013-01-01"), "2013-01-01"),
            (Some("a.b c_"), "a_2eb_20c_5f"),
            (Some(""), "_empty"),
            (Some("none"), "none"),
            (None, "_none"),
        ] {
            assert_eq!(name(&by_text, "k", text), expected);
        }
        let long: Vec<String> = ["x", "y"]
            .iter()
            .map(|end| name(&by_text, "k", Some(&("a".repeat(99) + end))))
            .collect();
        assert!(long[0].len() == 78 && long[0] != long[1], "{long:?}");
        let both = name(&Partitioning::by_field_and_hash("text", 32_000), "k", Some("UA"));
        let hash = name(&Partitioning::by_hash(32_000), "k", Some("UA"));
        assert_eq!(both, format!("UA.{hash}"));
    }

    #[test]
    fn keys_are_spread_evenly() {
        let by_hash = Partitioning::by_hash(4);
        let mut counts = std::collections::BTreeMap::new();
        for n in 0..4000 {
            *counts.entry(name(&by_hash, &format!("key {n}"), None)).or_insert(0) += 1;
        }
        assert_eq!(counts.keys().collect::<Vec<_>>(), ["00000", "00001", "00002", "00003"]);
        assert!(counts.values().all(|count| (900..1100).contains(count)), "{counts:?}");
    }

    #[test]
    fn what_cannot_divide_is_refused() {
        for (partitioning, word) in [
            (Partitioning::by_hash(0), "0 partitions"),
            (Partitioning::by_hash(32_001), "32001 partitions"),
            (Partitioning::by_field("texd"), "fields are `text`"),
            (Partitioning::by_field("tags"), "multi-valued"),
            (Partitioning::by_field("price"), "type f64"),
        ] {
            let error = partitioning.check(&schema()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains(word), "{error}");
        }
        let dynamic = Schema::dynamic(Roles::FILTERABLE);
        assert!(Partitioning::by_hash(1).check(&dynamic).is_err());
    }
}
