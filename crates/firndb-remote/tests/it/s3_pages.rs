//! Tests with more objects than one page of a list contains: S3 lists 1,000 per page.

use super::*;
use firndb::catalog::{CleanOptions, Content, Origin};
use std::sync::Arc;
use std::time::Duration;

/// More than one page.
const MANY: u64 = 1050;

/// A catalog whose name `words` has version 1, copies of its manifest as versions 2 to `MANY`, and
/// next to the one file as many files that interrupted publishers have left.
fn fill(place: &Place, origin: &ObjectOrigin, catalog: &Catalog) {
    publish(catalog, "words", &place.table(1, 100)).unwrap();
    let first = catalog.version("words", 1).unwrap();
    let copies = place.path("copies");
    fs::create_dir_all(&copies).unwrap();
    let mut objects = Vec::new();
    for number in 2..=MANY {
        let mut version = first.clone();
        (version.number, version.parent) = (number, Some(number - 1));
        version.time += number as i64;
        objects.push((format!("words/versions/{number:020}.json"), version.manifest()));
    }
    for number in 1..=MANY {
        let hash = format!("{number:064x}");
        objects.push((format!("words/files/{number:020}-{hash}"), String::new()));
    }
    let paths: Vec<(String, PathBuf, u64, String)> = objects
        .into_iter()
        .enumerate()
        .map(|(n, (object, text))| {
            let path = copies.join(n.to_string());
            fs::write(&path, &text).unwrap();
            (object, path, text.len() as u64, hash_of(text.as_bytes()))
        })
        .collect();
    let contents: Vec<_> = paths
        .iter()
        .map(|(object, path, bytes, blake3)| {
            (object.clone(), Content::File { path, bytes: *bytes, blake3 })
        })
        .collect();
    origin.store(&contents, &|_| ()).unwrap();
}

#[test]
fn lists_span_pages() {
    let Some(moto) = Moto::shared("lists_span_pages") else { return };
    moto.bucket("pages");
    let place = Place::new();
    let origin = Arc::new(origin(&moto, "pages", "p"));
    let catalog = Catalog::at(origin.clone());
    fill(&place, &origin, &catalog);
    // Confirms that the server splits lists into pages.
    let page = moto.ask("GET", "/pages?list-type=2&prefix=p/words/versions/");
    assert!(page.contains("<IsTruncated>true</IsTruncated>"), "{page:.300}");

    assert_eq!(catalog.versions("words").unwrap(), (1..=MANY).collect::<Vec<_>>());
    assert_eq!(catalog.newest("words").unwrap().number, MANY);
    let reader = read(&catalog, "words", &place.path("cache")).unwrap();
    assert_eq!((reader.current().version().number, version_in(&reader)), (MANY, 1));
    let next = publish(&catalog, "words", &place.table(2, 100)).unwrap();
    assert_eq!(next.version.number, MANY + 1);
    assert!(reader.refresh().unwrap());
    assert_eq!(version_in(&reader), 2);
    catalog.pin("words", 7, "").unwrap();

    // The file of version 1 stays, because version 7 lists it, and so does that of the newest.
    let clean = CleanOptions::new().keep(1).grace(Duration::ZERO);
    let cleaned = catalog.clean("words", &clean).unwrap();
    let gone: Vec<u64> = (1..=MANY).filter(|&number| number != 7).collect();
    assert_eq!((cleaned.versions, cleaned.files), (gone, MANY));
    assert_eq!(catalog.versions("words").unwrap(), [7, MANY + 1]);
    assert_eq!(origin.list("words/files").unwrap().len(), 2);
    for number in [7, MANY + 1] {
        catalog.verify(&catalog.version("words", number).unwrap(), |_| ()).unwrap();
    }
}
