//! Joins partitions without the documents they were built from.
//!
//! Keys of a field are merged, ordinals renumbered, documents stand one partition after the other
//! (or in the order of the schema); then the same writer as for built partitions chooses structures
//! anew.

use super::builder::empty_field;
use super::column::{MISSING, Ordinals};
use super::dictionary::{Dictionary, Keys};
use super::format::MAX_DOCUMENTS;
use super::partition::Partition;
use super::schema::{Field, Schema};
use super::write::{FieldData, sort_documents, write_partition};
use crate::disk::Append;
use crate::{Error, Result};
use std::sync::Arc;

/// A merged partition ready to be written.
pub(crate) struct Merged {
    parts: Vec<Arc<Partition>>,
    schema: Schema,
    documents: u32,
    fields: Vec<FieldData>,
    old: Option<Vec<u32>>,
}

/// Joins partitions in this order. They need the same fields with the same types and roles,
/// document order and form of payload; only the fields of dynamic schemas may differ.
pub(crate) fn merge(parts: &[Arc<Partition>]) -> Result<Merged> {
    let first = parts.first().ok_or_else(|| Error::invalid("there is nothing to merge"))?;
    let mut schema = (*first.schema).clone();
    for part in &parts[1..] {
        join(&mut schema, &part.schema)?;
    }
    let documents: u64 = parts.iter().map(|part| u64::from(part.documents)).sum();
    if documents > u64::from(MAX_DOCUMENTS) {
        return Err(Error::invalid(format!(
            "{documents} documents are too many for one partition; it has at most {MAX_DOCUMENTS}"
        )));
    }
    let fields: Result<Vec<FieldData>> =
        schema.fields.iter().map(|f| merge_field(f, parts)).collect();
    let (mut fields, documents) = (fields?, documents as u32);
    let old = sort_documents(&schema, documents, &mut fields)?;
    Ok(Merged { parts: parts.to_vec(), schema, documents, fields, old })
}

fn join(schema: &mut Schema, other: &Schema) -> Result<()> {
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
        match schema.field(&field.name) {
            Some((_, known)) if known == field => {}
            None if dynamic => schema.fields.push(field.clone()),
            _ => return Err(differs(&format!("field `{}`", field.name))),
        }
    }
    Ok(())
}

/// A field of partitions, one after the other.
pub(crate) fn merge_field(field: &Field, parts: &[Arc<Partition>]) -> Result<FieldData> {
    let mut sources = Vec::with_capacity(parts.len());
    for part in parts {
        sources.push(match part.schema.field(&field.name) {
            Some((i, _)) => decode_field(part, i)?,
            None => empty_field(field, part.documents as usize),
        });
    }
    let values = |source: &FieldData| match &source.ordinals {
        Ordinals::Single(_) => 0,
        Ordinals::Multi { ords, .. } => ords.len(),
    };
    let values: usize = sources.iter().map(values).sum();
    if values > u32::MAX as usize {
        return Err(Error::invalid(format!(
            "the partitions have {values} values of `{}` together; one has at most {}",
            field.name,
            u32::MAX
        )));
    }
    let (keys, maps) = merge_keys(&sources);
    let (mut single, mut starts, mut multi) = (Vec::new(), vec![0u32], Vec::new());
    for (source, map) in sources.iter().zip(&maps) {
        match &source.ordinals {
            Ordinals::Single(ords) => single
                .extend(ords.iter().map(|&o| if o == MISSING { MISSING } else { map[o as usize] })),
            Ordinals::Multi { starts: from, ords } => {
                let base = multi.len() as u32;
                multi.extend(ords.iter().map(|&o| map[o as usize]));
                starts.extend(from[1..].iter().map(|s| base + s));
            }
        }
    }
    let ordinals = if field.multi {
        Ordinals::Multi { starts, ords: multi }
    } else {
        Ordinals::Single(single)
    };
    Ok(FieldData { keys, ordinals })
}

/// A field of a partition as the writer took it.
fn decode_field(part: &Partition, field: usize) -> Result<FieldData> {
    let dictionary = part.dictionary(field)?;
    let distinct = dictionary.len() as u32;
    let keys = match dictionary {
        Dictionary::Fixed(_) => {
            Keys::Fixed((0..distinct).map(|o| dictionary.fixed_key(o)).collect())
        }
        Dictionary::Bytes { .. } => {
            Keys::Bytes((0..distinct).map(|o| dictionary.bytes_key(o).to_vec()).collect())
        }
    };
    let column = part.column_or_made(field)?;
    let outside =
        || Error::corrupt("a document has a value that is not there").in_file(part.file.path());
    let ordinals = if part.schema.fields[field].multi {
        let (mut starts, mut ords) = (vec![0], Vec::new());
        for doc in 0..part.documents {
            column.each(doc, distinct, |ord| ords.push(ord));
            starts.push(ords.len() as u32);
        }
        if ords.iter().any(|&ord| ord >= distinct) {
            return Err(outside());
        }
        Ordinals::Multi { starts, ords }
    } else {
        let ord = |doc| match column.get(doc) {
            ord if ord >= distinct => MISSING,
            ord => ord,
        };
        Ordinals::Single((0..part.documents).map(ord).collect())
    };
    let mut unused = vec![true; distinct as usize];
    let all = match &ordinals {
        Ordinals::Single(ords) | Ordinals::Multi { ords, .. } => ords,
    };
    all.iter().filter(|&&ord| ord != MISSING).for_each(|&ord| unused[ord as usize] = false);
    if unused.contains(&true) {
        // Postings of no documents cannot be written.
        let message = "no document has one of the values of a field";
        return Err(Error::corrupt(message).in_file(part.file.path()));
    }
    Ok(FieldData { keys, ordinals })
}

/// All keys ascending, and for each source the new ordinal of each of its keys.
fn merge_keys(sources: &[FieldData]) -> (Keys, Vec<Vec<u32>>) {
    if matches!(sources[0].keys, Keys::Fixed(_)) {
        let lists = sources.iter().map(|s| match &s.keys {
            Keys::Fixed(keys) => keys.clone(),
            Keys::Bytes(_) => Vec::new(),
        });
        let (keys, maps) = merge_lists(lists.collect());
        (Keys::Fixed(keys), maps)
    } else {
        let lists = sources.iter().map(|s| match &s.keys {
            Keys::Fixed(_) => Vec::new(),
            Keys::Bytes(keys) => keys.iter().map(Vec::as_slice).collect(),
        });
        let (keys, maps) = merge_lists::<&[u8]>(lists.collect());
        (Keys::Bytes(keys.into_iter().map(<[u8]>::to_vec).collect()), maps)
    }
}

fn merge_lists<K: Ord + Copy>(lists: Vec<Vec<K>>) -> (Vec<K>, Vec<Vec<u32>>) {
    let mut maps: Vec<Vec<u32>> = lists.iter().map(|list| vec![0; list.len()]).collect();
    let mut all: Vec<(K, u32, u32)> = Vec::with_capacity(maps.iter().map(Vec::len).sum());
    for (source, list) in (0..).zip(lists) {
        all.extend((0..).zip(list).map(|(ord, key)| (key, source, ord)));
    }
    all.sort_by_key(|&(key, ..)| key); // a merge of sorted runs: the stable sort finds them
    let mut keys: Vec<K> = Vec::new();
    for (key, source, ord) in all {
        if keys.last() != Some(&key) {
            keys.push(key);
        }
        maps[source as usize][ord as usize] = keys.len() as u32 - 1;
    }
    (keys, maps)
}

impl Merged {
    pub(crate) fn write(self, out: &mut dyn Append) -> Result<u128> {
        let Merged { parts, schema, documents, fields, old } = self;
        let mut starts: Vec<u32> = vec![0];
        starts.extend(parts.iter().scan(0, |sum, part| {
            *sum += part.documents;
            Some(*sum)
        }));
        let mut source = |doc: u32, out: &mut Vec<u8>| {
            let doc = old.as_ref().map_or(doc, |old| old[doc as usize]);
            let i = starts.partition_point(|&start| start <= doc) - 1;
            out.extend_from_slice(&parts[i].payload(doc - starts[i])?);
            Ok(())
        };
        write_partition(out, &schema, documents, fields, &mut source)
    }
}
