//! Builds one partition file from documents.
//!
//! 1. `PartitionBuilder::add` validates a document, then interns its keys.
//! 2. `Interner::finish` sorts the distinct keys of each field and maps their numbers to ordinals.
//! 3. `sort_documents` applies the schema's document order.
//! 4. `write_partition` chooses the encodings and writes; the caller publishes the file atomically.
//!
//! Memory: 4 bytes per value; about 40 bytes plus the key's length per distinct key of each field;
//! and payloads up to a quarter of the limit. Further payloads go to a temporary file.

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

/// Builds one partition from documents in bounded memory, see [`PartitionBuilder::memory_limit`].
pub struct PartitionBuilder {
    schema: Schema,
    fields: Vec<FieldValues>,
    documents: u32,
    payloads: PayloadSpill,
    memory_limit: usize,
    /// Field number and key of each value of the document being added, while it is validated.
    pending: Vec<(usize, Key)>,
}

/// The values of one field in the documents added so far.
#[derive(Default)]
struct FieldValues {
    interner: Interner,
    /// Single-valued fields: the interned number of each document, or `MISSING`.
    single: Vec<u32>,
    /// Multi-valued fields: the interned numbers of all documents, concatenated.
    multi: Vec<u32>,
    /// Multi-valued fields: the end of each document in `multi`.
    ends: Vec<u32>,
}

impl PartitionBuilder {
    /// Creates a builder for a partition with this schema.
    pub fn new(schema: Schema) -> PartitionBuilder {
        let fields = schema.fields.iter().map(|_| FieldValues::default()).collect();
        PartitionBuilder {
            schema,
            fields,
            documents: 0,
            payloads: PayloadSpill::new(DEFAULT_MEMORY / 4),
            memory_limit: DEFAULT_MEMORY,
            pending: Vec::new(),
        }
    }

    /// Limits the memory, in bytes, of documents that are not written yet (default 1 GiB). `add`
    /// rejects a document that would exceed it, and one that would make a hash table of keys grow
    /// beyond it (a growing table temporarily takes three times its size). Writing needs additional
    /// memory: up to 8 bytes per value and 24 bytes plus the key's length per distinct key of the
    /// largest field, 20 bytes per document while a pair of fields is encoded as points, and 3 MiB
    /// while the file's write buffer of 2 MiB grows. Payloads beyond a quarter of the limit are
    /// spilled, see [`PartitionBuilder::temp_dir`].
    pub fn memory_limit(mut self, bytes: usize) -> PartitionBuilder {
        self.memory_limit = bytes;
        self.payloads.set_budget(bytes / 4);
        self
    }

    /// Sets the directory of the temporary file that holds the payloads beyond a quarter of the
    /// memory limit. The directory of the partition is a good choice. The file is unnamed and has
    /// mode 0600. The default is the system's temporary directory, because the builder does not
    /// know the partition's path; that directory may be small, or in memory.
    pub fn temp_dir(mut self, folder: impl AsRef<Path>) -> PartitionBuilder {
        self.payloads.set_folder(disk::os(), folder.as_ref());
        self
    }

    /// The schema. If it is dynamic, it includes the fields added by documents.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Adds a document. It gets the next document number, unless the schema orders documents.
    /// Errors: `InvalidArgument` if the document does not match the schema or a limit is reached;
    /// an I/O error if payloads cannot be spilled. After an error the builder has the same
    /// documents as before.
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
        let known_fields = self.schema.fields.len();
        let result = self.validate(document).and_then(|()| self.payloads.push(&document.payload));
        if let Err(error) = result {
            self.schema.fields.truncate(known_fields);
            return Err(error);
        }
        self.add_pending();
        Ok(())
    }

    /// Validates a document as `add` does, without adding it and without checking limits of the
    /// builder. The schema must not be dynamic.
    pub(crate) fn check_only(&mut self, document: &Document) -> Result<()> {
        if document.payload.len() > u32::MAX as usize {
            return Err(Error::invalid("a payload has at most 4 GiB - 1"));
        }
        self.validate(document)
    }

    /// Validates a document and encodes its values into `pending`. Adds new fields to a dynamic
    /// schema; the caller removes them after an error.
    fn validate(&mut self, document: &Document) -> Result<()> {
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
        let missing = self
            .schema
            .fields
            .iter()
            .enumerate()
            .find(|(i, f)| !f.nullable && !self.pending.iter().any(|(given, _)| given == i));
        match missing {
            None => Ok(()),
            Some((_, f)) => Err(Error::invalid(format!(
                "field `{}` is missing; declare it nullable if documents may lack it",
                f.name
            ))),
        }
    }

    /// Adds the validated document in `pending`.
    fn add_pending(&mut self) {
        let documents = self.documents as usize;
        self.fields.resize_with(self.schema.fields.len(), FieldValues::default);
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

    /// The number of documents added so far.
    pub fn len(&self) -> u32 {
        self.documents
    }

    /// Whether no document has been added yet.
    pub fn is_empty(&self) -> bool {
        self.documents == 0
    }

    /// The memory of the documents added so far, in bytes, within a few percent. Excludes unused
    /// capacity of vectors, which the system has not backed with memory yet.
    pub fn memory(&self) -> usize {
        let fields = self
            .fields
            .iter()
            .map(|v| v.interner.memory() + 4 * (v.multi.len() + self.documents as usize));
        fields.sum::<usize>() + self.payloads.memory()
    }

    /// Writes the partition to a file of its own, atomically: the file is complete and durable once
    /// this returns `Ok`, and is unchanged otherwise. Replaces an existing file.
    pub fn write(self, path: impl AsRef<Path>) -> Result<()> {
        self.write_on(&disk::os(), path.as_ref()).map(|_| ())
    }

    /// [`PartitionBuilder::write`] on a given disk. Returns the content id.
    pub(crate) fn write_on(self, disk: &DiskRef, path: &Path) -> Result<u128> {
        span!(INFO, "firndb.search.build", path = %path.display());
        let built = self.finish()?;
        disk::publish(&**disk, path, |out| built.write(out))
    }

    /// Sorts the keys and the documents.
    pub(crate) fn finish(self) -> Result<Built> {
        self.schema.payload.check()?;
        let documents = self.documents as usize;
        let mut fields = Vec::with_capacity(self.fields.len());
        for (field, values) in self.schema.fields.iter().zip(self.fields) {
            fields.push(values.finish(field, documents));
        }
        let new_to_old = sort_documents(&self.schema, self.documents, &mut fields)?;
        let payloads = self.payloads.finish()?;
        Ok(Built { schema: self.schema, documents: self.documents, fields, new_to_old, payloads })
    }
}

impl FieldValues {
    fn finish(mut self, field: &Field, documents: usize) -> FieldData {
        let (keys, ordinals) = self.interner.finish(field.ty.is_fixed());
        if !field.multi {
            self.single.resize(documents, MISSING);
            for number in self.single.iter_mut().filter(|n| **n != MISSING) {
                *number = ordinals[*number as usize];
            }
            return FieldData { keys, ordinals: Ordinals::Single(self.single) };
        }
        self.ends.resize(documents, self.multi.len() as u32);
        let (mut starts, mut ords) = (vec![0], Vec::with_capacity(self.multi.len()));
        let mut start = 0;
        let mut doc_ords = Vec::new();
        for end in self.ends {
            doc_ords.clear();
            doc_ords.extend(self.multi[start..end as usize].iter().map(|&n| ordinals[n as usize]));
            doc_ords.sort_unstable();
            doc_ords.dedup();
            ords.extend_from_slice(&doc_ords);
            starts.push(ords.len() as u32);
            start = end as usize;
        }
        FieldData { keys, ordinals: Ordinals::Multi { starts, ords } }
    }
}

/// A partition that is ready to be written.
pub(crate) struct Built {
    schema: Schema,
    documents: u32,
    fields: Vec<FieldData>,
    /// The number that each document had when it was added; `None` if documents did not move.
    new_to_old: Option<Vec<u32>>,
    payloads: crate::search::build::payload_spill::Spilled,
}

impl Built {
    pub(crate) fn write(self, out: &mut dyn disk::Append) -> Result<u128> {
        let Built { schema, documents, fields, new_to_old, payloads } = self;
        let mut source = |doc: u32, out: &mut Vec<u8>| {
            let doc = new_to_old.as_ref().map_or(doc, |map| map[doc as usize]);
            payloads.get(doc, out)
        };
        write_partition(out, &schema, documents, fields, &mut source)
    }
}

/// A field without values, for this many documents.
pub(crate) fn empty_field(field: &Field, documents: usize) -> FieldData {
    let keys = empty_keys(field);
    let ordinals = match field.multi {
        false => Ordinals::Single(vec![MISSING; documents]),
        true => Ordinals::Multi { starts: vec![0; documents + 1], ords: Vec::new() },
    };
    FieldData { keys, ordinals }
}

/// The empty key list of a field.
pub(crate) fn empty_keys(field: &Field) -> Keys {
    if field.ty.is_fixed() { Keys::Fixed(Vec::new()) } else { Keys::Bytes(Vec::new()) }
}
