//! Merges partitions into one, without the documents they were built from.
//!
//! Each field is joined separately (`join.rs`). Documents are concatenated in the order of the
//! partitions, then sorted if the schema orders them. The encodings are chosen anew by the writer
//! that the builder uses.

use crate::disk::Append;
use crate::search::build::join::{JoinInput, join_field};
use crate::search::build::partition_writer::{FieldData, sort_documents, write_partition};
use crate::search::codec::payload::Block;
use crate::search::format::MAX_DOCUMENTS;
use crate::search::model::schema::Schema;
use crate::search::partition::Partition;
use crate::{Error, Result};
use std::sync::Arc;

/// A merged partition that is ready to be written.
pub(crate) struct Merged {
    parts: Vec<Arc<Partition>>,
    schema: Schema,
    documents: u32,
    fields: Vec<FieldData>,
    /// For each document its number in the concatenation; `None` if documents did not move.
    new_to_old: Option<Vec<u32>>,
}

/// Merges partitions in this order. They must have the same document order, the same payload
/// encoding, and the same fields with equal types and roles; only dynamic schemas may differ in
/// fields. The result has the points (pairs of fields) of all partitions; no field may be in two.
/// Errors: `InvalidArgument` if they differ, or have too many documents together.
pub(crate) fn merge(parts: &[Arc<Partition>]) -> Result<Merged> {
    let first = parts.first().ok_or_else(|| Error::invalid("there is nothing to merge"))?;
    let mut schema = (*first.schema).clone();
    for part in &parts[1..] {
        merge_schema(&mut schema, &part.schema)?;
    }
    let documents: u64 = parts.iter().map(|part| u64::from(part.documents)).sum();
    if documents > u64::from(MAX_DOCUMENTS) {
        return Err(Error::invalid(format!(
            "{documents} documents are too many for one partition; it has at most {MAX_DOCUMENTS}"
        )));
    }
    let input = JoinInput::all_of(parts);
    let fields: Result<Vec<FieldData>> =
        schema.fields.iter().map(|field| join_field(field, &input)).collect();
    let (mut fields, documents) = (fields?, documents as u32);
    let new_to_old = sort_documents(&schema, documents, &mut fields)?;
    Ok(Merged { parts: parts.to_vec(), schema, documents, fields, new_to_old })
}

/// Adds the fields and points of `other` to `schema`.
fn merge_schema(schema: &mut Schema, other: &Schema) -> Result<()> {
    let differs = |what: &str| Error::invalid(format!("partitions to be merged differ in {what}"));
    if schema.order != other.order {
        return Err(differs("the order of documents"));
    }
    if schema.payload != other.payload {
        return Err(differs("the form of payloads"));
    }
    let dynamic = schema.dynamic.is_some() && schema.dynamic == other.dynamic;
    if schema.dynamic != other.dynamic || (!dynamic && schema.fields.len() != other.fields.len()) {
        return Err(differs("their fields"));
    }
    for field in &other.fields {
        match schema.fields.iter_mut().find(|known| known.name == field.name) {
            Some(known) if known.equals_except_scanned(field) => known.scanned |= field.scanned,
            None if dynamic => schema.add(field.clone())?,
            _ => return Err(differs(&format!("field `{}`", field.name))),
        }
    }
    schema.merge_points(other).map_err(|_| differs("their points"))
}

impl Merged {
    /// Writes the file. Returns its content id.
    pub(crate) fn write(self, out: &mut dyn Append) -> Result<u128> {
        let Merged { parts, schema, documents, fields, new_to_old } = self;
        let mut starts: Vec<u32> = vec![0];
        starts.extend(parts.iter().scan(0, |sum, part| {
            *sum += part.documents;
            Some(*sum)
        }));
        // Consecutive documents share payload blocks, so keep the last block of each partition.
        let mut blocks: Vec<Option<Block>> = parts.iter().map(|_| None).collect();
        let mut source = |doc: u32, out: &mut Vec<u8>| {
            let doc = new_to_old.as_ref().map_or(doc, |map| map[doc as usize]);
            let i = starts.partition_point(|&start| start <= doc) - 1;
            let (part, doc) = (&parts[i], doc - starts[i]);
            part.payloads.append(&part.file, doc, &mut blocks[i], out)
        };
        write_partition(out, &schema, documents, fields, &mut source)
    }
}
