//! Assigns a document to its partition.

use super::format::{Id, decode_document};
use super::partitioning::{Partitioning, partition_name};
use crate::Result;
use crate::search::Schema;
use std::fmt::Write;

/// The name of the partition of a document, which is given in its stored form.
pub(super) fn partition_of(
    partitioning: &Partitioning,
    schema: &Schema,
    id: Id,
    document: &[u8],
) -> Result<String> {
    let mut name = match partitioning.field() {
        None => String::new(),
        Some(field) => {
            let document = decode_document(schema, document)?;
            partition_name(document.fields().find(|(name, _)| *name == field).map(|(_, v)| v))
        }
    };
    if let Some(partitions) = partitioning.partitions() {
        let number = id.0 as u64 % u64::from(partitions);
        let dot = if name.is_empty() { "" } else { "." };
        let _ = write!(name, "{dot}{number:05}"); // Writing to a string cannot fail.
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::indexer::format::{encode_document, id_of};
    use crate::search::{Document, Field, Roles, Type};

    fn schema() -> Schema {
        Schema::new([Field::new("text", Type::String, Roles::FILTERABLE).nullable()]).unwrap()
    }

    fn name(partitioning: &Partitioning, key: &str, text: Option<&str>) -> String {
        let document = text.map_or_else(Document::new, |text| Document::new().set("text", text));
        let bytes = encode_document(&schema(), &document).unwrap();
        partition_of(partitioning, &schema(), id_of(key.as_bytes()), &bytes).unwrap()
    }

    #[test]
    fn names_consist_of_value_and_number() {
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
    fn keys_are_distributed_evenly() {
        let by_hash = Partitioning::by_hash(4);
        let mut counts = std::collections::BTreeMap::new();
        for n in 0..4000 {
            *counts.entry(name(&by_hash, &format!("key {n}"), None)).or_insert(0) += 1;
        }
        assert_eq!(counts.keys().collect::<Vec<_>>(), ["00000", "00001", "00002", "00003"]);
        assert!(counts.values().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
