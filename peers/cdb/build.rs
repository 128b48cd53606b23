//! Links tinycdb's library, from the Debian package `libcdb-dev`.

fn main() {
    println!("cargo::rustc-link-lib=cdb");
}
