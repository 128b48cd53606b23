//! zstd frames with a shared dictionary: training, compression, decompression.
//!
//! Frames are stored without the four magic bytes and without the dictionary id, which together
//! would be a twentieth of a small record.

use crate::table::options::Compression;
use crate::{Error, Result};
use std::cell::RefCell;
use zstd::zstd_safe::{CParameter, DCtx, DDict, get_frame_content_size};

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Size of a dictionary, for frames of one record and of one block, and the size of its training
/// sample as a multiple. With 15 KiB, dictionary and a short record stay below 16 KiB. Above that
/// zstd chooses parameters for longer inputs, and levels 6 to 12 compress short ones less (level 6:
/// 245 bytes for 1 KB of JSON instead of 231).
const RECORD_DICTIONARY: usize = 15 << 10;
const BLOCK_DICTIONARY: usize = 64 << 10;
const SAMPLE_TIMES: usize = 100;
/// Most values in a training sample, and most bytes of each.
pub(crate) const SAMPLE_VALUES: usize = 1 << 20;
pub(crate) const SAMPLE_VALUE: usize = 128 << 10;
/// Most bytes that one block of a zstd frame decompresses to (RFC 8878).
const ZSTD_BLOCK: u32 = 128 << 10;
/// Largest frame buffer that a thread keeps for reuse.
const MAX_KEPT_BUFFER: usize = 1 << 20;

impl Compression {
    /// `InvalidArgument` if the level is out of range.
    pub(crate) fn check(self) -> Result<()> {
        match self.level() {
            Some(level) if !(1..=19).contains(&level) => {
                Err(Error::invalid(format!("the zstd level is {level}; use 1 to 19")))
            }
            _ => Ok(()),
        }
    }

    /// Bytes of values in a training sample.
    pub(crate) fn sample(self) -> usize {
        SAMPLE_TIMES * self.dictionary()
    }

    fn dictionary(self) -> usize {
        match self {
            Compression::None => 0,
            Compression::Records { .. } => RECORD_DICTIONARY,
            Compression::Blocks { .. } => BLOCK_DICTIONARY,
        }
    }
}

/// Trains a dictionary. Returns an empty one if the sample is too small.
pub(crate) fn train(compression: Compression, sample: &[u8], lengths: &[usize]) -> Vec<u8> {
    let size = compression.dictionary().min(sample.len() / 8);
    if size < 256 || lengths.len() < 16 {
        return Vec::new();
    }
    zstd::dict::from_continuous(sample, lengths, size).unwrap_or_default()
}

/// Compresses frames.
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

/// Decompresses frames.
pub(crate) struct Decompressor {
    dictionary: Option<DDict<'static>>,
}

thread_local! {
    /// A decompression context and a buffer for one frame. Creating them costs more than
    /// decompressing a small value.
    static CONTEXT: RefCell<(DCtx<'static>, Vec<u8>)> = RefCell::new((DCtx::create(), Vec::new()));
}

/// Upper bound of the decompressed size of a frame, from the headers of its blocks; `None` if a
/// block is truncated. It prevents a forged content size from causing a large allocation (RFC 8878,
/// 3.1.1).
fn max_decompressed_len(frame: &[u8]) -> Option<u64> {
    let descriptor = frame.first()?;
    let is_single = descriptor >> 5 & 1 == 1; // There is no size of a window then.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [usize::from(is_single), 2, 4, 8][usize::from(descriptor >> 6)];
    let (mut at, mut max_decompressed_len) = (1 + usize::from(!is_single) + dictionary + size, 0);
    loop {
        let head = frame.get(at..at + 3)?;
        let head = (0..3).fold(0, |all, i| all | u32::from(head[i]) << (8 * i));
        let (kind, len) = (head >> 1 & 3, head >> 3);
        // Raw, run-length, or compressed blocks.
        let (held, taken) = match kind {
            0 => (len, len),
            1 => (len, 1),
            _ => (ZSTD_BLOCK, len),
        };
        max_decompressed_len += u64::from(held.min(ZSTD_BLOCK));
        at += 3 + taken as usize;
        if head & 1 == 1 {
            return (at <= frame.len()).then_some(max_decompressed_len);
        }
    }
}

impl Decompressor {
    /// `Corrupt` if the dictionary is invalid.
    pub(crate) fn new(dictionary: &[u8]) -> Result<Decompressor> {
        if dictionary.is_empty() {
            return Ok(Decompressor { dictionary: None });
        }
        let dictionary = DDict::try_create(dictionary);
        let known = dictionary.ok_or_else(|| Error::corrupt("the zstd dictionary is damaged"))?;
        Ok(Decompressor { dictionary: Some(known) })
    }

    /// Decompresses a frame. `Corrupt` if it is damaged or decompresses to more than `longest`
    /// bytes.
    pub(crate) fn decompress(&self, frame: &[u8], longest: usize) -> Result<Vec<u8>> {
        CONTEXT.with_borrow_mut(|(zstd, frame_buffer)| {
            frame_buffer.clear();
            frame_buffer.extend_from_slice(&MAGIC);
            frame_buffer.extend_from_slice(frame);
            let size = match get_frame_content_size(frame_buffer) {
                Ok(Some(size))
                    if size <= longest as u64 && max_decompressed_len(frame) >= Some(size) =>
                {
                    size as usize
                }
                _ => {
                    return Err(Error::corrupt(
                        "a zstd frame has no content size, or one that is too large",
                    ));
                }
            };
            let mut out = Vec::with_capacity(size);
            let done = match &self.dictionary {
                Some(d) => zstd.decompress_using_ddict(&mut out, frame_buffer, d),
                None => zstd.decompress(&mut out, frame_buffer),
            };
            if frame_buffer.capacity() > MAX_KEPT_BUFFER {
                *frame_buffer = Vec::new();
            }
            match done {
                Ok(written) if written == size => Ok(out),
                Ok(_) => Err(Error::corrupt("a zstd frame does not have its stated content size")),
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
    fn forged_content_size_is_refused_before_allocation() {
        // A single-segment frame with an 8-byte content size and one raw block. The frame is long
        // enough for 2 GiB of run-length blocks.
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
            assert!(error.contains("has no content size, or one that is too large"), "{error}");
        }
        for cut in 0..20 {
            assert!(unpack(&whole[..cut]).is_err());
        }
    }

    #[test]
    fn frames_of_all_block_types_are_decompressed() {
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
