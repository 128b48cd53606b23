//! A lower bound on the bytes of the columns of the car offers, each coded separately: a bound for
//! indexes that can return every value and do not derive one column from another.
//!
//! A numeric column consists of the set of values, the frequency of each, and the documents that
//! have it. For each of the three, the bound is the base-2 logarithm of the number of
//! possibilities. For words only the last one counts, since there are few words. Documents may have
//! any order, which saves the bits of one permutation of all documents, once. (A model implies the
//! make, and a location nearly the region: an index that used this could be smaller.)

use firndb_bench_protocol::Result;
use firndb_bench_protocol::search::{Car, each_car};
use std::collections::HashMap;
use std::path::Path;

/// Frequency of each value of a column.
type Counts<V> = HashMap<V, u64>;

/// Numeric columns; the last is the length of the payload, which locates the next payload.
type Numbers = [i64; 8];

fn numbers(car: &Car<'_>) -> Numbers {
    let [id, year, price, mileage] =
        [car.id as i64, car.year.into(), car.price.into(), car.mileage.into()];
    [id, year, price, mileage, car.date, car.lat.into(), car.lon.into(), car.payload.len() as i64]
}

/// Bytes of the columns of a file of car offers.
pub fn bytes(path: &Path) -> Result<u64> {
    let mut numbers_of: [Counts<i64>; 8] = Default::default();
    let mut words_of: [Counts<String>; 5] = Default::default();
    let mut tags_of: Counts<String> = Counts::new();
    let mut documents = 0;
    each_car(path, |car| {
        documents += 1;
        let values = numbers(&car);
        values
            .iter()
            .zip(&mut numbers_of)
            .for_each(|(&v, counts)| *counts.entry(v).or_default() += 1);
        let region = car.region.to_string();
        let words = [&region, car.mark, car.model, car.body_type, car.color];
        words.iter().zip(&mut words_of).for_each(|(word, counts)| add(counts, word));
        car.tags().for_each(|tag| add(&mut tags_of, tag));
        Ok(())
    })?;
    let orders = Orders::of(documents);
    let mut bits = -orders.0[documents as usize];
    for counts in &numbers_of {
        bits += values(counts, &orders) + orders.arrangements(counts.values().copied());
    }
    bits +=
        words_of.iter().map(|counts| orders.arrangements(counts.values().copied())).sum::<f64>();
    bits += tags_of.values().map(|&count| orders.subsets(documents, count)).sum::<f64>();
    Ok((bits / 8.0).ceil() as u64)
}

fn add(counts: &mut Counts<String>, word: &str) {
    match counts.get_mut(word) {
        Some(count) => *count += 1,
        None => drop(counts.insert(word.into(), 1)),
    }
}

/// Bits for the set of numbers between the smallest and the largest, and for their frequencies.
fn values(counts: &Counts<i64>, orders: &Orders) -> f64 {
    let (Some(least), Some(largest)) = (counts.keys().min(), counts.keys().max()) else {
        return 0.0;
    };
    let range = largest.abs_diff(*least) + 1;
    let (distinct, all) = (counts.len() as u64, counts.values().sum::<u64>());
    let which: f64 = (0..distinct).map(|i| ((range - i) as f64 / (i + 1) as f64).log2()).sum();
    which + orders.subsets(all - 1, distinct - 1)
}

/// Base-2 logarithms of the factorials of all numbers up to a maximum.
struct Orders(Vec<f64>);

impl Orders {
    fn of(most: u64) -> Orders {
        let mut sum = 0.0;
        let next = |i: u64| {
            sum += (i.max(1) as f64).log2();
            sum
        };
        Orders((0..=most).map(next).collect())
    }

    /// Bits for the order of values with these frequencies.
    fn arrangements(&self, counts: impl Iterator<Item = u64> + Clone) -> f64 {
        let all: u64 = counts.clone().sum();
        self.0[all as usize] - counts.map(|count| self.0[count as usize]).sum::<f64>()
    }

    /// Bits for one subset of `count` out of `all`.
    fn subsets(&self, all: u64, count: u64) -> f64 {
        self.arrangements([count, all - count].into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn bits_are_logarithms_of_the_possibilities() {
        let orders = Orders::of(10);
        assert!(near(orders.arrangements([2, 2].into_iter()), 6f64.log2()));
        assert!(near(orders.arrangements([1, 1, 1].into_iter()), 6f64.log2()));
        assert!(near(orders.arrangements([5].into_iter()), 0.0));
        assert!(near(orders.subsets(5, 2), 10f64.log2()));
        // Two of the numbers 3 to 6, four values in total: 6 pairs, 3 ways to split four in two.
        let counts = Counts::from([(3, 1), (6, 3)]);
        assert!(near(values(&counts, &orders), 6f64.log2() + 3f64.log2()));
    }

    #[test]
    fn columns_of_one_value_take_nothing() {
        let row = |id: u64| format!("{id}\t7\ta\ta b\t2000\t9\t9\t9\t9\t9\tc\td\te,f\tpayload\n");
        let rows: String = (0..8).map(row).collect();
        let path = std::env::temp_dir().join(format!("firndb-least-{}.tsv", std::process::id()));
        std::fs::write(&path, format!("{}\n{rows}", Car::HEADER)).unwrap();
        let bytes = bytes(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(bytes.unwrap(), 0, "the ids are those of the order of the documents");
    }
}
