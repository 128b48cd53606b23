//! The manifest of a catalog's version, in a catalog with the files that it names.

use crate::mutate::{Rng, plain, put, resize};
use crate::place;
use firndb::catalog::{Catalog, PublishOptions, ReaderOptions};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

const CHECKSUM: &[u8] = b",\n\"checksum\": \"";
/// The name under which manifests are read.
const NAME: &str = "flights";
const VERSION: u64 = 7;
/// Maximum growth of a manifest per mutation, in bytes.
const ROOM: usize = 64;

/// A catalog with the file of a table; its manifest of version 7 is the input. One mutation in
/// sixteen starts from the second item, the table's own manifest.
static CATALOG: LazyLock<(PathBuf, Vec<u8>)> = LazyLock::new(|| {
    let dir = place::empty_dir("catalog");
    let catalog = Catalog::create(&dir).expect("a catalog can be made");
    let table = place::golden().join("records.table");
    let published = catalog.publish(NAME, &table, &PublishOptions::default());
    let version = published.expect("a table can be published").version;
    let text = version.manifest().replacen("\"version\": 1,", "\"version\": 7,", 1);
    let old = dir.join(NAME).join("versions").join(format!("{:020}.json", 1));
    fs::remove_file(old).expect("the first version is there");
    (dir, text.into_bytes())
});

/// Mutates the text and recomputes its checksum.
pub fn mutate(rng: &mut Rng, data: &mut [u8], size: usize, max_size: usize) -> usize {
    if rng.one_in(8) {
        return plain(rng, data, size, max_size);
    }
    let whole = if rng.one_in(16) { &CATALOG.1[..] } else { &data[..size] };
    let end = whole.windows(CHECKSUM.len()).rposition(|window| window == CHECKSUM);
    let mut text = whole[..end.unwrap_or(whole.len())].to_vec();
    resize(&mut text, ROOM);
    put(data, size, max_size, &seal(text))
}

/// Appends the checksum and the end of the file to the text.
fn seal(mut text: Vec<u8>) -> Vec<u8> {
    let sum = format!("{:016x}", xxh3_64(&text));
    text.extend_from_slice(CHECKSUM);
    text.extend_from_slice(sum.as_bytes());
    text.extend_from_slice(b"\"\n}\n");
    text
}

/// Names in a folder that the target did not create.
fn unexpected_names(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().expect("scratch can be listed");
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !["catalog", "deep"].contains(&name.as_str())).collect()
}

pub fn run(data: &[u8]) {
    let (dir, _) = &*CATALOG;
    let number = format!("{VERSION:020}.json");
    fs::write(dir.join(NAME).join("versions").join(number), data).expect("can be written");
    let catalog = Catalog::open(dir).expect("the catalog opens");
    let _ = (catalog.names(), catalog.versions(NAME), catalog.newest(NAME));
    let Ok(version) = catalog.version(NAME, VERSION) else { return };
    // A parsed manifest is written back identically, except for unknown members.
    let text = version.manifest();
    fs::write(dir.join(NAME).join("versions").join(format!("{:020}.json", VERSION)), &text)
        .expect("can be written");
    let again = catalog.version(NAME, VERSION).expect("a manifest that was written is read");
    assert_eq!(again.manifest(), text);
    assert!(version.diff(&again).changes.is_empty());
    let _ = (version.bytes(), catalog.verify(&version, |_| {}));
    // Nested deep enough that a name that escapes from it is detected.
    let deep = place::empty_dir("deep");
    let _ = catalog.pull(&version, deep.join("a/b/pulled"), 1, &|_| {});
    let options = ReaderOptions::new().threads(1);
    if let Ok(reader) = catalog.reader(NAME, deep.join("a/b/cache"), options) {
        if let Ok(table) = reader.current().table() {
            let _ = table.get(b"Oslo");
        }
        let _ = (reader.refresh(), reader.stats());
    }
    assert_eq!(unexpected_names(place::scratch()), [""; 0], "a file stands where none belongs");
    let expected = ["a".to_string()];
    let names: Vec<String> = deep
        .read_dir()
        .expect("there")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.is_empty() || names == expected, "a file stands outside of its folder");
}
