//! A document: field values and an opaque payload.

use crate::search::model::value::Value;

/// One document for [`crate::search::PartitionBuilder`]: field values and a payload, which queries
/// return unchanged.
///
/// Setting a field several times gives it several values. They form a set: order and repetitions
/// are not kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    pub(crate) fields: Vec<(String, Value)>,
    pub(crate) payload: Vec<u8>,
}

impl Document {
    /// A document without fields and with an empty payload.
    pub fn new() -> Document {
        Document::default()
    }

    /// Adds a value to a field.
    pub fn set(mut self, field: impl Into<String>, value: impl Into<Value>) -> Document {
        self.fields.push((field.into(), value.into()));
        self
    }

    /// Adds a value to a field, for use in loops.
    pub fn push(&mut self, field: impl Into<String>, value: impl Into<Value>) {
        self.fields.push((field.into(), value.into()));
    }

    /// Sets the payload: arbitrary bytes, at most 4 GiB - 1.
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Document {
        self.payload = payload.into();
        self
    }

    /// The field values in the order in which they were set.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The payload.
    pub fn payload_bytes(&self) -> &[u8] {
        &self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_keeps_fields_and_payload() {
        let mut document = Document::new().set("a", 1i64).set("tags", "x").payload(b"{}");
        document.push("tags", "y");
        let fields: Vec<(&str, &Value)> = document.fields().collect();
        let [x, y] = ["x", "y"].map(Value::from);
        assert_eq!(fields, [("a", &Value::I64(1)), ("tags", &x), ("tags", &y)]);
        assert_eq!(document.payload_bytes(), b"{}");
        assert_eq!(Document::new().payload_bytes(), b"");
    }
}
