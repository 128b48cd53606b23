//! Damaged files of typed columns are `Corrupt`, in every format and compression, and valid files
//! that cannot be read are `InvalidArgument`.

use crate::{BatchOptions, BatchReader, BatchWriter, Format, Input};
use arrow_array::builder::{Int64Builder, ListBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_ipc::writer::FileWriter;
use firndb::{Error, ErrorKind};
use std::collections::BTreeSet;
use std::io::{Cursor, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// The rows that a file of this format has. Parquet, and Arrow IPC as a file, are read from disk.
fn rows(bytes: &[u8], format: Format) -> firndb::Result<usize> {
    let options = BatchOptions::default().format(format);
    if format == Format::Parquet || bytes.starts_with(b"ARROW1") {
        let thread = std::thread::current().id();
        let name = format!("firndb-damage-{}-{thread:?}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        let reader = BatchReader::open(&Input::File(path.clone()), options);
        let found = reader.and_then(|mut reader| total(&mut reader));
        std::fs::remove_file(path).unwrap();
        return found;
    }
    let mut reader = BatchReader::from_reader("a.file", Cursor::new(bytes.to_vec()), options)?;
    total(&mut reader)
}

fn total(reader: &mut BatchReader) -> firndb::Result<usize> {
    reader.try_fold(0, |rows, batch| Ok(rows + batch?.num_rows()))
}

fn error(bytes: &[u8], format: Format) -> Error {
    rows(bytes, format).unwrap_err()
}

fn batch() -> RecordBatch {
    let mut lists = ListBuilder::new(Int64Builder::new());
    (0..40).for_each(|row| lists.append_value((0..row % 3).map(Some)));
    let mut words = StringDictionaryBuilder::<Int32Type>::new();
    words.extend((0..40).map(|row| (row % 5 > 0).then_some(["one", "two"][row % 2])));
    let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..40).map(f64::from)));
    let columns: [(&str, ArrayRef); 5] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..40))),
        ("text", Arc::new(StringArray::from_iter_values((0..40).map(|n| format!("text {n}"))))),
        ("list", Arc::new(lists.finish())),
        ("word", Arc::new(words.finish())),
        ("point", Arc::new(StructArray::try_from(vec![("x", x)]).unwrap())),
    ];
    let columns = columns.map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn file(format: Format) -> Vec<u8> {
    let batch = batch();
    let mut writer = BatchWriter::new(Vec::new(), format, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap()
}

/// A file of each format. Arrow IPC has two forms.
fn files() -> [(Format, Vec<u8>); 4] {
    let mut writer = FileWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    writer.write(&batch()).unwrap();
    [
        (Format::Parquet, file(Format::Parquet)),
        (Format::Arrow, file(Format::Arrow)),
        (Format::Arrow, writer.into_inner().unwrap()),
        (Format::Avro, file(Format::Avro)),
    ]
}

#[test]
fn files_that_are_cut_off_are_corrupt() {
    for (format, bytes) in files() {
        assert_eq!(rows(&bytes, format).unwrap(), 40, "{format:?}");
        let has_end = format == Format::Parquet || bytes.starts_with(b"ARROW1");
        let mut ends = Vec::new();
        for len in 0..bytes.len() {
            match rows(&bytes[..len], format) {
                Ok(rows) => ends.push(rows),
                Err(e) => assert_eq!(e.kind(), ErrorKind::Corrupt, "{format:?}: {len}: {e}"),
            }
        }
        // The others may end after their header and after each message or block.
        assert!(ends.is_empty() == has_end && ends.len() <= 3, "{format:?}: {ends:?}");
    }
}

/// What the errors of changed files say that are not `Corrupt`: a changed byte can make a type, an
/// encoding or a codec that is not supported, or name a column otherwise.
fn is_unsupported(error: &str) -> bool {
    let parts = ["support", "encrypted", "does not begin as", "it is not", "its schema", "type"];
    let parts = parts.iter().chain(&["it has no columns", "its format is older", "Unexpected"]);
    let mut parts = parts.chain(&["other byte order"]);
    parts.any(|part| error.contains(part))
}

#[test]
fn changed_bytes_are_corrupt_or_something_unsupported() {
    for (format, bytes) in files() {
        let mut others = BTreeSet::new();
        let (mut corrupt, mut invalid) = (0, 0);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= [1, 0x80, 0xff][at % 3];
            let Err(e) = rows(&changed, format) else { continue };
            match e.kind() {
                ErrorKind::Corrupt => corrupt += 1,
                ErrorKind::InvalidArgument => {
                    invalid += 1;
                    others.extend((!is_unsupported(&e.to_string())).then(|| e.to_string()));
                }
                kind => panic!("{format:?}: {at}: {kind:?}: {e}"),
            }
        }
        assert!(corrupt > 4 * invalid, "{format:?}: {corrupt} corrupt, {invalid} invalid");
        assert!(others.is_empty(), "{format:?}: {others:#?}");
    }
}

#[test]
fn damage_of_the_compression_around_a_file_is_corrupt() {
    for format in [Format::Arrow, Format::Avro] {
        let bytes = file(format);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&bytes).unwrap();
        let mut zstd = zstd::Encoder::new(Vec::new(), 3).unwrap();
        zstd.include_checksum(true).unwrap();
        zstd.write_all(&bytes).unwrap();
        for packed in [gzip.finish().unwrap(), zstd.finish().unwrap()] {
            assert_eq!(rows(&packed, format).unwrap(), 40);
            let mut wrong = packed.clone();
            wrong[packed.len() / 2] ^= 0xff;
            let cuts = [packed.len() / 2, packed.len() - 3].map(|len| packed[..len].to_vec());
            for damaged in cuts.into_iter().chain([wrong]) {
                let e = error(&damaged, format);
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{format:?}: {e}");
                assert_eq!(e.file(), Some(&*PathBuf::from("a.file")), "{e}");
            }
        }
    }
}

/// Not damaged: other formats, and what the readers do not support.
#[test]
fn files_of_other_formats_are_invalid_arguments() {
    for text in [&b"id,name\n7,seven\n8,eight\n"[..], b"{\"id\":7}\n{\"id\":8}\n", &[0; 64]] {
        for format in [Format::Parquet, Format::Arrow, Format::Avro] {
            let e = error(text, format);
            assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{format:?}: {e}");
        }
    }
    for (bytes, format) in
        [(file(Format::Avro), Format::Parquet), (file(Format::Parquet), Format::Avro)]
    {
        assert_eq!(error(&bytes, format).kind(), ErrorKind::InvalidArgument);
    }
    let mut encrypted = file(Format::Parquet);
    encrypted.truncate(encrypted.len() - 1);
    encrypted.push(b'E');
    let e = error(&encrypted, Format::Parquet);
    assert_eq!((e.kind(), e.message().contains("encrypted")), (ErrorKind::InvalidArgument, true));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&file(Format::Parquet)).unwrap();
    let e = error(&packed.finish().unwrap(), Format::Parquet);
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert!(e.message().contains("decompress it"), "{e}");
}

/// A length beyond the end of a file is damage, but one that exceeds a limit is not.
#[test]
fn impossible_lengths_are_corrupt() {
    let of = |bytes: &[u8]| error(bytes, Format::Avro).kind();
    let schema = br#"{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}"#;
    let mut head = b"Obj\x01\x02\x16avro.schema".to_vec();
    firndb_arrow::avro::encode::bytes(schema, &mut head);
    head.push(0);
    head.extend([7; 16]);
    firndb_arrow::avro::encode::long(1, &mut head);
    let with = |len: i64, rest: usize| {
        let mut bytes = head.clone();
        firndb_arrow::avro::encode::long(len, &mut bytes);
        bytes.resize(bytes.len() + rest, 0);
        bytes
    };
    assert_eq!(of(&with(i64::MAX, 100)), ErrorKind::Corrupt);
    assert_eq!(of(&with(100, 99)), ErrorKind::Corrupt);
    let many = 257 << 20;
    assert_eq!(of(&with(many, 100)), ErrorKind::Corrupt);
    // The value of an entry of the metadata ends within the file, and is too long.
    let mut long = b"Obj\x01\x02\x02a".to_vec();
    firndb_arrow::avro::encode::long(17 << 20, &mut long);
    long.resize(18 << 20, 0);
    assert_eq!(of(&long), ErrorKind::InvalidArgument);
}
