//! Arrow IPC that may be damaged: what its lengths claim is not there is found before memory is
//! asked for it.

use arrow_array::RecordBatch;
use arrow_ipc::reader::{StreamDecoder, read_footer_length};
use arrow_ipc::{Block, root_as_footer};
use arrow_schema::{ArrowError, SchemaRef};
use std::io::{BufRead, Read, Seek, SeekFrom};

/// Most units of 8 bytes that the mark at the beginning of an Arrow file has with its padding.
const MARK_UNITS: usize = 8;

/// Bytes that are handed on at a time. They are copied, and those of small batches more than once.
const PIECE: usize = 1 << 14;

/// The batches of a stream. The decoder takes bytes as they come: a length that no bytes follow
/// costs nothing.
pub struct Stream {
    reader: Box<dyn BufRead>,
    decoder: StreamDecoder,
    ended: bool,
}

impl Stream {
    /// Reads the schema. In a file that comes as a stream, the stream stands between two marks.
    pub fn open(mut reader: Box<dyn BufRead>) -> Result<(Stream, SchemaRef), ArrowError> {
        let (mut decoder, mut unit) = (StreamDecoder::new(), [0; 8]);
        if reader.fill_buf()?.starts_with(b"ARROW1") {
            for _ in 0..=MARK_UNITS {
                reader.read_exact(&mut unit)?;
                // Zeros may follow the mark, which no message begins with.
                if !unit.starts_with(b"ARROW1") && unit != [0; 8] {
                    decoder.decode(&mut unit.to_vec().into())?;
                    break;
                }
            }
        }
        let mut stream = Stream { reader, decoder, ended: false };
        loop {
            if let Some(schema) = stream.decoder.schema() {
                return Ok((stream, schema));
            }
            if stream.step()?.is_some() || stream.ended {
                return Err(ArrowError::IpcError("there is no schema".to_string()));
            }
        }
    }

    /// Hands on some bytes; the batch that ends in them, if one does.
    fn step(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let bytes = self.reader.fill_buf()?;
        if bytes.is_empty() {
            self.ended = true;
            return self.decoder.finish().map(|()| None);
        }
        let bytes = &bytes[..bytes.len().min(PIECE)];
        let mut buffer = bytes.to_vec().into();
        let decoded = self.decoder.decode(&mut buffer);
        let taken = bytes.len() - buffer.len();
        self.reader.consume(taken);
        match decoded {
            // It had its end, and more follows: that of a file.
            Err(_) if self.decoder.finish().is_ok() => {
                self.ended = true;
                Ok(None)
            }
            decoded => decoded,
        }
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let step = self.step().transpose();
            self.ended |= matches!(step, Some(Err(_)));
            if step.is_some() {
                return step;
            }
        }
        None
    }
}

/// Checks that what the directory at the end of a file names is within its bytes.
pub fn check_file(file: &mut (impl Read + Seek), bytes: u64) -> Result<(), ArrowError> {
    let mut end = [0; 10];
    file.seek(SeekFrom::End(-10))?;
    file.read_exact(&mut end)?;
    let len = read_footer_length(end)?;
    let damaged = || ArrowError::ParseError("its directory names what is not there".to_string());
    let start = bytes.checked_sub(10 + len as u64).ok_or_else(damaged)?;
    file.seek(SeekFrom::Start(start))?;
    let mut directory = Vec::new();
    file.take(len as u64).read_to_end(&mut directory)?;
    file.rewind()?;
    let footer = root_as_footer(&directory).map_err(|e| ArrowError::ParseError(e.to_string()))?;
    let is_within = |block: &Block| {
        let (at, meta, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
        let end = at.checked_add(meta.into()).and_then(|end| end.checked_add(body));
        at >= 0 && meta >= 0 && body >= 0 && end.is_some_and(|end| end as u64 <= start)
    };
    let blocks = footer.recordBatches().into_iter().chain(footer.dictionaries()).flatten();
    match blocks.into_iter().all(is_within) {
        true => Ok(()),
        false => Err(damaged()),
    }
}
