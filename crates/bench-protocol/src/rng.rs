//! Deterministic random numbers: SplitMix64, and the distributions of the workloads.
//!
//! Each row of a data set has its own generator, so that any row can be generated without those
//! before it.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
pub struct Rng(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// The generator of item `index` in a `stream` of random numbers.
    pub fn new(seed: u64, stream: u64, index: u64) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(STEP) ^ stream);
        Rng(rng.next() ^ index.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// 64 random bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `low..high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    /// Normal distribution with mean 0 and deviation 1 (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Exponential distribution.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// Zipf distribution over `0..n`: the weight of i is 1 / (i + 1)^exponent.
pub struct Zipf(Vec<f64>);

impl Zipf {
    /// `n` is at least 1.
    pub fn new(n: usize, exponent: f64) -> Zipf {
        let mut cumulative: Vec<f64> = Vec::with_capacity(n);
        for i in 0..n {
            let weight = ((i + 1) as f64).powf(-exponent);
            cumulative.push(cumulative.last().unwrap_or(&0.0) + weight);
        }
        let total = cumulative[n - 1];
        cumulative.iter_mut().for_each(|weight| *weight /= total);
        Zipf(cumulative)
    }

    /// Draws an item.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        let point = rng.unit();
        self.0.partition_point(|&weight| weight <= point).min(self.0.len() - 1)
    }

    /// Draws `count` different items; `count` is at most n.
    pub fn distinct(&self, rng: &mut Rng, count: usize) -> Vec<usize> {
        let mut items = Vec::with_capacity(count);
        while items.len() < count.min(self.0.len()) {
            let item = self.draw(rng);
            if !items.contains(&item) {
                items.push(item);
            }
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_means() {
        let mut rng = Rng::new(42, 0, 0);
        let n = 100_000;
        let mean = |draw: &mut dyn FnMut() -> f64| (0..n).map(|_| draw()).sum::<f64>() / n as f64;
        assert!((mean(&mut || rng.unit()) - 0.5).abs() < 0.01);
        assert!(mean(&mut || rng.normal()).abs() < 0.02);
        assert!((mean(&mut || rng.normal().powi(2)) - 1.0).abs() < 0.03);
        assert!((mean(&mut || rng.exponential(9.0)) - 9.0).abs() < 0.2);
        let zipf = Zipf::new(10, 1.0);
        let first = mean(&mut || f64::from(zipf.draw(&mut rng) == 0));
        assert!((first - 1.0 / 2.929).abs() < 0.01, "the first of ten has weight 1 / H(10)");
    }
}
