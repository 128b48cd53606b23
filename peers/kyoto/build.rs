//! Links Kyoto Cabinet, from the Debian package `libkyotocabinet-dev`.

fn main() {
    println!("cargo::rustc-link-lib=kyotocabinet");
}
