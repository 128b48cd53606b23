//! Parquet files, with the checks that the crate `parquet` leaves out.
//!
//! The schema is changed before it is used, so that the places of its columns are those of the
//! Arrow schema, and every text is checked to be UTF-8:
//!
//! - groups without fields are removed, because the Arrow schema does not have them;
//! - columns that become texts are declared as such;
//! - a column whose type cannot be converted is read as its physical type, and refused if it is
//!   used, so that the others can be read.

use crate::parse::columnar::Refused;
use crate::parse::failure::{Failure, guarded};
use crate::parse::ipc_schema::is_usable;
use crate::parse::parquet_pages::check_column;
use crate::parse::parquet_schema::{as_texts, group, plain, without_empty_groups};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ProjectionMask, parquet_to_arrow_schema_by_columns};
use parquet::basic::{ConvertedType, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::{SchemaDescriptor, TypePtr};
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

/// The first bytes of a file, and its last.
const MAGIC: &[u8] = b"PAR1";

/// The first bytes of a file whose directory is encrypted.
const ENCRYPTED: &[u8] = b"PARE";

/// An open file.
pub(crate) struct ParquetFile {
    file: File,
    metadata: ArrowReaderMetadata,
    /// Columns that cannot be read, and the reasons.
    pub(crate) refused: Vec<Refused>,
    rows: u64,
    batch_rows: usize,
}

impl ParquetFile {
    /// Reads the metadata. Batches have at most `batch_rows` rows.
    pub(crate) fn open(mut file: File, batch_rows: usize) -> Result<ParquetFile> {
        let metadata = guarded(|| ParquetMetaDataReader::new().parse_and_finish(&file));
        let metadata = metadata.map_err(|why| other_format(&mut file).unwrap_or(why))?;
        let rows = count_rows(&metadata)?;
        let mut refused = Vec::new();
        let (root, known) = readable_schema(&metadata, &mut refused)?;
        let old = metadata.file_metadata();
        let made = FileMetaData::new(
            old.version(),
            rows as i64,
            old.created_by().map(str::to_string),
            known,
            Arc::new(SchemaDescriptor::new(root)),
            old.column_orders().cloned(),
        );
        let made = ParquetMetaData::new(made, metadata.row_groups().to_vec());
        let metadata =
            guarded(|| with_readable_types(Arc::new(made))).map_err(Failure::of_schema)?;
        Ok(ParquetFile { file, metadata, refused, rows, batch_rows: batch_rows.max(1) })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Bytes of the file for each batch.
    pub(crate) fn bytes_per_batch(&self) -> u64 {
        let groups = self.metadata.metadata().row_groups().iter();
        let bytes: i64 = groups.map(|group| group.compressed_size().max(0)).sum();
        (bytes.max(0) as u64).saturating_mul(self.batch_rows as u64) / self.rows.max(1)
    }

    /// The batches with some columns.
    pub(crate) fn batches(self, columns: Vec<usize>) -> Result<ParquetBatches> {
        self.check_pages(&columns)?;
        let reader = self.reader(&columns).map_err(|whole| {
            // The reader does not say which column it is.
            let failed = |column: &usize| {
                let why = self.reader(&[*column]).err()?;
                Some(why.in_column(self.schema().field(*column)))
            };
            columns.iter().find_map(failed).unwrap_or(whole)
        })?;
        Ok(ParquetBatches { file: self, columns, reader, read: 0, ended: false })
    }

    /// Checks what the reader of columns does not check.
    fn check_pages(&self, columns: &[usize]) -> Result<()> {
        let schema = self.metadata.parquet_schema();
        for leaf in 0..schema.num_columns() {
            let column = schema.get_column_root_idx(leaf);
            if !columns.contains(&column) {
                continue;
            }
            for group in self.metadata.metadata().row_groups() {
                let descriptor = schema.column(leaf);
                check_column(&self.file, group, leaf, &descriptor)
                    .map_err(|why| why.in_column(self.schema().field(column)))?;
            }
        }
        Ok(())
    }

    fn reader(&self, columns: &[usize]) -> Result<ParquetRecordBatchReader> {
        let file = self.file.try_clone()?;
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied());
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_projection(mask)
                .with_batch_size(self.batch_rows);
        guarded(|| builder.build())
    }
}

/// The batches of a file.
pub(crate) struct ParquetBatches {
    file: ParquetFile,
    columns: Vec<usize>,
    reader: ParquetRecordBatchReader,
    /// Rows that were read.
    read: u64,
    ended: bool,
}

impl Iterator for ParquetBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.ended {
            return None;
        }
        let batch = next_of(&mut self.reader).map_err(|whole| self.name_column(whole)).transpose();
        let batch = match batch {
            Some(Ok(batch)) => {
                self.read += batch.num_rows() as u64;
                return Some(Ok(batch));
            }
            Some(Err(why)) => Some(Err(why)),
            None if self.read == self.file.rows => None,
            None => Some(Err(Failure::damaged(format!(
                "it is damaged: its row groups say {} rows, and its pages have {}",
                self.file.rows, self.read
            )))),
        };
        self.ended = true;
        batch
    }
}

impl ParquetBatches {
    /// The reason with the column that it is about, which the reader does not say: the first that
    /// cannot be read on its own.
    fn name_column(&self, whole: Failure) -> Failure {
        let failed = |column: &usize| {
            let mut reader = self.file.reader(&[*column]).ok()?;
            loop {
                match next_of(&mut reader) {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(why) => return Some(why.in_column(self.file.schema().field(*column))),
                }
            }
        };
        self.columns.iter().find_map(failed).unwrap_or(whole)
    }
}

fn next_of(reader: &mut ParquetRecordBatchReader) -> Result<Option<RecordBatch>> {
    guarded(|| reader.next().transpose())
}

/// The failure of a file that does not begin as Parquet files do, or cannot be read.
fn other_format(file: &mut File) -> Option<Failure> {
    let mut head = Vec::new();
    let read =
        file.rewind().and_then(|()| file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut head));
    match read {
        Err(e) => Some(Failure::Io(e)),
        Ok(_) if MAGIC.starts_with(&head) => None,
        Ok(_) if head == ENCRYPTED => Some(Failure::unsupported("it is encrypted")),
        Ok(_) => Some(Failure::unsupported(
            "it does not begin as a Parquet file; if it is compressed as a whole, decompress it",
        )),
    }
}

/// The number of rows of the row groups. Old writers left out that of the file.
fn count_rows(metadata: &ParquetMetaData) -> Result<u64> {
    let mut rows = 0_u64;
    for group in metadata.row_groups() {
        let more = u64::try_from(group.num_rows()).ok();
        let total = more.and_then(|more| rows.checked_add(more)).filter(|n| *n <= i64::MAX as u64);
        let wrong =
            || Failure::damaged("it is damaged: a row group has an impossible number of rows");
        rows = total.ok_or_else(wrong)?;
        if group.num_rows() == 0 && group.columns().iter().any(|column| column.num_values() > 0) {
            return Err(Failure::damaged("it is damaged: a row group with values says 0 rows"));
        }
        let elsewhere = group.columns().iter().filter_map(|column| column.file_path());
        if let Some(path) = elsewhere.into_iter().find(|path| !path.is_empty()) {
            let message = format!("its columns are in other files, such as {path}; name these");
            return Err(Failure::unsupported(message));
        }
    }
    match metadata.file_metadata().num_rows() {
        0 => Ok(rows),
        all if all == rows as i64 => Ok(rows),
        all => Err(Failure::damaged(format!(
            "it is damaged: its footer says {all} rows, and its row groups {rows}"
        ))),
    }
}

/// The schema with the changes that the module describes, and the metadata of the file, with the
/// Arrow schema only if it is of use.
fn readable_schema(
    metadata: &ParquetMetaData,
    refused: &mut Vec<Refused>,
) -> Result<(TypePtr, Option<Vec<KeyValue>>)> {
    let file = metadata.file_metadata();
    let mut known = file.key_value_metadata().cloned();
    let root = without_empty_groups(&file.schema_descr().root_schema_ptr(), refused)?;
    let convert = |root: &TypePtr, known: Option<&Vec<KeyValue>>| {
        let schema = SchemaDescriptor::new(root.clone());
        let all = ProjectionMask::all();
        guarded(|| parquet_to_arrow_schema_by_columns(&schema, all, known))
            .map_err(Failure::of_schema)
    };
    let mut fields = root.get_fields().to_vec();
    if convert(&root, None).is_err() {
        for field in &mut fields {
            if let Err(why) = convert(&group(&root, vec![field.clone()])?, None) {
                let why = why.reason();
                let why = format!("its type is not supported: {why}; name the other columns");
                let column = field.name().to_string();
                refused.push(Refused { column, reason: why, is_empty_group: false });
                *field = plain(field)?;
            }
        }
    }
    let root = group(&root, fields)?;
    // Other systems write schemas of types that Arrow's reader does not support, and some change
    // the columns of a file without changing its Arrow schema.
    if let Some(entries) = &mut known {
        let has_use = |entry: &KeyValue| entry.value.as_deref().is_some_and(is_usable);
        entries.retain(|entry| entry.key != ARROW_SCHEMA_META_KEY || has_use(entry));
        if convert(&root, Some(&*entries)).is_err() {
            entries.retain(|entry| entry.key != ARROW_SCHEMA_META_KEY);
        }
    }
    let schema = convert(&root, known.as_ref())?;
    let descriptor = SchemaDescriptor::new(root.clone());
    let mut types = Vec::new();
    schema.fields().iter().for_each(|field| leaf_types(field.data_type(), &mut types));
    let is_unchecked = |leaf: usize, ty: &DataType| {
        let is_text = matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        is_text && descriptor.column(leaf).converted_type() != ConvertedType::UTF8
    };
    let texts: HashSet<usize> = types
        .iter()
        .enumerate()
        .filter(|(leaf, ty)| is_unchecked(*leaf, ty))
        .map(|(leaf, _)| leaf)
        .collect();
    Ok((if texts.is_empty() { root } else { as_texts(&root, &texts)? }, known))
}

/// Appends the types of the leaf columns, in order.
fn leaf_types(ty: &DataType, out: &mut Vec<DataType>) {
    match ty {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            leaf_types(item.data_type(), out);
        }
        DataType::ListView(item) | DataType::LargeListView(item) | DataType::Map(item, _) => {
            leaf_types(item.data_type(), out);
        }
        DataType::Struct(fields) => {
            fields.iter().for_each(|field| leaf_types(field.data_type(), out));
        }
        DataType::Dictionary(_, values) => out.push(values.as_ref().clone()),
        ty => out.push(ty.clone()),
    }
}

/// Chooses the types of columns that the reader would not read, or not read right: see
/// [`readable`].
fn with_readable_types(
    metadata: Arc<ParquetMetaData>,
) -> std::result::Result<ArrowReaderMetadata, ParquetError> {
    let made = ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new())?;
    let columns = made.parquet_schema().columns().iter();
    let mut old = columns.map(|column| column.physical_type() == Physical::INT96);
    let fields = made.schema().fields().iter().map(|field| readable(field, &mut old));
    let fields: Fields = fields.collect();
    if fields == *made.schema().fields() {
        return Ok(made);
    }
    let schema = Schema::new_with_metadata(fields, made.schema().metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ArrowReaderMetadata::try_new(made.metadata().clone(), options)
}

/// The column with INT96 in microseconds: the default, nanoseconds, silently overflows outside the
/// years 1677 to 2262. Dictionaries, which only the Arrow schema of a file declares, stay for texts
/// and bytes; of some other types the reader does not read them. `old` returns for each leaf
/// column, in order, whether it is INT96.
fn readable(column: &FieldRef, old: &mut impl Iterator<Item = bool>) -> FieldRef {
    let ty = match column.data_type() {
        DataType::List(item) => DataType::List(readable(item, old)),
        DataType::LargeList(item) => DataType::LargeList(readable(item, old)),
        DataType::ListView(item) => DataType::ListView(readable(item, old)),
        DataType::LargeListView(item) => DataType::LargeListView(readable(item, old)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(readable(item, old), *size),
        DataType::Map(entries, sorted) => DataType::Map(readable(entries, old), *sorted),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| readable(field, old)).collect())
        }
        ty => match (old.next(), ty) {
            (Some(true), DataType::Timestamp(_, zone)) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            (_, DataType::Dictionary(_, values)) if !is_bytes(values) => values.as_ref().clone(),
            _ => ty.clone(),
        },
    };
    Arc::new(Field::clone(column).with_data_type(ty))
}

/// Whether values are texts or bytes of any length.
fn is_bytes(ty: &DataType) -> bool {
    let is_text = matches!(ty, DataType::Utf8 | DataType::LargeUtf8);
    is_text || matches!(ty, DataType::Binary | DataType::LargeBinary)
}
