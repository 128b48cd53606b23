//! Arrow IPC of other systems, damaged, and cut off.

use crate::Format;
use crate::parse::columnar::Columns;
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, RunArray, StringArray};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::{Endianness, FieldBuilder, IntBuilder, MessageBuilder, MessageHeader};
use arrow_ipc::{MetadataVersion, SchemaBuilder, Type};
use flatbuffers::{FlatBufferBuilder, WIPOffset};
use std::sync::Arc;

/// The batches that a reader yields, or the error.
fn read(bytes: &[u8]) -> Result<Vec<RecordBatch>, String> {
    let reader = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let columns = Columns::open(Format::Arrow, None, reader, "a.arrows", 1000);
    let batches = columns.and_then(Columns::all).and_then(|batches| batches.collect());
    batches.map_err(|e: firndb::Error| e.to_string())
}

fn why(bytes: &[u8]) -> String {
    read(bytes).unwrap_err()
}

fn batch() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["one", "two", "three"]));
    RecordBatch::try_from_iter([("id", ids), ("text", texts)]).unwrap()
}

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

/// The message of a schema with one column of integers.
fn schema(order: Endianness, bits: i32) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let name = builder.create_string("k");
    let children = builder.create_vector::<WIPOffset<arrow_ipc::Field>>(&[]);
    let mut int = IntBuilder::new(&mut builder);
    int.add_bitWidth(bits);
    int.add_is_signed(true);
    let int = int.finish();
    let mut field = FieldBuilder::new(&mut builder);
    field.add_name(name);
    field.add_type_type(Type::Int);
    field.add_type_(int.as_union_value());
    field.add_children(children);
    let field = field.finish();
    let fields = builder.create_vector(&[field]);
    let mut schema = SchemaBuilder::new(&mut builder);
    schema.add_endianness(order);
    schema.add_fields(fields);
    let schema = schema.finish();
    let mut message = MessageBuilder::new(&mut builder);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::Schema);
    message.add_header(schema.as_union_value());
    let message = message.finish();
    builder.finish(message, None);
    let mut bytes = builder.finished_data().to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let len = u32::try_from(bytes.len()).unwrap();
    [&[0xff; 4][..], &len.to_le_bytes(), &bytes, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]].concat()
}

#[test]
fn schemas_that_cannot_be_converted_are_refused() {
    assert_eq!(read(&schema(Endianness::Little, 32)).unwrap(), []);
    let error = why(&schema(Endianness::Big, 32));
    assert!(error.contains("a.arrows: ") && error.contains("the other byte order"), "{error}");
    let error = why(&schema(Endianness::Little, 24));
    assert!(error.ends_with("column `k`: the type Int is not supported"), "{error}");
}

#[test]
fn a_stream_ends_between_messages_and_a_file_with_its_directory() {
    let batches = [batch(), batch()];
    let (stream, file) = (stream(&batches), file(&batches));
    assert_eq!(read(&stream).unwrap(), batches);
    assert_eq!(read(&file).unwrap(), batches);
    // A stream may end without the marker of its end.
    let ends: Vec<usize> = (0..stream.len()).filter(|len| read(&stream[..*len]).is_ok()).collect();
    assert_eq!(ends.len(), 3, "{ends:?}");
    assert_eq!(*ends.last().unwrap(), stream.len() - 8);
    assert!((0..file.len()).all(|len| read(&file[..len]).is_err()));
    // The directory of a file with one batch behind two batches.
    let one = self::file(&batches[..1]);
    let (start, end) = (one.len() - 10, file.len() - 10);
    let len = |bytes: &[u8], at: usize| i32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let directory = &one[start - len(&one, start) as usize..];
    let joined = [&file[..end - len(&file, end) as usize], directory].concat();
    assert!(why(&joined).contains("its directory has 1 batches, and 2 were read"));
}

#[test]
fn bytes_after_a_stream_are_not_ignored() {
    let stream = stream(&[batch()]);
    let joined = [&stream[..], &stream].concat();
    assert!(why(&joined).contains("bytes follow the end of the stream"));
    let padded = [&stream[..], &[0; 100]].concat();
    assert_eq!(read(&padded).unwrap(), [batch()]);
    assert!(why(b"FEA1\0\0\0\0").contains("version 1 of Feather"));
}

#[test]
fn damaged_columns_are_named() {
    let mut bytes = stream(&[batch()]);
    let at = bytes.windows(11).position(|part| part == b"onetwothree").unwrap();
    bytes[at + 3] = 0xff;
    let error = why(&bytes);
    assert!(error.contains("column `text` of the type Utf8: "), "{error}");
}

/// In the metadata version 4 columns of runs have a bitmap, for which the reader does not look. A
/// valid file is not damaged.
#[test]
fn runs_in_old_metadata_are_not_damage() {
    let runs = RunArray::try_new(&Int64Array::from(vec![2, 3]), &StringArray::from(vec!["a", "b"]));
    let batch = RecordBatch::try_from_iter([("r", Arc::new(runs.unwrap()) as ArrayRef)]).unwrap();
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V4).unwrap();
    let mut writer =
        StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    let reader = Box::new(std::io::Cursor::new(writer.into_inner().unwrap()));
    let columns = Columns::open(Format::Arrow, None, reader, "a.arrows", 1000).unwrap();
    let error = columns.all().unwrap().next().unwrap().unwrap_err();
    assert_eq!(error.kind(), firndb::ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn dictionaries_can_change_within_a_stream() {
    let batch = |texts: [&str; 2]| {
        let texts: DictionaryArray<Int8Type> = texts.into_iter().collect();
        RecordBatch::try_from_iter([("d", Arc::new(texts) as ArrayRef)]).unwrap()
    };
    let batches = [batch(["a", "b"]), batch(["c", "a"])];
    assert_eq!(read(&stream(&batches)).unwrap(), batches);
}
