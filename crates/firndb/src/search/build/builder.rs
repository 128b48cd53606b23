//! Documents -> one partition file.
//!
//! 1. `PartitionBuilder::add` checks a document whole and interns its keys.
//! 2. `Interner::finish` sorts the distinct keys of each field and renumbers.
//! 3. `sort_documents` applies the schema's order.
//! 4. `write_partition` chooses structures and writes; the caller publishes the file whole.
//!
//! Memory: 4 bytes a value and about 40 bytes plus its length a distinct key of each field, and
//! payloads up to a quarter of the limit; payloads beyond that wait in a temporary file.

use crate::disk::{self, DiskRef};
use crate::search::build::interner::Interner;
use crate::search::build::partition_writer::{FieldData, sort_documents, write_partition};
use crate::search::build::payload_spill::PayloadSpill;
use crate::search::codec::column::{MISSING, Ordinals};
use crate::search::codec::dictionary::Keys;
use crate::search::format::MAX_DOCUMENTS;
use crate::search::model::document::Document;
use crate::search::model::schema::{Field, Schema};
use crate::search::model::value::{Key, encode};
use crate::{Error, Result};
use std::path::Path;

/// Default of [`PartitionBuilder::memory_limit`].
pub const DEFAULT_MEMORY: usize = 1 << 30;

/// Builds one partition from documents, in bounded memory: see [`PartitionBuilder::memory_limit`].
pub struct PartitionBuilder {
    schema: Schema,
    fields: Vec<Values>,
    documents: u32,
    payloads: PayloadSpill,
    memory_limit: usize,
    /// Keys of the document being added, before it is known to be good.
    pending: Vec<(usize, Key)>,
}

/// The values of one field so far.
#[derive(Default)]
struct Values {
    interner: Interner,
    /// Single-valued: an interned number a document.
    single: Vec<u32>,
    /// Multi-valued: numbers of all documents, and where those of each document end.
    multi: Vec<u32>,
    ends: Vec<u32>,
}

impl PartitionBuilder {
    /// A builder of partitions of this schema.
    pub fn new(schema: Schema) -> PartitionBuilder {
        let fields = schema.fields.iter().map(|_| Values::default()).collect();
        PartitionBuilder {
            schema,
            fields,
            documents: 0,
            payloads: PayloadSpill::new(DEFAULT_MEMORY / 4),
            memory_limit: DEFAULT_MEMORY,
            pending: Vec::new(),
        }
    }

    /// Bounds the memory that documents take until the partition is written (default 1 GiB); `add`
    /// refuses a document beyond it, and one for which a table of keys would have to grow beyond it
    /// (while a table grows it takes three times its size). Writing needs up to 8 bytes a value and
    /// 24 bytes plus its length a distinct key of the largest field on top, 20 bytes a document for
    /// each point while it is made, and 3 MiB while the file's buffer of 2 MiB grows. Payloads
    /// beyond a quarter of the limit are spilled: see [`PartitionBuilder::spill_to`].
    pub fn memory_limit(mut self, bytes: usize) -> PartitionBuilder {
        self.memory_limit = bytes;
        self.payloads.set_budget(bytes / 4);
        self
    }

    /// The directory of the temporary file that takes payloads once they exceed a quarter of the
    /// memory limit: best the one that the partition will be in. The file has no name and the mode
    /// 0600. The default is the system's temporary directory, since a builder does not know where
    /// its partition goes; it may be small, or in memory.
    pub fn spill_to(mut self, folder: impl AsRef<Path>) -> PartitionBuilder {
        self.payloads.set_folder(disk::os(), folder.as_ref());
        self
    }

    /// The schema, with the fields that documents brought if it is dynamic.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Adds a document: it gets the next number, unless the schema orders documents. The document
    /// is checked whole before anything of it is taken; after an error the builder is as before.
    pub fn add(&mut self, document: &Document) -> Result<()> {
        if self.documents == MAX_DOCUMENTS {
            return Err(Error::invalid(format!(
                "a partition has at most {MAX_DOCUMENTS} documents"
            )));
        }
        if document.payload.len() > u32::MAX as usize {
            return Err(Error::invalid("a payload has at most 4 GiB - 1"));
        }
        let growth = self.fields.iter().map(|v| v.interner.growth(document.fields.len()));
        if self.memory() + growth.sum::<usize>() > self.memory_limit {
            return Err(Error::invalid(format!(
                "{} documents fill the memory limit of {} bytes; raise it or build more partitions",
                self.documents, self.memory_limit
            )));
        }
        let values = self.fields.iter().map(|v| v.multi.len()).max().unwrap_or(0);
        if values + document.fields.len() > u32::MAX as usize {
            return Err(Error::invalid(format!(
                "a partition has at most {} values of a multi-valued field; build more partitions",
                u32::MAX
            )));
        }
        let known = self.schema.fields.len();
        let result = self.check(document).and_then(|()| self.payloads.push(&document.payload));
        if let Err(error) = result {
            self.schema.fields.truncate(known);
            return Err(error);
        }
        self.take();
        Ok(())
    }

    /// Whether `add` would find anything wrong with the document itself. For builders of schemas
    /// that are not dynamic.
    pub(crate) fn check_only(&mut self, document: &Document) -> Result<()> {
        if document.payload.len() > u32::MAX as usize {
            return Err(Error::invalid("a payload has at most 4 GiB - 1"));
        }
        self.check(document)
    }

    /// Encodes the document's values into `pending`, new fields of a dynamic schema included.
    fn check(&mut self, document: &Document) -> Result<()> {
        self.schema.payload.check()?;
        self.pending.clear();
        for (name, value) in &document.fields {
            let known = self.schema.field(name).map(|(i, _)| i);
            let i = match (known, self.schema.dynamic) {
                (Some(i), _) => i,
                (None, None) => return Err(self.schema.unknown(name)),
                (None, Some(roles)) => {
                    let multi = !roles.sortable;
                    let ty = value.ty();
                    self.schema.add(Field {
                        name: name.clone(),
                        ty,
                        roles,
                        multi,
                        nullable: true,
                        scanned: false,
                    })?;
                    self.schema.fields.len() - 1
                }
            };
            let field = &self.schema.fields[i];
            let key = encode(field.ty, value)
                .map_err(|e| Error::invalid(format!("field `{name}`: {}", e.message())))?;
            if !field.multi && self.pending.iter().any(|(other, _)| *other == i) {
                return Err(Error::invalid(format!(
                    "field `{name}` has two values in one document but is not declared multi-valued"
                )));
            }
            self.pending.push((i, key));
        }
        let lacking = self
            .schema
            .fields
            .iter()
            .enumerate()
            .find(|(i, f)| !f.nullable && !self.pending.iter().any(|(given, _)| given == i));
        match lacking {
            None => Ok(()),
            Some((_, f)) => Err(Error::invalid(format!(
                "field `{}` is missing; declare it nullable if documents may lack it",
                f.name
            ))),
        }
    }

    /// Takes the checked document.
    fn take(&mut self) {
        let documents = self.documents as usize;
        self.fields.resize_with(self.schema.fields.len(), Values::default);
        for (i, key) in self.pending.drain(..) {
            let values = &mut self.fields[i];
            let number = values.interner.intern(key);
            if self.schema.fields[i].multi {
                values.ends.resize(documents, values.multi.len() as u32);
                values.multi.push(number);
            } else {
                values.single.resize(documents, MISSING);
                values.single.push(number);
            }
        }
        self.documents += 1;
        for values in &mut self.fields {
            if values.multi.len() as u32 != values.ends.last().copied().unwrap_or(0) {
                values.ends.push(values.multi.len() as u32);
            }
        }
    }

    /// Documents added so far.
    pub fn len(&self) -> u32 {
        self.documents
    }

    /// No document was added yet.
    pub fn is_empty(&self) -> bool {
        self.documents == 0
    }

    /// Bytes of memory that the documents take now, within a few percent. (A vector that grows may
    /// ask for more; what it has not used is not the system's memory yet.)
    pub fn memory(&self) -> usize {
        let fields = self
            .fields
            .iter()
            .map(|v| v.interner.memory() + 4 * (v.multi.len() + self.documents as usize));
        fields.sum::<usize>() + self.payloads.memory()
    }

    /// Publishes the partition as a file of its own: afterwards the file is there, whole and
    /// durable, or it is not. Replaces a file of this name.
    pub fn write(self, path: impl AsRef<Path>) -> Result<()> {
        self.write_on(&disk::os(), path.as_ref()).map(|_| ())
    }

    /// The same through a given disk. Gives the content id.
    pub(crate) fn write_on(self, disk: &DiskRef, path: &Path) -> Result<u128> {
        let built = self.finish()?;
        disk::publish(&**disk, path, |out| built.write(out))
    }

    /// Sorts keys and documents.
    pub(crate) fn finish(self) -> Result<Built> {
        self.schema.payload.check()?;
        let documents = self.documents as usize;
        let mut fields = Vec::with_capacity(self.fields.len());
        for (field, values) in self.schema.fields.iter().zip(self.fields) {
            fields.push(values.finish(field, documents));
        }
        let old = sort_documents(&self.schema, self.documents, &mut fields)?;
        let payloads = self.payloads.finish()?;
        Ok(Built { schema: self.schema, documents: self.documents, fields, old, payloads })
    }
}

impl Values {
    fn finish(mut self, field: &Field, documents: usize) -> FieldData {
        let (keys, renumbered) = self.interner.finish(field.ty.is_fixed());
        if !field.multi {
            self.single.resize(documents, MISSING);
            for number in self.single.iter_mut().filter(|n| **n != MISSING) {
                *number = renumbered[*number as usize];
            }
            return FieldData { keys, ordinals: Ordinals::Single(self.single) };
        }
        self.ends.resize(documents, self.multi.len() as u32);
        let (mut starts, mut ords) = (vec![0], Vec::with_capacity(self.multi.len()));
        let mut start = 0;
        let mut set = Vec::new();
        for end in self.ends {
            set.clear();
            set.extend(self.multi[start..end as usize].iter().map(|&n| renumbered[n as usize]));
            set.sort_unstable();
            set.dedup();
            ords.extend_from_slice(&set);
            starts.push(ords.len() as u32);
            start = end as usize;
        }
        FieldData { keys, ordinals: Ordinals::Multi { starts, ords } }
    }
}

/// A partition ready to be written.
pub(crate) struct Built {
    schema: Schema,
    documents: u32,
    fields: Vec<FieldData>,
    /// For each document its number as it was added.
    old: Option<Vec<u32>>,
    payloads: crate::search::build::payload_spill::Spilled,
}

impl Built {
    pub(crate) fn write(self, out: &mut dyn disk::Append) -> Result<u128> {
        let Built { schema, documents, fields, old, payloads } = self;
        let mut source = |doc: u32, out: &mut Vec<u8>| {
            let doc = old.as_ref().map_or(doc, |old| old[doc as usize]);
            payloads.get(doc, out)
        };
        write_partition(out, &schema, documents, fields, &mut source)
    }
}

/// A field of a partition in which no document has a value for it.
pub(crate) fn empty_field(field: &Field, documents: usize) -> FieldData {
    let keys = empty_keys(field);
    let ordinals = match field.multi {
        false => Ordinals::Single(vec![MISSING; documents]),
        true => Ordinals::Multi { starts: vec![0; documents + 1], ords: Vec::new() },
    };
    FieldData { keys, ordinals }
}

pub(crate) fn empty_keys(field: &Field) -> Keys {
    if field.ty.is_fixed() { Keys::Fixed(Vec::new()) } else { Keys::Bytes(Vec::new()) }
}
