//! Links Berkeley DB, from the Debian package `libdb5.3-dev`.

fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    cc::Build::new().file("src/shim.c").opt_level(2).compile("shim");
    println!("cargo::rustc-link-lib=db-5.3");
}
