//! Documents: the payload, then for each value the name of its field and the value.

use super::value;
use crate::convert::Unpack;
use crate::error::Result;
use firndb::Error;
use firndb::search::Document;

/// Reads a document.
pub fn unpack(unpack: &mut Unpack<'_>) -> Result<Document> {
    let mut document = Document::new().payload(unpack.bytes()?);
    for _ in 0..unpack.int()? {
        let name = unpack.text()?;
        let value = value::unpack(unpack)?;
        document.push(name, value.ok_or_else(|| Error::invalid("a packed value is missing"))?);
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::Pack;
    use firndb::search::Value;

    #[test]
    fn documents_are_unpacked_as_they_were() {
        let mut packed = Pack::default();
        packed.bytes(b"payload");
        packed.int(2);
        for tag in ["x", "y"] {
            packed.text("tags");
            value::pack(&mut packed, Some(&Value::from(tag)));
        }
        let expected = Document::new().payload(b"payload").set("tags", "x").set("tags", "y");
        assert_eq!(unpack(&mut Unpack(&packed.0)).ok(), Some(expected));
        for end in 0..packed.0.len() {
            assert!(unpack(&mut Unpack(&packed.0[..end])).is_err(), "{end}");
        }
        let mut without = Pack::default();
        without.bytes(b"");
        without.int(1);
        without.text("tags");
        value::pack(&mut without, None);
        assert!(unpack(&mut Unpack(&without.0)).is_err());
    }
}
