//! Workloads, peers and reports.

fn main() {}
