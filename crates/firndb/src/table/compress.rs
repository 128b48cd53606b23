//! zstd with a shared dictionary: training, packing and unpacking frames.
//!
//! Frames are kept without the four bytes that every zstd frame begins with and without the number
//! of the dictionary, which would be a twentieth of a small record.

use super::options::Compression;
use crate::{Error, Result};
use std::cell::RefCell;
use zstd::zstd_safe::{CParameter, DCtx, DDict, get_frame_content_size};

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes of a dictionary, by how much one frame holds, and of the sample it is trained on.
const DICTIONARY_OF_RECORDS: usize = 16 << 10;
const DICTIONARY_OF_BLOCKS: usize = 64 << 10;
const SAMPLE_TIMES: usize = 100;
/// Values that a dictionary is trained on, at most, and bytes of each that count.
pub(crate) const SAMPLE_VALUES: usize = 1 << 20;
pub(crate) const SAMPLE_VALUE: usize = 128 << 10;
/// Bytes of a frame's copy that a thread keeps room for, at most.
const KEPT: usize = 1 << 20;

impl Compression {
    fn level(self) -> Option<i32> {
        match self {
            Compression::None => None,
            Compression::Records { level } | Compression::Blocks { level } => Some(level),
        }
    }

    /// `InvalidArgument` if the level is out of range.
    pub(crate) fn check(self) -> Result<()> {
        match self.level() {
            Some(level) if !(1..=19).contains(&level) => {
                Err(Error::invalid(format!("the zstd level is {level}; use 1 to 19")))
            }
            _ => Ok(()),
        }
    }

    /// Bytes of values that a dictionary is trained on.
    pub(crate) fn sample(self) -> usize {
        SAMPLE_TIMES * self.dictionary()
    }

    fn dictionary(self) -> usize {
        match self {
            Compression::None => 0,
            Compression::Records { .. } => DICTIONARY_OF_RECORDS,
            Compression::Blocks { .. } => DICTIONARY_OF_BLOCKS,
        }
    }
}

/// A dictionary for these values; none if they are too few to learn from.
pub(crate) fn train(compression: Compression, sample: &[u8], lengths: &[usize]) -> Vec<u8> {
    let size = compression.dictionary().min(sample.len() / 8);
    if size < 256 || lengths.len() < 16 {
        return Vec::new();
    }
    zstd::dict::from_continuous(sample, lengths, size).unwrap_or_default()
}

/// Makes frames.
pub(crate) struct Packer(zstd::bulk::Compressor<'static>);

impl Packer {
    pub(crate) fn new(compression: Compression, dictionary: &[u8]) -> Result<Packer> {
        let level = compression.level().unwrap_or(1);
        let made = zstd::bulk::Compressor::with_dictionary(level, dictionary);
        let mut zstd = made.map_err(failed)?;
        zstd.set_parameter(CParameter::DictIdFlag(false)).map_err(failed)?;
        Ok(Packer(zstd))
    }

    /// Appends the frame of `bytes`.
    pub(crate) fn pack(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let frame = self.0.compress(bytes).map_err(failed)?;
        out.extend_from_slice(frame.get(MAGIC.len()..).unwrap_or(&[]));
        Ok(())
    }
}

fn failed(e: std::io::Error) -> Error {
    Error::invalid(format!("zstd cannot compress: {e}"))
}

/// Reads frames.
pub(crate) struct Unpacker {
    dictionary: Option<DDict<'static>>,
}

thread_local! {
    /// A decompressor and room for a whole frame; both are costly to make for a single value.
    static ROOM: RefCell<(DCtx<'static>, Vec<u8>)> = RefCell::new((DCtx::create(), Vec::new()));
}

/// The most bytes that a frame of this length can hold: a block of a frame takes four bytes or more
/// and gives 128 KiB or less. So a forged size asks for no more memory than the file pays for.
fn most(frame: usize) -> u64 {
    (frame as u64 / 4 + 1) << 17
}

impl Unpacker {
    /// `Corrupt` if this is no dictionary.
    pub(crate) fn new(dictionary: &[u8]) -> Result<Unpacker> {
        if dictionary.is_empty() {
            return Ok(Unpacker { dictionary: None });
        }
        let dictionary = DDict::try_create(dictionary);
        let known =
            dictionary.ok_or_else(|| Error::corrupt("the dictionary of zstd is damaged"))?;
        Ok(Unpacker { dictionary: Some(known) })
    }

    /// The bytes of a frame, which are at most `longest`.
    pub(crate) fn unpack(&self, frame: &[u8], longest: usize) -> Result<Vec<u8>> {
        ROOM.with_borrow_mut(|(zstd, room)| {
            room.clear();
            room.extend_from_slice(&MAGIC);
            room.extend_from_slice(frame);
            let size = match get_frame_content_size(room) {
                Ok(Some(size)) if size <= (longest as u64).min(most(frame.len())) => size as usize,
                _ => return Err(Error::corrupt("a zstd frame has no size, or too large a one")),
            };
            let mut out = Vec::with_capacity(size);
            let done = match &self.dictionary {
                Some(d) => zstd.decompress_using_ddict(&mut out, room, d),
                None => zstd.decompress(&mut out, room),
            };
            if room.capacity() > KEPT {
                *room = Vec::new();
            }
            match done {
                Ok(written) if written == size => Ok(out),
                Ok(_) => Err(Error::corrupt("a zstd frame has another size than it says")),
                Err(code) => {
                    let why = zstd::zstd_safe::get_error_name(code);
                    Err(Error::corrupt(format!("a zstd frame is damaged: {why}")))
                }
            }
        })
    }
}
