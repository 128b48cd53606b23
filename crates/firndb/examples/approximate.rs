//! Builds an approximate table of many keys and prints what it takes: bits per key, time to build,
//! time of a get. `cargo run --release -p firndb --example approximate -- 20000000`

use firndb::table::{Access, ApproximateBuilder, ApproximateOptions, ApproximateTable};
use std::time::Instant;

/// Another number for each `i`, spread over all 64 bits.
fn mixed(i: u64) -> u64 {
    let mut z = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ (z >> 31)
}

fn main() -> firndb::Result<()> {
    let n: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let path = std::env::temp_dir().join(format!("firndb-approximate-{}", std::process::id()));
    let result = measure(&path, n);
    let _ = std::fs::remove_file(&path);
    result
}

fn measure(path: &std::path::Path, n: u64) -> firndb::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = ApproximateOptions::new().value_width(8).fingerprint_bits(16).threads(threads);
    let start = Instant::now();
    let mut builder = ApproximateBuilder::create_with(path, options)?;
    for i in 0..n {
        builder.add(mixed(i).to_le_bytes(), i.to_le_bytes())?;
    }
    let added = start.elapsed();
    builder.finish()?;
    let per_key = |time: std::time::Duration, keys: u64| time.as_nanos() as f64 / keys as f64;
    println!(
        "{n} keys, {threads} threads: added in {:.0} ns per key, finished in {:.0} ns per key",
        per_key(added, n),
        per_key(start.elapsed() - added, n)
    );
    for access in [Access::Map, Access::Resident] {
        let table = ApproximateTable::open_with(path, access)?;
        table.verify()?;
        let stats = table.stats();
        let hash = stats.hash_bytes as f64 * 8.0 / n as f64;
        let all = stats.file_bytes as f64 * 8.0 / n as f64;
        println!("{access:?}: {hash:.3} bits per key of perfect hash, {all:.2} in all");
        let gets = n.min(5_000_000);
        let keys: Vec<(u64, [u8; 8])> = (0..gets)
            .map(|i| mixed(i ^ 0x5555_5555) % n)
            .map(|i| (i, mixed(i).to_le_bytes()))
            .collect();
        for (i, key) in &keys {
            let value = table.get(key)?.expect("a key that was added is there");
            assert_eq!(*value, i.to_le_bytes());
        }
        let start = Instant::now();
        let found = keys.iter().filter(|(_, key)| table.get(key).is_ok_and(|v| v.is_some()));
        assert_eq!(found.count() as u64, gets);
        let one = per_key(start.elapsed(), gets);
        let (start, mut found) = (Instant::now(), 0);
        for group in keys.chunks(1024) {
            let group: Vec<&[u8; 8]> = group.iter().map(|(_, key)| key).collect();
            found += table.get_many(&group)?.into_iter().flatten().count() as u64;
        }
        assert_eq!(found, gets);
        let many = per_key(start.elapsed(), gets);
        println!("{access:?}: {one:.0} ns per get, {many:.0} ns with get_many");
        let absent = (0..gets)
            .filter(|&i| table.contains(mixed(n + i).to_le_bytes()).is_ok_and(|there| there));
        println!(
            "{access:?}: 1 of {:.0} absent keys answered",
            gets as f64 / absent.count() as f64
        );
    }
    Ok(())
}
