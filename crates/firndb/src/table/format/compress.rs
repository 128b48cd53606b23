//! zstd with a shared dictionary: training, packing and unpacking frames.
//!
//! Frames are kept without the four bytes that every zstd frame begins with and without the number
//! of the dictionary, which would be a twentieth of a small record.

use crate::table::options::Compression;
use crate::{Error, Result};
use std::cell::RefCell;
use zstd::zstd_safe::{CParameter, DCtx, DDict, get_frame_content_size};

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes of a dictionary, by how much one frame holds, and of the sample it is trained on. That of
/// records stays, with a short record, below 16 KiB: with more zstd takes the parameters of longer
/// inputs, and levels 6 to 12 find less in short ones (6: 245 bytes for 1 KB of JSON, and 231).
const DICTIONARY_OF_RECORDS: usize = 15 << 10;
const DICTIONARY_OF_BLOCKS: usize = 64 << 10;
const SAMPLE_TIMES: usize = 100;
/// Values that a dictionary is trained on, at most, and bytes of each that count.
pub(crate) const SAMPLE_VALUES: usize = 1 << 20;
pub(crate) const SAMPLE_VALUE: usize = 128 << 10;
/// Bytes that a block of a frame holds at most.
const BLOCK: u32 = 128 << 10;
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
pub(crate) struct Compressor(zstd::bulk::Compressor<'static>);

impl Compressor {
    pub(crate) fn new(compression: Compression, dictionary: &[u8]) -> Result<Compressor> {
        let level = compression.level().unwrap_or(1);
        let made = zstd::bulk::Compressor::with_dictionary(level, dictionary);
        let mut zstd = made.map_err(failed)?;
        zstd.set_parameter(CParameter::DictIdFlag(false)).map_err(failed)?;
        Ok(Compressor(zstd))
    }

    /// Appends the frame of `bytes`.
    pub(crate) fn compress(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let frame = self.0.compress(bytes).map_err(failed)?;
        out.extend_from_slice(frame.get(MAGIC.len()..).unwrap_or(&[]));
        Ok(())
    }
}

fn failed(e: std::io::Error) -> Error {
    Error::invalid(format!("zstd cannot compress: {e}"))
}

/// Reads frames.
pub(crate) struct Decompressor {
    dictionary: Option<DDict<'static>>,
}

thread_local! {
    /// A decompressor and room for a whole frame; both are costly to make for a single value.
    static ROOM: RefCell<(DCtx<'static>, Vec<u8>)> = RefCell::new((DCtx::create(), Vec::new()));
}

/// The most bytes that the blocks of a frame can hold by what each begins with: so a forged size
/// asks for no memory that nothing would fill. `None` if a block is cut. (RFC 8878, 3.1.1)
fn most(frame: &[u8]) -> Option<u64> {
    let descriptor = frame.first()?;
    let is_single = descriptor >> 5 & 1 == 1; // There is no size of a window then.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [usize::from(is_single), 2, 4, 8][usize::from(descriptor >> 6)];
    let (mut at, mut most) = (1 + usize::from(!is_single) + dictionary + size, 0);
    loop {
        let head = frame.get(at..at + 3)?;
        let head = (0..3).fold(0, |all, i| all | u32::from(head[i]) << (8 * i));
        let (kind, len) = (head >> 1 & 3, head >> 3);
        // As they are, one byte again and again, or compressed.
        let (held, taken) = match kind {
            0 => (len, len),
            1 => (len, 1),
            _ => (BLOCK, len),
        };
        most += u64::from(held.min(BLOCK));
        at += 3 + taken as usize;
        if head & 1 == 1 {
            return (at <= frame.len()).then_some(most);
        }
    }
}

impl Decompressor {
    /// `Corrupt` if this is no dictionary.
    pub(crate) fn new(dictionary: &[u8]) -> Result<Decompressor> {
        if dictionary.is_empty() {
            return Ok(Decompressor { dictionary: None });
        }
        let dictionary = DDict::try_create(dictionary);
        let known =
            dictionary.ok_or_else(|| Error::corrupt("the dictionary of zstd is damaged"))?;
        Ok(Decompressor { dictionary: Some(known) })
    }

    /// The bytes of a frame, which are at most `longest`.
    pub(crate) fn decompress(&self, frame: &[u8], longest: usize) -> Result<Vec<u8>> {
        ROOM.with_borrow_mut(|(zstd, room)| {
            room.clear();
            room.extend_from_slice(&MAGIC);
            room.extend_from_slice(frame);
            let size = match get_frame_content_size(room) {
                Ok(Some(size)) if size <= longest as u64 && most(frame) >= Some(size) => {
                    size as usize
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    #[test]
    fn a_size_that_the_blocks_of_a_frame_do_not_fill_is_refused_before_there_is_memory_for_it() {
        // No window, a size of 8 bytes, and one last block of bytes as they are. By its length
        // alone the frame could hold 2 GiB.
        let forged = |size: u64, block: &[u8]| {
            let head = (block.len() as u32) << 3 | 1;
            [&[0xe0], &size.to_le_bytes()[..], &head.to_le_bytes()[..3], block].concat()
        };
        let (decompressor, block) = (Decompressor::new(&[]).unwrap(), vec![7; 65_536]);
        let unpack = |frame: &[u8]| decompressor.decompress(frame, u32::MAX as usize);
        assert_eq!(unpack(&forged(65_536, &block)).unwrap(), block);
        let whole = forged(65_536, &block);
        for frame in [&forged(2 << 30, &block), &forged(65_537, &block), &whole[..65_000]] {
            let error = unpack(frame).unwrap_err().to_string();
            assert!(error.contains("has no size, or too large a one"), "{error}");
        }
        for cut in 0..20 {
            assert!(unpack(&whole[..cut]).is_err());
        }
    }

    #[test]
    fn frames_of_every_kind_of_block_are_unpacked() {
        let mut rng = Rng(7);
        for len in [0, 1, 255, 256, 70_000, 131_072, 131_073, 300_000] {
            let noise = rng.fill(len);
            let few: Vec<u8> = noise.iter().map(|byte| byte % 7).collect();
            for bytes in [noise, few, vec![9; len]] {
                for level in [1, 19] {
                    let mut compressor =
                        Compressor::new(Compression::Records { level }, &[]).unwrap();
                    let mut frame = Vec::new();
                    compressor.compress(&bytes, &mut frame).unwrap();
                    let decompressor = Decompressor::new(&[]).unwrap();
                    assert_eq!(
                        decompressor.decompress(&frame, len).unwrap(),
                        bytes,
                        "{len} at {level}"
                    );
                    assert!(len == 0 || decompressor.decompress(&frame, len - 1).is_err());
                }
            }
        }
    }
}
