//! Links Kyoto Cabinet, which the Debian package `libkyotocabinet-dev` brings.

fn main() {
    println!("cargo::rustc-link-lib=kyotocabinet");
}
