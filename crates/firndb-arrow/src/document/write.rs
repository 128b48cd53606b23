//! Documents and hits to record batches.

use crate::document::schema::{item_of, to_arrow_schema};
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, ListArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use firndb::search::{Document, Field, Hit, Reader, Type, Value};
use firndb::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;

/// Maximum number of values of a batch column, and of bytes of its texts: offsets have 32 bits.
const COLUMN_MAX: usize = i32::MAX as usize;

/// Builds record batches from documents. Documents are added one by one; the schema of all batches
/// is the same.
pub struct BatchBuilder {
    fields: Vec<Field>,
    columns: Vec<ColumnBuilder>,
    rows: usize,
}

impl BatchBuilder {
    /// A builder of batches with these columns.
    pub fn new(fields: &[Field]) -> BatchBuilder {
        let columns = fields.iter().map(ColumnBuilder::new).collect();
        BatchBuilder { fields: fields.to_vec(), columns, rows: 0 }
    }

    /// Adds a document. Values of other fields and the payload are ignored.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, and the document is not added, if a field that is not nullable has no
    /// value, a field that is not multi-valued has several, a value is not of the type of its
    /// field, or a column would exceed 2 GiB.
    pub fn push(&mut self, document: &Document) -> Result<()> {
        let mut values: Vec<Vec<&Value>> = vec![Vec::new(); self.fields.len()];
        for (name, value) in document.fields() {
            if let Some(column) = self.fields.iter().position(|field| field.name == name) {
                values[column].push(value);
            }
        }
        self.push_values(&values)
    }

    fn push_values(&mut self, values: &[Vec<&Value>]) -> Result<()> {
        for ((field, column), values) in self.fields.iter().zip(&self.columns).zip(values) {
            let wrong =
                |reason: &str| Err(Error::invalid(format!("field `{}`: {reason}", field.name)));
            match values.len() {
                0 if !field.nullable => return wrong("there is no value"),
                2.. if !field.multi => return wrong("there are several values"),
                _ => {}
            }
            if values.iter().any(|value| value.ty() != field.ty) {
                return wrong("a value is of another type");
            }
            if !column.has_room(values) {
                return Err(too_large(field));
            }
        }
        for (column, values) in self.columns.iter_mut().zip(values) {
            column.push(values);
        }
        self.rows += 1;
        Ok(())
    }

    /// Number of documents of the current batch.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether the current batch has no documents.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the batch of the documents so far. The next document starts another batch.
    ///
    /// # Errors
    ///
    /// `Failed` if Arrow refuses the columns.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let schema = Arc::new(to_arrow_schema(&self.fields));
        let columns = self.columns.iter_mut().map(ColumnBuilder::finish);
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(refused)
    }
}

impl fmt::Debug for BatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows;
        f.debug_struct("BatchBuilder").field("fields", &self.fields).field("rows", &rows).finish()
    }
}

fn refused(error: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Failed, format!("cannot make a record batch: {error}"))
}

fn size_of_text(value: &Value) -> usize {
    match value {
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

/// A record batch with a row for each hit: the values of these fields, which must be stored or
/// sortable. Memory: the values.
///
/// # Errors
///
/// `InvalidArgument` for a field that the schema does not have or that cannot be read back; as
/// [`Reader::values`].
pub fn hits_to_batch(
    reader: &Reader,
    hits: &[Hit],
    fields: &[impl AsRef<str>],
) -> Result<RecordBatch> {
    let field = |name: &str| {
        let field = reader.schema().field(name).map(|(_, field)| field.clone());
        field.ok_or_else(|| Error::invalid(format!("there is no field `{name}`")))
    };
    let fields = fields.iter().map(|name| field(name.as_ref())).collect::<Result<Vec<Field>>>()?;
    let columns = fields.iter().map(|field| column_of_hits(reader, hits, field));
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(hits.len()));
    let schema = Arc::new(to_arrow_schema(&fields));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(refused)
}

/// The values of a field of hits.
fn column_of_hits(reader: &Reader, hits: &[Hit], field: &Field) -> Result<ArrayRef> {
    let mut column = ColumnBuilder::new(field);
    let mut values = reader.field(&field.name)?;
    let mut missing = false;
    macro_rules! append {
        ($to:ident, $each:ident) => {
            values.$each(hits, |value| {
                missing |= value.is_none();
                $to.append_option(value);
            })?
        };
    }
    match (&mut column.values, field.multi) {
        (Values::Bool(to), false) => append!(to, each_bool),
        (Values::I64(to), false) => append!(to, each_i64),
        (Values::U64(to), false) => append!(to, each_u64),
        (Values::F64(to), false) => append!(to, each_f64),
        (Values::Timestamp(to), false) => append!(to, each_i64),
        (Values::Str(to), false) => {
            let mut bytes = 0;
            values.each_str(hits, |value| {
                missing |= value.is_none();
                bytes += value.map_or(0, str::len);
                to.append_option(value.filter(|_| bytes <= COLUMN_MAX));
            })?;
            if bytes > COLUMN_MAX {
                return Err(too_large(field));
            }
        }
        _ => {
            let mut fits = true;
            values.each_list(hits, |values| {
                missing |= values.is_empty();
                let values: Vec<&Value> = values.iter().collect();
                fits = fits && column.has_room(&values);
                if fits {
                    column.push(&values);
                }
            })?;
            if !fits {
                return Err(too_large(field));
            }
        }
    }
    if missing && !field.nullable {
        return Err(Error::invalid(format!("field `{}`: there is no value", field.name)));
    }
    column.finish()
}

fn too_large(field: &Field) -> Error {
    Error::invalid(format!("field `{}`: a batch holds at most 2 GiB of a column", field.name))
}

struct ColumnBuilder {
    ty: Type,
    values: Values,
    /// Ends of the lists, for a multi-valued field.
    ends: Option<Vec<i32>>,
    /// Number of values.
    count: usize,
    /// Bytes of texts.
    bytes: usize,
}

enum Values {
    Bool(BooleanBuilder),
    I64(Int64Builder),
    U64(UInt64Builder),
    F64(Float64Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Str(StringBuilder),
    Bytes(BinaryBuilder),
}

impl ColumnBuilder {
    fn new(field: &Field) -> ColumnBuilder {
        let values = match field.ty {
            Type::Bool => Values::Bool(BooleanBuilder::new()),
            Type::I64 => Values::I64(Int64Builder::new()),
            Type::U64 => Values::U64(UInt64Builder::new()),
            Type::F64 => Values::F64(Float64Builder::new()),
            Type::Timestamp => {
                Values::Timestamp(TimestampMicrosecondBuilder::new().with_timezone("UTC"))
            }
            Type::String => Values::Str(StringBuilder::new()),
            Type::Bytes => Values::Bytes(BinaryBuilder::new()),
        };
        let ends = field.multi.then(|| vec![0]);
        ColumnBuilder { ty: field.ty, values, ends, count: 0, bytes: 0 }
    }

    /// Whether the values of one more row fit.
    fn has_room(&self, values: &[&Value]) -> bool {
        let bytes: usize = values.iter().map(|value| size_of_text(value)).sum();
        self.bytes.saturating_add(bytes) <= COLUMN_MAX
            && self.count.saturating_add(values.len()) < COLUMN_MAX
    }

    /// Adds the values of a row, whose types were checked.
    fn push(&mut self, values: &[&Value]) {
        for value in values {
            self.values.push(Some(value));
            self.bytes += size_of_text(value);
        }
        self.count += values.len();
        match &mut self.ends {
            Some(ends) => ends.push(self.count as i32),
            None if values.is_empty() => self.values.push(None),
            None => {}
        }
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        (self.count, self.bytes) = (0, 0);
        let values = self.values.finish();
        let Some(ends) = &mut self.ends else { return Ok(values) };
        let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(ends, vec![0])));
        let list = ListArray::try_new(item_of(self.ty), offsets, values, None);
        Ok(Arc::new(list.map_err(refused)?))
    }
}

impl Values {
    /// Adds a value of the type of the column, or null.
    fn push(&mut self, value: Option<&Value>) {
        match (self, value) {
            (Values::Bool(to), Some(Value::Bool(v))) => to.append_value(*v),
            (Values::I64(to), Some(Value::I64(v))) => to.append_value(*v),
            (Values::U64(to), Some(Value::U64(v))) => to.append_value(*v),
            (Values::F64(to), Some(Value::F64(v))) => to.append_value(*v),
            (Values::Timestamp(to), Some(Value::Timestamp(v))) => to.append_value(*v),
            (Values::Str(to), Some(Value::Str(v))) => to.append_value(v),
            (Values::Bytes(to), Some(Value::Bytes(v))) => to.append_value(v),
            (Values::Bool(to), _) => to.append_null(),
            (Values::I64(to), _) => to.append_null(),
            (Values::U64(to), _) => to.append_null(),
            (Values::F64(to), _) => to.append_null(),
            (Values::Timestamp(to), _) => to.append_null(),
            (Values::Str(to), _) => to.append_null(),
            (Values::Bytes(to), _) => to.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Values::Bool(values) => Arc::new(values.finish()),
            Values::I64(values) => Arc::new(values.finish()),
            Values::U64(values) => Arc::new(values.finish()),
            Values::F64(values) => Arc::new(values.finish()),
            Values::Timestamp(values) => Arc::new(values.finish()),
            Values::Str(values) => Arc::new(values.finish()),
            Values::Bytes(values) => Arc::new(values.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{DocumentReader, from_arrow_schema};
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use firndb::search::{Roles, Schema};

    fn schema() -> Schema {
        let field = |name, ty| Field::new(name, ty, Roles::FULL);
        Schema::new([
            field("b", Type::Bool).nullable(),
            field("i", Type::I64),
            field("u", Type::U64).nullable(),
            field("f", Type::F64).nullable(),
            field("t", Type::Timestamp).nullable(),
            field("s", Type::String).nullable(),
            field("x", Type::Bytes).nullable(),
            Field::new("m", Type::String, Roles::FILTERABLE.with(Roles::STORED)).multi(),
        ])
        .unwrap()
    }

    #[test]
    fn documents_round_trip_through_a_batch() {
        let schema = schema();
        let full = Document::new()
            .set("b", true)
            .set("i", -3i64)
            .set("u", u64::MAX)
            .set("f", -0.5)
            .set("t", Value::Timestamp(1_000_001))
            .set("s", "text")
            .set("x", Value::Bytes(vec![0, 255]))
            .set("m", "one")
            .set("m", "two");
        let sparse = Document::new().set("i", 0i64);
        let mut builder = BatchBuilder::new(schema.fields());
        for _ in 0..2 {
            builder.push(&full).unwrap();
            builder.push(&sparse).unwrap();
            assert!(builder.push(&Document::new()).is_err(), "`i` must have a value");
            assert!(builder.push(&Document::new().set("i", "text")).is_err());
            assert!(builder.push(&Document::new().set("i", 1i64).set("i", 2i64)).is_err());
            assert_eq!(builder.len(), 2);
            let batch = builder.finish().unwrap();
            assert_eq!(from_arrow_schema(&batch.schema()).unwrap().fields(), schema.fields());
            let reader = DocumentReader::new(&batch, &schema).unwrap();
            assert_eq!(reader.document(0), Ok(full.clone()));
            assert_eq!(reader.document(1), Ok(sparse.clone()));
        }
        assert!(builder.is_empty() && builder.finish().unwrap().num_rows() == 0);
    }

    #[test]
    fn hits_become_rows_in_their_order() {
        let name = format!("firndb-arrow-hits-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let schema = schema();
        let mut builder = firndb::search::PartitionBuilder::new(schema.clone());
        for i in 0..5i64 {
            let document = Document::new().set("i", i).set("m", "x").set("m", i.to_string());
            builder.add(&document).unwrap();
        }
        let collection = firndb::search::Collection::create(&dir).unwrap();
        let mut change = collection.change().unwrap();
        change.put("p", builder).unwrap();
        let reader = change.commit().unwrap();
        let query = "i >= 2 order by i desc limit 10";
        let query = firndb::search::parse_query(query, Some(reader.schema())).unwrap();
        let hits = reader.search(&query).unwrap().hits;
        let batch = hits_to_batch(&reader, &hits, &["m", "i", "s"]).unwrap();
        let names: Vec<_> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
        assert_eq!(names, ["m", "i", "s"]);
        let ids = batch.column(1).as_primitive::<arrow_array::types::Int64Type>();
        assert_eq!(ids.values()[..], [4, 3, 2]);
        let lists = batch.column(0).as_list::<i32>();
        let mut texts: Vec<_> =
            lists.value(2).as_string::<i32>().iter().flatten().map(String::from).collect();
        texts.sort();
        assert_eq!((texts, batch.column(2).null_count()), (vec!["2".into(), "x".into()], 3));
        assert!(hits_to_batch(&reader, &hits, &["none"]).is_err());
        assert_eq!(hits_to_batch(&reader, &[], &["i"]).unwrap().num_rows(), 0);
        drop(reader);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
