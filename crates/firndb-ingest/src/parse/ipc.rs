//! Arrow IPC from damaged or hostile inputs. Lengths are checked against the bytes that are there
//! before memory is allocated for them, because a failed allocation aborts the process.

use arrow_array::RecordBatch;
use arrow_ipc::reader::{StreamDecoder, read_footer_length};
use arrow_ipc::{Block, Message, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};
use std::io::{BufRead, Read, Seek, SeekFrom};

type Result<T> = std::result::Result<T, ArrowError>;

/// Maximum length of the magic at the start of an Arrow file with its padding, in units of 8 bytes.
const MAGIC_UNITS: usize = 8;

/// The continuation marker before the length of a message, which old files lack, and the end of a
/// stream.
const CONTINUATION: [u8; 4] = [0xff; 4];
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Maximum expansion of one compressed byte: zstd stores blocks of 128 KiB in 4 bytes.
const MAX_RATIO: i64 = 1 << 15;

fn damaged(what: &str) -> ArrowError {
    ArrowError::ParseError(what.to_string())
}

/// The batches of a stream.
pub(crate) struct Stream {
    reader: Box<dyn BufRead + Send>,
    decoder: StreamDecoder,
    /// Bytes that the decoder has not consumed.
    rest: Vec<u8>,
    /// A batch that was decoded together with the schema.
    first: Option<RecordBatch>,
    ended: bool,
}

impl Stream {
    /// Reads the schema. A file that is read as a stream is a stream between two magics.
    pub(crate) fn open(mut reader: Box<dyn BufRead + Send>) -> Result<(Stream, SchemaRef)> {
        if reader.fill_buf()?.starts_with(b"ARROW1") {
            // Zeros follow the magic as padding. No message starts with a zero.
            let mut unit = [0; 8];
            reader.read_exact(&mut unit)?;
            for _ in 0..MAGIC_UNITS {
                if reader.fill_buf()?.first() == Some(&0) {
                    reader.read_exact(&mut unit)?;
                }
            }
        }
        let (decoder, rest, first) = (StreamDecoder::new(), Vec::new(), None);
        let mut stream = Stream { reader, decoder, rest, first, ended: false };
        loop {
            stream.first = stream.step()?;
            match stream.decoder.schema() {
                Some(schema) => return Ok((stream, schema)),
                None if stream.ended => return Err(damaged("there is no schema")),
                None => {}
            }
        }
    }

    /// Decodes a message. Returns the batch that it completes.
    fn step(&mut self) -> Result<Option<RecordBatch>> {
        if self.rest.is_empty() {
            // The decoder handles a message without a body only once more bytes follow.
            self.rest = self.message()?.unwrap_or_else(|| {
                self.ended = true;
                END.to_vec()
            });
        }
        let mut buffer = std::mem::take(&mut self.rest).into();
        let batch = self.decoder.decode(&mut buffer)?;
        self.rest = buffer.to_vec();
        Ok(batch)
    }

    /// The bytes of the next message; `None` at the end.
    fn message(&mut self) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        self.take(4, &mut bytes)?;
        if bytes == CONTINUATION {
            self.take(4, &mut bytes)?;
        }
        let start = bytes.len();
        let cut = || damaged("it is cut off, or a length in it is wrong");
        let len = match bytes.last_chunk() {
            None if bytes.is_empty() => return Ok(None),
            Some([0, 0, 0, 0]) => return Ok(None),
            Some(len) if start.is_multiple_of(4) => u32::from_le_bytes(*len),
            _ => return Err(cut()),
        };
        self.take(len.into(), &mut bytes)?;
        let meta = bytes.get(start..start + len as usize).ok_or_else(cut)?;
        let body = read_message(meta)?.bodyLength();
        let body = u64::try_from(body).map_err(|_| cut())?;
        let at = bytes.len();
        self.take(body, &mut bytes)?;
        if (bytes.len() - at) as u64 != body {
            return Err(cut());
        }
        check_claims(&read_message(&bytes[start..at])?, |offset| {
            let start = at.checked_add(usize::try_from(offset).ok()?)?;
            bytes.get(start..)?.first_chunk().copied()
        })?;
        Ok(Some(bytes))
    }

    /// Appends `len` bytes, or as many as there are. Memory grows with the bytes that were read.
    fn take(&mut self, len: u64, bytes: &mut Vec<u8>) -> Result<()> {
        self.reader.by_ref().take(len).read_to_end(bytes)?;
        Ok(())
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        while !self.ended || !self.rest.is_empty() {
            let step = self.step().transpose();
            if step.is_some() {
                self.ended |= matches!(step, Some(Err(_)));
                return step;
            }
        }
        None
    }
}

fn read_message(bytes: &[u8]) -> Result<Message<'_>> {
    root_as_message(bytes).map_err(|e| ArrowError::ParseError(e.to_string()))
}

/// Checks the decompressed lengths that compressed buffers state. `at` returns the 8 bytes at an
/// offset of the body.
fn check_claims(message: &Message, mut at: impl FnMut(u64) -> Option<[u8; 8]>) -> Result<()> {
    let batch = message
        .header_as_record_batch()
        .or_else(|| message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()));
    let compressed = batch.filter(|batch| batch.compression().is_some());
    for buffer in compressed.and_then(|batch| batch.buffers()).into_iter().flatten() {
        let claim = u64::try_from(buffer.offset()).ok().and_then(&mut at).map(i64::from_le_bytes);
        let possible = buffer.length().saturating_mul(MAX_RATIO);
        if buffer.length() != 0 && claim.is_none_or(|claim| claim > possible) {
            return Err(damaged("a compressed column has an impossible length"));
        }
    }
    Ok(())
}

/// Checks that the blocks in the footer of a file are within its bytes.
pub(crate) fn check_file(file: &mut (impl Read + Seek), bytes: u64) -> Result<()> {
    let mut end = [0; 10];
    file.seek(SeekFrom::End(-10))?;
    file.read_exact(&mut end)?;
    let len = read_footer_length(end)? as u64;
    let lost = || damaged("its directory names what is not there");
    let start = bytes.checked_sub(10 + len).ok_or_else(lost)?;
    file.seek(SeekFrom::Start(start))?;
    let mut directory = Vec::new();
    file.by_ref().take(len).read_to_end(&mut directory)?;
    let footer = root_as_footer(&directory).map_err(|e| ArrowError::ParseError(e.to_string()))?;
    for block in footer.recordBatches().into_iter().chain(footer.dictionaries()).flatten() {
        let (at, meta, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
        let end = at.checked_add(meta.into()).and_then(|end| end.checked_add(body));
        if at < 0 || meta < 8 || body < 0 || end.is_none_or(|end| end as u64 > start) {
            return Err(lost());
        }
        check_block(file, block)?;
    }
    file.rewind()?;
    Ok(())
}

/// Checks a block that is within the file.
fn check_block(file: &mut (impl Read + Seek), block: &Block) -> Result<()> {
    let mut meta = vec![0; block.metaDataLength() as usize];
    file.seek(SeekFrom::Start(block.offset() as u64))?;
    file.read_exact(&mut meta)?;
    let body = block.offset() as u64 + meta.len() as u64;
    let meta = meta.strip_prefix(&CONTINUATION).unwrap_or(&meta);
    check_claims(&read_message(&meta[4..])?, |offset| {
        let mut claim = [0; 8];
        file.seek(SeekFrom::Start(body.checked_add(offset)?)).ok()?;
        file.read_exact(&mut claim).ok()?;
        Some(claim)
    })
}
