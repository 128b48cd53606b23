//! Figures for readers, and the meaning of engine names.

/// Whether an engine is neither FirnDB nor the floor.
pub fn is_peer(name: &str) -> bool {
    !is_ours(name) && name != "floor"
}

/// Whether an engine is FirnDB.
pub fn is_ours(name: &str) -> bool {
    name.starts_with("firndb")
}

/// Nanoseconds with three significant digits.
pub fn time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {unit}")
}

/// Bytes with a decimal unit.
pub fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.2} GB", b / 1e9),
    }
}

/// A number with a comma after each group of three digits.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

/// The value of a sorted list that a fraction `share` of its values does not exceed.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.max(1) - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_size() {
        assert_eq!([time(61.25), time(2100.0), time(12.34e6)], ["61.2 ns", "2.10 us", "12.3 ms"]);
        assert_eq!([count(0), count(999), count(1_234_567)], ["0", "999", "1,234,567"]);
        assert_eq!([bytes(1500), bytes(327_100_000)], ["1.5 kB", "327.1 MB"]);
    }
}
