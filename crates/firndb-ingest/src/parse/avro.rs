//! Avro object container files ([specification 1.12][spec]).
//!
//! ```text
//! file    magic "Obj" 1, metadata, sync marker, block...
//! metadata  a map of bytes: "avro.schema" (JSON), "avro.codec"
//! block   rows (long), bytes (long), that many bytes of rows, compressed, sync marker
//! ```
//!
//! [spec]: https://avro.apache.org/docs/1.12.0/specification/#object-container-files

use crate::parse::failure::Failure;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use firndb_arrow::avro::{MAX_EMPTY_ITEMS, Type};
use firndb_arrow::column::RowDecoder;
use flate2::read::DeflateDecoder;
use std::io::{BufRead, Read};

type Result<T> = std::result::Result<T, Failure>;

/// The first bytes of a file.
pub(crate) const MAGIC: &[u8] = b"Obj\x01";

/// Maximum bytes of the metadata.
const MAX_METADATA: u64 = 16 << 20;

/// Maximum bytes of a block, compressed or not. Writers make blocks of 16 KiB to a few MiB.
const MAX_BLOCK: u64 = 256 << 20;

/// Maximum bytes that are read, and not kept, to tell a wrong length from one that exceeds a limit.
const MAX_AHEAD: u64 = 1 << 30;

/// Bytes of rows in memory after which a batch ends.
const BATCH_BYTES: usize = 32 << 20;

/// Maximum expansion of a byte of snappy: an element of 3 bytes stands for 64.
const MAX_SNAPPY_RATIO: usize = 22;

fn damaged(what: impl Into<String>) -> Failure {
    Failure::damaged(what)
}

/// The record batches of a file.
pub(crate) struct AvroBatches {
    reader: Box<dyn BufRead + Send>,
    codec: Codec,
    sync: [u8; 16],
    rows: RowDecoder,
    batch_rows: usize,
    /// The current block, the position of its next row, and the rows that are left in it.
    block: Vec<u8>,
    at: usize,
    left: u64,
    ended: bool,
}

#[derive(Clone, Copy)]
enum Codec {
    None,
    Deflate,
    Snappy,
    Zstd,
}

impl AvroBatches {
    /// Reads the metadata. Batches have at most `batch_rows` rows.
    pub(crate) fn open(
        mut reader: Box<dyn BufRead + Send>,
        batch_rows: usize,
    ) -> Result<(AvroBatches, SchemaRef)> {
        let mut magic = Vec::new();
        reader.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
        if !MAGIC.starts_with(&magic) {
            return Err(Failure::unsupported("it is not an Avro file of version 1"));
        }
        let mut metadata = reader.by_ref().take(MAX_METADATA);
        let read = read_metadata(&mut metadata);
        let (schema, codec) = match read {
            Err(_) if metadata.limit() == 0 => {
                return Err(too_long("its metadata", MAX_METADATA));
            }
            read => read?,
        };
        let codec = match &codec[..] {
            b"" | b"null" => Codec::None,
            b"deflate" => Codec::Deflate,
            b"snappy" => Codec::Snappy,
            b"zstandard" => Codec::Zstd,
            other => {
                let name = String::from_utf8_lossy(other);
                let name: String = name.chars().take(60).collect();
                return Err(Failure::unsupported(format!("the codec `{name}` is not supported")));
            }
        };
        let schema = std::str::from_utf8(&schema).map_err(|_| damaged("its schema is no text"))?;
        let rows = Type::parse(schema).and_then(|ty| RowDecoder::new(&ty));
        let rows = rows.map_err(|why| wrong_schema(schema, &why))?;
        let mut sync = [0; 16];
        reader.read_exact(&mut sync)?;
        let schema = rows.schema().clone();
        let batch_rows = batch_rows.max(1);
        let (block, at, left, ended) = (Vec::new(), 0, 0, false);
        let batches = AvroBatches { reader, codec, sync, rows, batch_rows, block, at, left, ended };
        Ok((batches, schema))
    }

    /// The next rows; `None` after the last.
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        while self.rows.len() < self.batch_rows && self.rows.size() < BATCH_BYTES {
            if self.left == 0 && !self.next_block()? {
                break;
            }
            let rest = &self.block[self.at..];
            let after = self.rows.decode(rest).map_err(|why| Failure::of_text(&why))?.len();
            self.at = self.block.len() - after;
            self.left -= 1;
            if self.left == 0 && after > 0 {
                return Err(damaged(format!("{after} bytes follow the last row of a block")));
            }
        }
        if self.rows.is_empty() {
            return Ok(None);
        }
        self.rows.finish().map(Some).map_err(|why| Failure::of_text(&why))
    }

    /// Reads the next block with rows; false at the end.
    fn next_block(&mut self) -> Result<bool> {
        loop {
            if self.reader.fill_buf()?.is_empty() {
                return Ok(false);
            }
            let negative = |_| damaged("a block has a negative length");
            let rows = u64::try_from(long(&mut self.reader)?).map_err(negative)?;
            let len = u64::try_from(long(&mut self.reader)?).map_err(negative)?;
            let bytes = read_bytes(&mut self.reader, len, MAX_BLOCK)?;
            let mut sync = [0; 16];
            self.reader.read_exact(&mut sync)?;
            if sync != self.sync {
                return Err(damaged("the marker after a block is not that of the file"));
            }
            (self.block, self.at) = (self.codec.decompress(bytes)?, 0);
            // Rows without bytes cost nothing to claim.
            if rows > self.block.len() as u64 + MAX_EMPTY_ITEMS as u64 {
                return Err(match self.block.is_empty() {
                    true => Failure::unsupported(format!(
                        "a block has {rows} rows without bytes, and {MAX_EMPTY_ITEMS} are supported"
                    )),
                    false => damaged("a block has too few bytes for its rows"),
                });
            }
            self.left = rows;
            match rows {
                0 if !self.block.is_empty() => return Err(damaged("a block has no rows")),
                0 => {}
                _ => return Ok(true),
            }
        }
    }
}

impl Iterator for AvroBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.ended {
            return None;
        }
        let batch = self.read().transpose();
        self.ended = !matches!(batch, Some(Ok(_)));
        batch
    }
}

impl Codec {
    fn decompress(self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        match self {
            Codec::None => Ok(bytes),
            Codec::Deflate => read_all(DeflateDecoder::new(&bytes[..])),
            Codec::Zstd => read_all(zstd::Decoder::with_buffer(&bytes[..])?),
            Codec::Snappy => {
                let split = bytes.split_last_chunk::<4>();
                let (bytes, checksum) = split.ok_or_else(|| damaged("a block is cut off"))?;
                let len = snap::raw::decompress_len(bytes).map_err(|e| damaged(e.to_string()))?;
                if len > bytes.len() * MAX_SNAPPY_RATIO {
                    return Err(damaged("a block expands to more than it can"));
                }
                if len as u64 > MAX_BLOCK {
                    return Err(too_long("a block", MAX_BLOCK));
                }
                let made = snap::raw::Decoder::new().decompress_vec(bytes);
                let made = made.map_err(|e| damaged(e.to_string()))?;
                match crc32fast::hash(&made) == u32::from_be_bytes(*checksum) {
                    true => Ok(made),
                    false => Err(damaged("the checksum of a block is wrong")),
                }
            }
        }
    }
}

/// The bytes of a compressed block.
fn read_all(reader: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = reader.take(MAX_BLOCK + 1).read_to_end(&mut bytes);
    read.map_err(|e| damaged(format!("a block cannot be decompressed: {e}")))?;
    if bytes.len() as u64 > MAX_BLOCK {
        return Err(too_long("a block", MAX_BLOCK));
    }
    Ok(bytes)
}

/// A schema that cannot be used is not damage, as it may be one that other systems accept, unless
/// it is not even JSON.
fn wrong_schema(schema: &str, why: &str) -> Failure {
    match serde_json::from_str::<serde::de::IgnoredAny>(schema) {
        Err(e) if !e.to_string().contains("recursion limit") => {
            damaged(format!("its schema is not JSON: {e}"))
        }
        _ => Failure::unsupported(format!("its schema cannot be used: {why}")),
    }
}

fn too_long(what: &str, max: u64) -> Failure {
    let max = max >> 20;
    Failure::unsupported(format!("{what} has more than {max} MiB, which is not supported"))
}

/// The schema and the codec.
fn read_metadata(reader: &mut impl Read) -> Result<(Vec<u8>, Vec<u8>)> {
    let (mut schema, mut codec) = (None, Vec::new());
    loop {
        let entries = long(reader)?;
        if entries == 0 {
            let schema = schema.ok_or_else(|| damaged("it has no schema"))?;
            return Ok((schema, codec));
        }
        if entries < 0 {
            long(reader)?;
        }
        for _ in 0..entries.unsigned_abs() {
            let key = entry(reader)?;
            let value = entry(reader)?;
            match &key[..] {
                b"avro.schema" => schema = Some(value),
                b"avro.codec" => codec = value,
                _ => {}
            }
        }
    }
}

/// A key or a value of the metadata.
fn entry(reader: &mut impl Read) -> Result<Vec<u8>> {
    let len = u64::try_from(long(reader)?).map_err(|_| damaged("a length is negative"))?;
    read_bytes(reader, len, MAX_METADATA)
}

/// `len` bytes. Memory grows with the bytes that there are.
fn read_bytes(reader: &mut impl Read, len: u64, max: u64) -> Result<Vec<u8>> {
    if len > max {
        // Without these bytes the length is wrong. A decompressor can return bytes without end.
        let most = len.min(MAX_AHEAD);
        let there = std::io::copy(&mut reader.take(most), &mut std::io::sink())?;
        let message = format!("a length of {len} bytes exceeds {} MiB", max >> 20);
        return Err(match there == most {
            true => Failure::unsupported(message),
            false => damaged(message),
        });
    }
    let mut bytes = Vec::new();
    reader.take(len).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == len {
        true => Ok(bytes),
        false => Err(damaged("it is cut off")),
    }
}

fn long(reader: &mut impl Read) -> Result<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        reader.read_exact(&mut byte)?;
        if shift == 63 && byte[0] > 1 {
            break;
        }
        value |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(damaged("a number is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::write::BatchWriter;
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use std::io::Write;
    use std::sync::Arc;

    fn read(bytes: &[u8]) -> Result<Vec<RecordBatch>> {
        let reader = Box::new(std::io::Cursor::new(bytes.to_vec()));
        AvroBatches::open(reader, 1000).and_then(|(batches, _)| batches.collect())
    }

    fn why(bytes: &[u8]) -> String {
        read(bytes).unwrap_err().reason()
    }

    fn put_long(value: i64, out: &mut Vec<u8>) {
        firndb_arrow::avro::encode::long(value, out);
    }

    fn put_bytes(value: &[u8], out: &mut Vec<u8>) {
        firndb_arrow::avro::encode::bytes(value, out);
    }

    /// A file of one block.
    fn file(schema: &str, codec: &str, rows: i64, block: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_long(2, &mut out);
        put_bytes(b"avro.schema", &mut out);
        put_bytes(schema.as_bytes(), &mut out);
        put_bytes(b"avro.codec", &mut out);
        put_bytes(codec.as_bytes(), &mut out);
        out.push(0);
        out.extend([7; 16]);
        put_long(rows, &mut out);
        put_bytes(block, &mut out);
        out.extend([7; 16]);
        out
    }

    const LONGS: &str = r#"{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}"#;

    #[test]
    fn blocks_of_every_codec_are_read() {
        let rows: Vec<u8> = (0..100).flat_map(|i| [2 * (i % 60)]).collect();
        let snappy = snap::raw::Encoder::new().compress_vec(&rows).unwrap();
        let snappy = [&snappy[..], &crc32fast::hash(&rows).to_be_bytes()].concat();
        let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), Default::default());
        deflate.write_all(&rows).unwrap();
        let blocks = [
            ("null", rows.clone()),
            ("", rows.clone()),
            ("deflate", deflate.finish().unwrap()),
            ("zstandard", zstd::encode_all(&rows[..], 3).unwrap()),
            ("snappy", snappy.clone()),
        ];
        let expected = Int64Array::from_iter_values((0..100).map(|i| i % 60));
        for (codec, block) in blocks {
            let batches = read(&file(LONGS, codec, 100, &block)).unwrap();
            assert_eq!(batches.len(), 1, "{codec}");
            assert_eq!(batches[0].column(0).as_ref(), &expected as &dyn arrow_array::Array);
        }
        let mut wrong = snappy;
        *wrong.last_mut().unwrap() ^= 1;
        assert!(why(&file(LONGS, "snappy", 100, &wrong)).contains("checksum"));
        assert!(why(&file(LONGS, "snappy", 100, &[1, 2])).contains("cut off"));
        assert!(why(&file(LONGS, "bzip2", 100, &rows)).contains("`bzip2` is not supported"));
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = file(LONGS, "null", 2, &[2, 4]);
        assert_eq!(read(&good).unwrap()[0].num_rows(), 2);
        for len in 0..good.len() {
            let result = read(&good[..len]);
            // A file can end after its header.
            let header = good.len() - 16 - 2 - 2;
            assert_eq!(result.is_ok(), len == header, "{len}: {result:?}");
        }
        let mut marker = good.clone();
        *marker.last_mut().unwrap() ^= 1;
        assert!(why(&marker).contains("marker"));
        assert!(why(&file(LONGS, "null", 1, &[2, 4])).contains("1 bytes follow"));
        assert!(why(&file(LONGS, "null", 3, &[2, 4])).contains("cut off"));
        assert!(why(&file(LONGS, "null", 0, &[2, 4])).contains("no rows"));
        assert!(why(&file(LONGS, "null", -1, &[2, 4])).contains("negative"));
        assert!(why(&file("{", "null", 2, &[2, 4])).contains("EOF"));
        assert!(why(&file("\"long\"", "null", 2, &[2, 4])).contains("not a record"));
        assert!(why(b"PAR1").contains("not an Avro file"));
    }

    #[test]
    fn claims_do_not_cost_memory_or_time() {
        let nothing = r#"{"type":"record","name":"R","fields":[{"name":"a","type":"null"}]}"#;
        assert_eq!(read(&file(nothing, "null", 5000, &[])).unwrap().len(), 5);
        assert!(why(&file(nothing, "null", i64::MAX, &[])).contains("rows without bytes"));
        assert!(why(&file(LONGS, "null", i64::MAX, &[2])).contains("too few bytes"));
        let mut long = MAGIC.to_vec();
        put_long(1, &mut long);
        put_long(i64::MAX, &mut long);
        assert!(why(&long).contains("exceeds 16 MiB"));
        // A snappy block that states 2^32 - 1 bytes.
        let block = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0];
        assert!(why(&file(LONGS, "snappy", 1, &block)).contains("expands"));
        let zeros = zstd::encode_all(std::io::repeat(0).take(MAX_BLOCK + 1), 1).unwrap();
        assert!(why(&file(LONGS, "zstandard", 1, &zeros)).contains("more than 256 MiB"));
    }

    /// Any change of a bit gives an error or a batch, and never a panic.
    #[test]
    fn changed_bits_do_not_panic() {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..300));
        let names: ArrayRef =
            Arc::new(StringArray::from_iter((0..300).map(|i| (i % 3 > 0).then(|| i.to_string()))));
        let batch =
            RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("name", names, true)]);
        let batch = batch.unwrap();
        let mut writer = BatchWriter::new(Vec::new(), Format::Avro, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!(read(&bytes).unwrap(), [batch]);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let _ = read(&changed);
            }
        }
    }
}
