//! Links RocksDB, which the Debian package `librocksdb-dev` brings: compiling it takes an hour.

fn main() {
    println!("cargo::rustc-link-lib=rocksdb");
}
