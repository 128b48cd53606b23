//! Links Tokyo Cabinet, from the Debian package `libtokyocabinet-dev`.

fn main() {
    println!("cargo::rustc-link-lib=tokyocabinet");
}
