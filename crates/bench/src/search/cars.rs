//! The car offers: documents of a classified-ads site, and its six kinds of queries.
//!
//! Offer i depends only on the seed and i. Popular regions, makes, models, colours and tags follow
//! Zipf's law; dates cluster towards the present; prices fall with age and differ by make;
//! locations cluster around the centre of their region.

use firndb_bench_protocol::rng::{Rng, Zipf};
use firndb_bench_protocol::search::{Car, Query};
use std::fmt::Write;

/// Numbers of regions, makes and so on.
const REGIONS: usize = 1000;
const MARKS: usize = 100;
const MODELS_PER_MARK: usize = 20;
const TAGS: usize = 200;
const WORDS: usize = 2000;

/// The present of the data set: 2026-01-01T00:00:00Z.
const NOW: i64 = 1_767_225_600;
const THIS_YEAR: u32 = 2026;
const DAY: f64 = 86_400.0;

/// Random number streams: each part of the data set has its own.
const STREAM_MARKET: u64 = 1;
const STREAM_FIELDS: u64 = 2;
const STREAM_PAYLOAD: u64 = 3;
const STREAM_QUERIES: u64 = 4;

/// What all offers share: names, locations, price levels, popularity.
pub struct Market {
    seed: u64,
    /// Latitude and longitude of each region's centre, in degrees.
    centres: Vec<(f64, f64)>,
    levels: Vec<f64>,
    marks: Vec<String>,
    models: Vec<String>,
    bodies: Vec<String>,
    colors: Vec<String>,
    tags: Vec<String>,
    words: Vec<String>,
    by_region: Zipf,
    by_mark: Zipf,
    by_model: Zipf,
    by_body: Zipf,
    by_color: Zipf,
    by_tag: Zipf,
    by_word: Zipf,
}

/// A car offer as indexes into the texts of [`Market`]; owns only the texts of its own.
pub struct Offer {
    region: usize,
    mark: usize,
    model: usize,
    year: u32,
    price: u32,
    mileage: u32,
    date: i64,
    lat: i32,
    lon: i32,
    body: usize,
    color: usize,
    tags: String,
}

impl Market {
    /// The market of a seed.
    pub fn new(seed: u64) -> Market {
        let mut rng = Rng::new(seed, STREAM_MARKET, 0);
        let names = |n: usize, first: usize| (0..n).map(|i| name(first + i)).collect::<Vec<_>>();
        let marks = names(MARKS, 0);
        let model = |i: usize| format!("{} {}", marks[i / MODELS_PER_MARK], name(3000 + i));
        Market {
            seed,
            centres: (0..REGIONS)
                .map(|_| (rng.between(42.0, 68.0), rng.between(28.0, 140.0)))
                .collect(),
            levels: (0..MARKS).map(|_| (0.5 * rng.normal()).exp()).collect(),
            models: (0..MARKS * MODELS_PER_MARK).map(model).collect(),
            marks,
            bodies: names(10, 200),
            colors: names(16, 300),
            tags: names(TAGS, 400),
            words: names(WORDS, 700),
            by_region: Zipf::new(REGIONS, 1.0),
            by_mark: Zipf::new(MARKS, 1.0),
            by_model: Zipf::new(MODELS_PER_MARK, 0.8),
            by_body: Zipf::new(10, 0.9),
            by_color: Zipf::new(16, 0.9),
            by_tag: Zipf::new(TAGS, 0.8),
            by_word: Zipf::new(WORDS, 0.9),
        }
    }

    /// Offer number `id`.
    pub fn offer(&self, id: u64) -> Offer {
        let rng = &mut Rng::new(self.seed, STREAM_FIELDS, id);
        let (region, mark) = (self.by_region.draw(rng), self.by_mark.draw(rng));
        let model = mark * MODELS_PER_MARK + self.by_model.draw(rng);
        let age = rng.exponential(9.0).min(36.0).floor();
        let new = 800_000.0 * self.levels[mark] * (0.6 * rng.normal()).exp() * 1.6;
        let price = (new * 0.93f64.powf(age) / 1000.0).round() * 1000.0;
        let mileage = (age + 0.3) * 15_000.0 * (0.5 * rng.normal()).exp();
        let centre = self.centres[region];
        Offer {
            region,
            mark,
            model,
            year: THIS_YEAR - age as u32,
            price: price.clamp(10_000.0, 100_000_000.0) as u32,
            mileage: mileage.min(999_999.0) as u32,
            date: NOW - rng.exponential(30.0 * DAY).min(365.0 * DAY) as i64,
            lat: ((centre.0 + 0.25 * rng.normal()) * 1e6) as i32,
            lon: ((centre.1 + 0.40 * rng.normal()) * 1e6) as i32,
            body: self.by_body.draw(rng),
            color: self.by_color.draw(rng),
            tags: self.draw_tags(rng),
        }
    }

    /// Binomial(8, 0.45) draws; a tag drawn twice counts once.
    fn draw_tags(&self, rng: &mut Rng) -> String {
        let draws = (0..8).filter(|_| rng.unit() < 0.45).count();
        let mut tags: Vec<usize> = (0..draws).map(|_| self.by_tag.draw(rng)).collect();
        tags.sort_unstable();
        tags.dedup();
        join(tags.into_iter().map(|tag| self.tags[tag].as_str()))
    }

    /// The row of offer number `id`, with its payload written to `payload`.
    pub fn row<'a>(&'a self, id: u64, offer: &'a Offer, payload: &'a mut String) -> Car<'a> {
        payload.clear();
        self.write_payload(id, payload);
        Car {
            id,
            region: offer.region as u32,
            mark: &self.marks[offer.mark],
            model: &self.models[offer.model],
            year: offer.year,
            price: offer.price,
            mileage: offer.mileage,
            date: offer.date,
            lat: offer.lat,
            lon: offer.lon,
            body_type: &self.bodies[offer.body],
            color: &self.colors[offer.color],
            tags: &offer.tags,
            payload,
        }
    }

    /// JSON of 440 to 560 bytes: identifiers and links that do not compress, then words that do.
    fn write_payload(&self, id: u64, out: &mut String) {
        let rng = &mut Rng::new(self.seed, STREAM_PAYLOAD, id);
        let length = 440 + rng.below(121) as usize;
        let (a, b, c, d) = (rng.next(), rng.next(), rng.next(), rng.next());
        let photos = (rng.next(), rng.next(), rng.next());
        let _ = write!(
            out,
            "{{\"id\":\"{a:016x}{b:016x}\",\"seller\":\"{c:016x}\",\
             \"url\":\"https://cars.example/offer/{d:016x}\",\
             \"photos\":[\"{:016x}.jpg\",\"{:016x}.jpg\",\"{:016x}.jpg\"],\"text\":\"",
            photos.0, photos.1, photos.2
        );
        let tail = "\"}";
        while out.len() + tail.len() < length {
            out.push_str(&self.words[self.by_word.draw(rng)]);
            out.push(' ');
        }
        out.truncate(length - tail.len());
        out.push_str(tail);
    }

    /// `per_kind` queries of each kind about the first `size` offers; the parameters are taken from
    /// random offers.
    pub fn queries(&self, size: u64, per_kind: usize, seed: u64) -> Vec<Query> {
        let kinds: [fn(&Market, &mut Rng, Offer) -> Query; 6] =
            [Market::q1, Market::q2, Market::q3, Market::q4, |_, _, _| Query::Q5, Market::q6];
        let mut queries = Vec::with_capacity(kinds.len() * per_kind);
        for (stream, make) in kinds.iter().enumerate() {
            let rng = &mut Rng::new(seed, STREAM_QUERIES, stream as u64);
            for _ in 0..per_kind {
                let offer = self.offer(rng.below(size));
                queries.push(make(self, rng, offer));
            }
        }
        queries
    }

    fn q1(&self, _: &mut Rng, offer: Offer) -> Query {
        Query::Q1 { region: offer.region as u32 }
    }

    fn q2(&self, _: &mut Rng, offer: Offer) -> Query {
        let price = f64::from(offer.price);
        Query::Q2 {
            region: offer.region as u32,
            mark: self.marks[offer.mark].clone(),
            price: ((0.7 * price) as u32, (1.3 * price) as u32),
        }
    }

    fn q3(&self, rng: &mut Rng, offer: Offer) -> Query {
        let marks = self.by_mark.distinct(rng, 10);
        Query::Q3 {
            marks: marks.into_iter().map(|mark| self.marks[mark].clone()).collect(),
            year: 1995 + rng.below(26) as u32,
            color: self.colors[offer.color].clone(),
        }
    }

    /// A box around an offer; the half side runs from 0.05 to 2 degrees of latitude.
    fn q4(&self, rng: &mut Rng, offer: Offer) -> Query {
        let half = 0.05 * 40f64.powf(rng.unit()) * 1e6;
        let (tall, wide) = (half as i32, (1.6 * half) as i32);
        Query::Q4 {
            lat: (offer.lat - tall, offer.lat + tall),
            lon: (offer.lon - wide, offer.lon + wide),
        }
    }

    fn q6(&self, rng: &mut Rng, offer: Offer) -> Query {
        let tags = self.by_tag.distinct(rng, 3);
        let tags = tags.into_iter().map(|tag| self.tags[tag].clone()).collect();
        Query::Q6 { tags, price: offer.price }
    }
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(",")
}

/// A pronounceable name, distinct for every number: its base-20 digits as syllables.
fn name(number: usize) -> String {
    const SYLLABLES: [&str; 20] = [
        "ka", "ro", "mi", "te", "su", "la", "vo", "ni", "pe", "du", "za", "go", "fi", "re", "lu",
        "ba", "no", "si", "ve", "tu",
    ];
    // Multiplying by a number coprime to 8000 shuffles the names, so that their order is
    // independent of their popularity.
    let mut rest = number * 4657 % 8000;
    let mut name = String::new();
    for _ in 0..3 {
        name.push_str(SYLLABLES[rest % 20]);
        rest /= 20;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_determined_by_seed_and_number() {
        let (market, again) = (Market::new(42), Market::new(42));
        let (mut payload, mut same) = (String::new(), String::new());
        let mut payload_bytes = 0;
        for id in 0..2000 {
            let (offer, other) = (market.offer(id), again.offer(id));
            let row = market.row(id, &offer, &mut payload);
            assert_eq!(row, again.row(id, &other, &mut same));
            assert!((440..=560).contains(&row.payload.len()), "{}", row.payload.len());
            assert!(row.payload.ends_with("\"}") && row.payload.is_ascii());
            assert!((1990..=THIS_YEAR).contains(&row.year) && row.price % 1000 == 0);
            assert!((10_000..=100_000_000).contains(&row.price) && row.mileage <= 999_999);
            assert!((NOW - 365 * 86_400..=NOW).contains(&row.date) && row.tags().count() <= 8);
            payload_bytes += row.payload.len();
        }
        assert!((490..510).contains(&(payload_bytes / 2000)));
        assert_ne!(Market::new(43).offer(7).date, market.offer(7).date);
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::HashSet<String> = (0..8000).map(name).collect();
        assert_eq!(names.len(), 8000);
    }
}
