//! Partitionings: documents are assigned to partitions by the hash of the key, by a field, or by
//! both.
//!
//! The name of a partition is made of the value of the field and the number by hash:
//!
//! | by | names |
//! |---|---|
//! | hash | `00000` to `31999` |
//! | field | the value, escaped by [`partition_name`] |
//! | both | the value, escaped, a dot, the number |

use crate::search::{Schema, Type, Value, timestamp_to_text};
use crate::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

/// Most partitions by hash, for each value of the field if there is one. The total is limited by
/// [`crate::search::MAX_PARTITIONS`].
pub const MAX_PARTITIONS: u32 = 32_000;

/// How documents are assigned to partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioning {
    pub(super) field: Option<String>,
    /// Partitions by hash; 0 if not by hash.
    pub(super) partitions: u32,
}

impl Partitioning {
    /// Assigns documents to 1 to [`MAX_PARTITIONS`] partitions by the hash of the key.
    pub fn by_hash(partitions: u32) -> Partitioning {
        Partitioning { field: None, partitions }
    }

    /// Assigns documents to one partition per value of a field. The field must be single-valued and
    /// of type bool, i64, u64 or string.
    pub fn by_field(field: impl Into<String>) -> Partitioning {
        Partitioning { field: Some(field.into()), partitions: 0 }
    }

    /// Assigns documents to a number of partitions per value of a field, by the hash of the key.
    pub fn by_field_and_hash(field: impl Into<String>, partitions: u32) -> Partitioning {
        Partitioning { field: Some(field.into()), partitions }
    }

    /// The field by which documents are assigned, if any.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// The number of partitions by hash (per value of the field), if assigned by hash.
    pub fn partitions(&self) -> Option<u32> {
        (self.partitions > 0).then_some(self.partitions)
    }

    /// `InvalidArgument` unless documents of this schema can be assigned this way.
    pub(super) fn check(&self, schema: &Schema) -> Result<()> {
        if schema.is_dynamic() {
            return Err(Error::invalid(
                "an index needs a schema that names its fields; this one is dynamic",
            ));
        }
        let least = u32::from(self.field.is_none());
        if !(least..=MAX_PARTITIONS).contains(&self.partitions) {
            return Err(Error::invalid(format!(
                "{} partitions; choose 1 to {MAX_PARTITIONS}",
                self.partitions
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
}

/// The name of the partition of the documents with this value. Bytes other than `A-Z a-z 0-9 -`
/// become `_` and two hexadecimal digits. A missing value is `_none`, an empty text is `_empty`.
/// A name of more than 80 characters is replaced by its first 60 characters, `__` and a hash. So
/// different values have different names.
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
    use super::*;
    use crate::ErrorKind;
    use crate::search::{Field, Roles};

    fn schema() -> Schema {
        let text = Field::new("text", Type::String, Roles::FILTERABLE).nullable();
        let tags = Field::new("tags", Type::String, Roles::FILTERABLE).multi();
        let price = Field::new("price", Type::F64, Roles::FULL).nullable();
        Schema::new([text, tags, price]).unwrap()
    }

    #[test]
    fn unsuitable_partitionings_are_rejected() {
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
