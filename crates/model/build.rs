//! Sets the cfg under which the library's files are compiled as a part of this crate.

fn main() {
    println!("cargo::rustc-cfg=firndb_model");
    println!("cargo::rerun-if-changed=build.rs");
}
