//! A data set in bare arrays, for the brute-force answers and the floor probe.

use firndb_bench_protocol::Result;
use firndb_bench_protocol::search::{each_car, each_pair};
use std::collections::HashMap;
use std::path::Path;

/// A dictionary: a word's code is its position in the order of first appearance.
#[derive(Default)]
pub struct Words(HashMap<String, u16>);

impl Words {
    fn code(&mut self, word: &str) -> u16 {
        if let Some(&code) = self.0.get(word) {
            return code;
        }
        let code = self.0.len() as u16;
        self.0.insert(word.to_string(), code);
        code
    }

    /// The code of a word; for an unknown word a code that no document has.
    pub fn find(&self, word: &str) -> u16 {
        self.0.get(word).copied().unwrap_or(u16::MAX)
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Car offers by column, in the order of the file: the index is the id.
#[derive(Default)]
#[allow(missing_docs, reason = "the fields are those of `Car`")]
pub struct Cars {
    pub region: Vec<u16>,
    pub mark: Vec<u16>,
    pub year: Vec<u16>,
    pub price: Vec<u32>,
    pub date: Vec<i64>,
    pub lat: Vec<i32>,
    pub lon: Vec<i32>,
    pub color: Vec<u16>,
    /// Tags of document i: `tag_codes[tag_starts[i]..tag_starts[i + 1]]`.
    pub tag_starts: Vec<u32>,
    pub tag_codes: Vec<u16>,
    /// Payload of document i: `payloads[payload_starts[i]..payload_starts[i + 1]]`.
    pub payload_starts: Vec<usize>,
    pub payloads: Vec<u8>,
    pub marks: Words,
    pub colors: Words,
    pub tags: Words,
}

impl Cars {
    /// Reads the rows of a file.
    pub fn read(path: &Path) -> Result<Cars> {
        let mut cars = Cars { tag_starts: vec![0], payload_starts: vec![0], ..Cars::default() };
        each_car(path, |car| {
            cars.region.push(u16::try_from(car.region)?);
            let mark = cars.marks.code(car.mark);
            cars.mark.push(mark);
            cars.year.push(u16::try_from(car.year)?);
            cars.price.push(car.price);
            cars.date.push(car.date);
            cars.lat.push(car.lat);
            cars.lon.push(car.lon);
            let color = cars.colors.code(car.color);
            cars.color.push(color);
            for tag in car.tags() {
                let tag = cars.tags.code(tag);
                cars.tag_codes.push(tag);
            }
            cars.tag_starts.push(u32::try_from(cars.tag_codes.len())?);
            cars.payloads.extend_from_slice(car.payload.as_bytes());
            cars.payload_starts.push(cars.payloads.len());
            Ok(())
        })?;
        Ok(cars)
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.price.len()
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.price.is_empty()
    }

    /// Codes of the tags of a document.
    pub fn tags_of(&self, doc: usize) -> &[u16] {
        &self.tag_codes[self.tag_starts[doc] as usize..self.tag_starts[doc + 1] as usize]
    }

    /// Sum of the bytes of a document's payload.
    pub fn payload_sum(&self, doc: usize) -> u64 {
        byte_sum(&self.payloads[self.payload_starts[doc]..self.payload_starts[doc + 1]])
    }
}

/// The small table by column.
#[derive(Default)]
#[allow(missing_docs, reason = "the fields are those of `Pair`")]
pub struct Pairs {
    pub f: Vec<u16>,
    pub g: Vec<u16>,
    /// The words of both columns.
    pub words: Words,
}

impl Pairs {
    /// Reads the rows of a file.
    pub fn read(path: &Path) -> Result<Pairs> {
        let mut pairs = Pairs::default();
        each_pair(path, |pair| {
            let (f, g) = (pairs.words.code(pair.f), pairs.words.code(pair.g));
            pairs.f.push(f);
            pairs.g.push(g);
            Ok(())
        })?;
        Ok(pairs)
    }
}

/// Sums every byte of a payload.
pub fn byte_sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte)).sum()
}
