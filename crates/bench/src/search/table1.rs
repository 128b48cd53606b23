//! Table 1 of the YoctoDB paper (Tsesko, Demidov: CEE-SECR 2016): counts over two columns of ten
//! values each.

use firndb_bench_protocol::rng::Rng;
use firndb_bench_protocol::search::{Pair, Query};

/// MD5 of the digits "0" to "9".
const MD5: [&str; 10] = [
    "cfcd208495d565ef66e7dff9f98764da",
    "c4ca4238a0b923820dcc509a6f75849b",
    "c81e728d9d4c2f636f067f89cc14862c",
    "eccbc87e4b5ce2fe28308fd9f2a7baf3",
    "a87ff679a2f3e71d9181a67b7542122c",
    "e4da3b7fbbce2345d7772b0674a318d5",
    "1679091c5a880faf6fb5e6087eb1b2dc",
    "8f14e45fceea167a5a36dedd4bea2543",
    "c9f0f895fb98ab9159f51fd0297e236d",
    "45c48cce2e2d7fbdea1afc51c7c6ad26",
];

/// Row number `id`.
pub fn row(id: u64) -> Pair<'static> {
    Pair { id, f: MD5[(id % 10) as usize], g: MD5[(id / 10 % 10) as usize] }
}

/// `per_kind` queries of each kind.
pub fn queries(per_kind: usize, seed: u64) -> Vec<Query> {
    let rng = &mut Rng::new(seed, 0, 0);
    let mut digit = || MD5[rng.below(10) as usize].to_string();
    let mut queries: Vec<Query> = (0..per_kind).map(|_| Query::A { f: digit() }).collect();
    queries.extend((0..per_kind).map(|_| Query::B { f: digit(), g: digit() }));
    queries
}
