//! Links RocksDB, from the Debian package `librocksdb-dev`: compiling it takes an hour.

fn main() {
    println!("cargo::rustc-link-lib=rocksdb");
}
