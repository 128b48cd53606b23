//! Links tinycdb's library, which the Debian package `libcdb-dev` brings.

fn main() {
    println!("cargo::rustc-link-lib=cdb");
}
