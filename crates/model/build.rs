//! Tells the library's files that they are a part of this crate.

fn main() {
    println!("cargo::rustc-cfg=firndb_model");
    println!("cargo::rerun-if-changed=build.rs");
}
