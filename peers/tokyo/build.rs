//! Links Tokyo Cabinet, which the Debian package `libtokyocabinet-dev` brings.

fn main() {
    println!("cargo::rustc-link-lib=tokyocabinet");
}
