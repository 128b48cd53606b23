//! A compact histogram of latencies: 64 buckets per power of two, so that a quantile is at most 1.6
//! % too high.

const STEP_BITS: u32 = 6;
const STEPS: usize = 1 << STEP_BITS;

/// Number of operations per bucket.
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        let doublings = (u64::BITS - STEP_BITS + 1) as usize;
        Histogram { counts: vec![0; doublings * STEPS], total: 0, sum: 0, max: 0 }
    }

    /// Adds a time.
    pub fn add(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.sum += nanos;
        self.max = self.max.max(nanos);
    }

    /// Number of times added.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Sum of all times.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The time that a fraction `share` of all times does not exceed.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = ((share * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper(bucket).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(nanos: u64) -> usize {
    let doubling = (u64::BITS - nanos.leading_zeros()).saturating_sub(STEP_BITS + 1);
    (nanos >> doubling) as usize + doubling as usize * STEPS
}

/// The largest time of a bucket.
fn upper(bucket: usize) -> u64 {
    let doubling = (bucket / STEPS).saturating_sub(1);
    let first = (bucket - doubling * STEPS) as u64;
    ((u128::from(first) + 1) << doubling).saturating_sub(1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_times() {
        for nanos in [0, 1, 63, 64, 65, 127, 128, 129, 1000, 123_456_789, u64::MAX] {
            let upper = upper(bucket(nanos));
            assert!(upper >= nanos && upper - nanos <= nanos / 64, "{nanos}: {upper}");
        }
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|nanos| histogram.add(nanos * 10));
        assert_eq!((histogram.total(), histogram.sum()), (1000, 5_005_000));
        assert!((5000..=5080).contains(&histogram.quantile(0.5)));
        assert!((9990..=10_000).contains(&histogram.quantile(0.999)));
        assert_eq!(histogram.quantile(1.0), 10_000);
    }
}
