//! Arrow IPC, as a stream or as a file, from damaged or hostile inputs. Lengths are checked against
//! the bytes that are there before memory is allocated for them, because a failed allocation aborts
//! the process.

use crate::format::FEATHER_1;
use crate::parse::failure::{Failure, guarded};
use crate::parse::ipc_schema::check_schema;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary, read_footer_length};
use arrow_ipc::{Block, Footer, Message, MessageHeader, MetadataVersion};
use arrow_ipc::{root_as_footer, root_as_message};
use arrow_schema::SchemaRef;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

/// The first bytes of a file, and its last.
const MAGIC: &[u8] = b"ARROW1";

/// Maximum length of the magic at the start of an Arrow file with its padding, in units of 8 bytes.
const MAGIC_UNITS: usize = 8;

/// The continuation marker before the length of a message, which old files lack.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Maximum expansion of one compressed byte: zstd stores blocks of 128 KiB in 4 bytes.
const MAX_RATIO: i64 = 1 << 15;

/// Maximum bytes of the directory at the end of a file.
const MAX_FOOTER: u64 = 256 << 20;

fn damaged(what: &str) -> Failure {
    Failure::damaged(what)
}

/// Decodes the messages of an input.
struct Decoder {
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl Decoder {
    fn new(schema: arrow_ipc::Schema) -> Result<Decoder> {
        check_schema(&schema)?;
        let schema = guarded(|| Ok::<_, Failure>(fb_to_schema(schema)))?;
        Ok(Decoder { schema: Arc::new(schema), dictionaries: HashMap::new() })
    }

    fn dictionary(&mut self, message: &Message, body: &Buffer) -> Result<()> {
        let batch = message.header_as_dictionary_batch();
        let batch = batch.filter(|batch| batch.data().is_some());
        let batch = batch.ok_or_else(|| damaged("a dictionary has no values"))?;
        let (schema, version) = (&self.schema, message.version());
        let dictionaries = &mut self.dictionaries;
        guarded(|| read_dictionary(body, batch, schema, dictionaries, &version))
    }

    /// The `columns` of a batch, in ascending order; all without them.
    fn batch(
        &self,
        message: &Message,
        body: &Buffer,
        columns: Option<&[usize]>,
    ) -> Result<RecordBatch> {
        let version = message.version();
        let read = |columns: Option<&[usize]>| {
            let batch = message.header_as_record_batch();
            let batch = batch.ok_or_else(|| damaged("a batch has no columns"))?;
            let (schema, dictionaries) = (self.schema.clone(), &self.dictionaries);
            guarded(|| {
                RecordBatchDecoder::try_new(body, batch, schema, dictionaries, &version)
                    .and_then(|decoder| decoder.with_projection(columns).read_record_batch())
            })
        };
        read(columns).map_err(|whole| {
            // The reader does not say which column it is.
            let mut all = 0..self.schema.fields().len();
            let used = |column: &usize| columns.is_none_or(|used| used.contains(column));
            let found = all.find_map(|column| match used(&column) {
                true => Some((column, read(Some(&[column])).err()?)),
                false => None,
            });
            let Some((column, why)) = found else { return whole };
            let column = self.schema.field(column);
            // No command keeps values of this type, and the reader misreads them in files of the
            // metadata version 4, which are valid.
            match column.data_type().to_string().contains("RunEndEncoded") {
                true => why.of_schema().in_column(column),
                false => why.in_column(column),
            }
        })
    }
}

/// A message with its body.
struct Parts {
    bytes: Buffer,
    /// Start and end of the message. The body follows.
    message: (usize, usize),
}

impl Parts {
    fn message(&self) -> Result<Message<'_>> {
        read_message(&self.bytes[self.message.0..self.message.1])
    }

    fn body(&self) -> Buffer {
        self.bytes.slice(self.message.1)
    }
}

/// The batches of a stream.
pub(crate) struct Stream {
    reader: Box<dyn BufRead + Send>,
    decoder: Decoder,
    /// The stream is in a file, whose directory follows.
    in_file: bool,
    batches: usize,
    ended: bool,
}

impl Stream {
    /// Reads the schema. A file that is read as a stream is a stream between two magics.
    pub(crate) fn open(mut reader: Box<dyn BufRead + Send>) -> Result<Stream> {
        let head = reader.fill_buf()?;
        if head.starts_with(FEATHER_1) {
            return Err(Failure::unsupported(
                "version 1 of Feather is not supported; write it as Arrow IPC (Feather version 2)",
            ));
        }
        let in_file = head.starts_with(MAGIC);
        // A shorter input is cut off. Old streams begin with a length, as other data can.
        let is_arrow = [MAGIC, &CONTINUATION].iter().any(|start| {
            let len = head.len().min(start.len());
            head[..len] == start[..len]
        });
        if in_file {
            // Zeros follow the magic as padding. No message starts with a zero.
            let mut unit = [0; 8];
            reader.read_exact(&mut unit)?;
            for _ in 0..MAGIC_UNITS {
                if reader.fill_buf()?.first() == Some(&0) {
                    reader.read_exact(&mut unit)?;
                }
            }
        }
        let decoder = read_schema(&mut reader).map_err(|why| match is_arrow {
            true => why,
            false => Failure::unsupported(format!("it is not Arrow IPC: {}", why.reason())),
        })?;
        Ok(Stream { reader, decoder, in_file, batches: 0, ended: false })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.decoder.schema
    }

    /// The `columns` of the next batch; all without them.
    pub(crate) fn next_batch(&mut self, columns: Option<&[usize]>) -> Result<Option<RecordBatch>> {
        while !self.ended {
            let Some(parts) = next_message(&mut self.reader)? else {
                self.ended = true;
                self.check_end()?;
                break;
            };
            let message = parts.message()?;
            match message.header_type() {
                MessageHeader::RecordBatch => {
                    self.batches += 1;
                    return self.decoder.batch(&message, &parts.body(), columns).map(Some);
                }
                MessageHeader::DictionaryBatch => {
                    self.decoder.dictionary(&message, &parts.body())?;
                }
                MessageHeader::NONE => {}
                MessageHeader::Schema => return Err(damaged("a second schema follows the first")),
                other => {
                    let message = format!("messages of {other:?} are not supported");
                    return Err(Failure::unsupported(message));
                }
            }
        }
        Ok(None)
    }

    /// Checks what follows the end: the directory of a file, or nothing but padding.
    fn check_end(&mut self) -> Result<()> {
        if !self.in_file {
            loop {
                let rest = self.reader.fill_buf()?;
                if rest.iter().any(|byte| *byte != 0) {
                    return Err(Failure::unsupported(
                        "bytes follow the end of the stream; if several streams were joined, give \
                         them as separate files",
                    ));
                }
                match rest.len() {
                    0 => return Ok(()),
                    len => self.reader.consume(len),
                }
            }
        }
        let mut rest = Vec::new();
        self.reader.by_ref().take(MAX_FOOTER).read_to_end(&mut rest)?;
        if rest.len() as u64 == MAX_FOOTER {
            return Err(too_long());
        }
        let cut = || damaged("it is cut off: its directory is missing");
        let (start, end) = rest.split_last_chunk::<10>().ok_or_else(cut)?;
        let len = read_footer_length(*end).map_err(|_| cut())?;
        let footer = start.len().checked_sub(len).map(|at| &start[at..]).ok_or_else(cut)?;
        let batches = read_footer(footer)?.recordBatches().map_or(0, |blocks| blocks.len());
        match batches == self.batches {
            true => Ok(()),
            false => {
                let read = self.batches;
                Err(damaged(&format!("its directory has {batches} batches, and {read} were read")))
            }
        }
    }
}

/// Reads the first message of a stream.
fn read_schema(reader: &mut dyn BufRead) -> Result<Decoder> {
    let missing = || damaged("there is no schema");
    let first = next_message(reader)?.ok_or_else(missing)?;
    let schema = first.message()?.header_as_schema();
    Decoder::new(schema.ok_or_else(missing)?)
}

/// The next message; `None` at the end.
fn next_message(reader: &mut dyn BufRead) -> Result<Option<Parts>> {
    let mut bytes = Vec::new();
    take(reader, 4, &mut bytes)?;
    if bytes == CONTINUATION {
        take(reader, 4, &mut bytes)?;
    }
    let start = bytes.len();
    let cut = || damaged("it is cut off, or a length in it is wrong");
    let len = match bytes.last_chunk() {
        None if bytes.is_empty() => return Ok(None),
        Some([0, 0, 0, 0]) => return Ok(None),
        Some(len) if start.is_multiple_of(4) => u32::from_le_bytes(*len),
        _ => return Err(cut()),
    };
    take(reader, len.into(), &mut bytes)?;
    let meta = bytes.get(start..start + len as usize).ok_or_else(cut)?;
    let body = read_message(meta)?.bodyLength();
    let body = u64::try_from(body).map_err(|_| cut())?;
    let at = bytes.len();
    take(reader, body, &mut bytes)?;
    if (bytes.len() - at) as u64 != body {
        return Err(cut());
    }
    check_buffers(&read_message(&bytes[start..at])?, body, |offset| {
        let start = at.checked_add(usize::try_from(offset).ok()?)?;
        bytes.get(start..)?.first_chunk().copied()
    })?;
    Ok(Some(Parts { bytes: Buffer::from_vec(bytes), message: (start, at) }))
}

/// Appends `len` bytes, or as many as there are. Memory grows with the bytes that were read.
fn take(reader: &mut dyn BufRead, len: u64, bytes: &mut Vec<u8>) -> Result<()> {
    reader.take(len).read_to_end(bytes)?;
    Ok(())
}

fn read_message(bytes: &[u8]) -> Result<Message<'_>> {
    let message = root_as_message(bytes).map_err(|e| Failure::of_text(&e.to_string()))?;
    match message.version() >= MetadataVersion::V4 {
        true => Ok(message),
        false => {
            let message = "its format is older than Arrow 0.8; write it again with a newer one";
            Err(Failure::unsupported(message))
        }
    }
}

fn read_footer(bytes: &[u8]) -> Result<Footer<'_>> {
    root_as_footer(bytes).map_err(|e| Failure::of_text(&e.to_string()))
}

fn too_long() -> Failure {
    Failure::unsupported(format!("its directory is longer than {} MiB", MAX_FOOTER >> 20))
}

/// Checks that the buffers of a batch are within its body of `body` bytes, and the decompressed
/// lengths that compressed ones state. `at` returns the 8 bytes at an offset of the body.
fn check_buffers(
    message: &Message,
    body: u64,
    mut at: impl FnMut(u64) -> Option<[u8; 8]>,
) -> Result<()> {
    let batch = message
        .header_as_record_batch()
        .or_else(|| message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()));
    let Some(batch) = batch else { return Ok(()) };
    if batch.length() < 0 {
        return Err(damaged("a batch has a negative number of rows"));
    }
    for buffer in batch.buffers().into_iter().flatten() {
        let end = buffer.offset().checked_add(buffer.length());
        let end = end.and_then(|end| u64::try_from(end).ok());
        if buffer.offset() < 0 || buffer.length() < 0 || end.is_none_or(|end| end > body) {
            return Err(damaged("a column is outside of its batch"));
        }
        if batch.compression().is_some() && buffer.length() != 0 {
            let claim = at(buffer.offset().unsigned_abs()).map(i64::from_le_bytes);
            let possible = buffer.length().saturating_mul(MAX_RATIO);
            if claim.is_none_or(|claim| claim > possible) {
                return Err(damaged("a compressed column has an impossible length"));
            }
        }
    }
    Ok(())
}

/// The batches of a file.
pub(crate) struct File<R> {
    file: R,
    decoder: Decoder,
    blocks: Vec<Block>,
    next: usize,
    bytes: u64,
}

impl<R: Read + Seek> File<R> {
    /// Reads the directory and the dictionaries of a file of `bytes` bytes.
    pub(crate) fn open(mut file: R, bytes: u64) -> Result<File<R>> {
        let mut end = [0; 10];
        let lost = || damaged("its directory names what is not there");
        let start = bytes.checked_sub(10).ok_or_else(lost)?;
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut end)?;
        let len = read_footer_length(end)
            .map_err(|_| damaged("it is cut off: its directory is missing"))?
            as u64;
        let start = start.checked_sub(len).ok_or_else(lost)?;
        if len > MAX_FOOTER {
            return Err(too_long());
        }
        file.seek(SeekFrom::Start(start))?;
        let mut directory = Vec::new();
        file.by_ref().take(len).read_to_end(&mut directory)?;
        let footer = read_footer(&directory)?;
        let schema = footer.schema().ok_or_else(|| damaged("there is no schema"))?;
        let mut decoder = Decoder::new(schema)?;
        let all = footer.recordBatches().into_iter().chain(footer.dictionaries()).flatten();
        for block in all {
            let (at, meta, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
            let end = at.checked_add(meta.into()).and_then(|end| end.checked_add(body));
            if at < 0 || meta < 8 || body < 0 || end.is_none_or(|end| end as u64 > start) {
                return Err(lost());
            }
        }
        let mut seen = HashSet::new();
        for block in footer.dictionaries().into_iter().flatten() {
            let parts = read_block(&mut file, block)?;
            let message = parts.message()?;
            let dictionary = message.header_as_dictionary_batch();
            let dictionary = dictionary.ok_or_else(|| damaged("a dictionary has no values"))?;
            if !seen.insert(dictionary.id()) && !dictionary.isDelta() {
                let message = "a file cannot replace a dictionary; write it as a stream";
                return Err(Failure::unsupported(message));
            }
            decoder.dictionary(&message, &parts.body())?;
        }
        let blocks = footer.recordBatches().into_iter().flatten().copied().collect();
        Ok(File { file, decoder, blocks, next: 0, bytes })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.decoder.schema
    }

    /// Bytes of the file for each batch.
    pub(crate) fn bytes_per_batch(&self) -> u64 {
        self.bytes / self.blocks.len().max(1) as u64
    }

    /// The `columns` of the next batch; all without them.
    pub(crate) fn next_batch(&mut self, columns: Option<&[usize]>) -> Result<Option<RecordBatch>> {
        let Some(block) = self.blocks.get(self.next) else { return Ok(None) };
        self.next += 1;
        let parts = read_block(&mut self.file, block)?;
        self.decoder.batch(&parts.message()?, &parts.body(), columns).map(Some)
    }
}

/// Opens a seekable file; `None` for a stream, and for a compressed file.
pub(crate) fn open_file(mut file: std::fs::File) -> Result<Option<File<BufReader<std::fs::File>>>> {
    let bytes = file.metadata()?.len();
    let mut magic = Vec::new();
    file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    if magic != MAGIC || file.rewind().is_err() {
        return Ok(None);
    }
    File::open(BufReader::new(file), bytes).map(Some)
}

/// Reads a block that is within the file.
fn read_block(file: &mut (impl Read + Seek), block: &Block) -> Result<Parts> {
    let (meta, body) = (block.metaDataLength() as usize, block.bodyLength() as u64);
    let mut bytes = vec![0; meta + body as usize];
    file.seek(SeekFrom::Start(block.offset() as u64))?;
    file.read_exact(&mut bytes)?;
    let start = if bytes.starts_with(&CONTINUATION) { 8 } else { 4 };
    check_buffers(&read_message(&bytes[start..meta])?, body, |offset| {
        let start = meta.checked_add(usize::try_from(offset).ok()?)?;
        bytes.get(start..)?.first_chunk().copied()
    })?;
    Ok(Parts { bytes: Buffer::from_vec(bytes), message: (start, meta) })
}
