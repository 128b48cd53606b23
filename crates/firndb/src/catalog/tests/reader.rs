//! Tests of readers: switching, sharing files, bad versions, and faulty origins.

use super::faulty::Faulty;
use super::*;
use crate::ErrorKind;
use crate::catalog::clean::clean_at;
use crate::catalog::format::version_object;
use crate::catalog::reader::cache_dir::{MARK, MARK_TEXT};
use crate::catalog::{CatalogReader, CleanOptions, ReaderOptions};
use crate::search::query::{all, eq};
use crate::table::{ApproximateBuilder, ApproximateOptions};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const CACHE: &str = "/cache";

fn reader(disk: &Arc<SimDisk>, name: &str) -> Result<CatalogReader> {
    catalog(disk).reader(name, Path::new(CACHE), ReaderOptions::default())
}

/// The number of documents with version 2 in the open version.
fn twos(reader: &CatalogReader) -> u64 {
    reader.current().collection().unwrap().count(&eq("version", 2)).unwrap()
}

fn cached(disk: &SimDisk) -> usize {
    let names = disk.list(Path::new(CACHE)).unwrap();
    names.iter().filter(|name| name.ends_with(".firn")).count()
}

#[test]
fn refresh_switches_and_shares_unchanged_files() {
    let disk = SimDisk::new();
    make_collection(&disk);
    publish(&disk, "docs", COLLECTION).unwrap();
    let reader = reader(&disk, "docs").unwrap();
    assert!(!reader.refresh().unwrap());
    replace(&disk, "b", 2);
    publish(&disk, "docs", COLLECTION).unwrap();
    let old = reader.current();
    let before = disk.ops();
    assert!(reader.refresh().unwrap());
    let maps = disk.log().split_off(before);
    let opened = maps.iter().filter(|line| line.contains("map /cache/"));
    assert_eq!(opened.count(), 2, "the set and one partition: {maps:?}");
    assert_eq!((twos(&reader), reader.stats().swaps, reader.stats().version), (4, 1, 2));
    assert_eq!(reader.stats().files, 4 + 2);
    assert_eq!(cached(&disk), 4);
    // The old generation is still in use.
    assert_eq!(old.version().number, 1);
    assert_eq!(old.collection().unwrap().count(&eq("version", 2)).unwrap(), 0);
    old.collection().unwrap().verify().unwrap();
    assert_eq!(old.table().err().unwrap().kind(), ErrorKind::InvalidArgument);
    // A cache directory can have one reader only.
    assert_eq!(super::reader::reader(&disk, "docs").err().unwrap().kind(), ErrorKind::Locked);
}

#[test]
fn tables_switch_and_pinned_readers_stay() {
    let disk = SimDisk::new();
    make_table(&disk, 1);
    publish(&disk, "words", TABLE).unwrap();
    let options = ReaderOptions { version: Some(1), ..ReaderOptions::default() };
    let pinned = catalog(&disk).reader("words", Path::new("/pinned"), options).unwrap();
    let reader = reader(&disk, "words").unwrap();
    make_table(&disk, 2);
    publish(&disk, "words", TABLE).unwrap();
    publish(&disk, "words", TABLE).unwrap();
    assert!(reader.refresh().unwrap() && !pinned.refresh().unwrap());
    let value = |reader: &CatalogReader| {
        reader.current().table().unwrap().get(b"key 7").unwrap().unwrap().into_owned()
    };
    assert_eq!((value(&reader), value(&pinned)), (b"2".to_vec(), b"1".to_vec()));
    assert_eq!(reader.current().version().number, 3);
}

#[test]
fn reads_an_approximate_table() {
    let disk = SimDisk::new();
    let options =
        ApproximateOptions { value_width: 1, threads: 1, ..ApproximateOptions::default() };
    let path = Path::new("/words.approx");
    let mut builder = ApproximateBuilder::create_on(disk.clone(), path, options).unwrap();
    (0..20u8).for_each(|n| builder.add([n], [n + 1]).unwrap());
    builder.finish().unwrap();
    publish(&disk, "words", "/words.approx").unwrap();
    let current = reader(&disk, "words").unwrap().current();
    let value = current.approximate_table().unwrap().get([7]).unwrap();
    assert_eq!(value.as_deref(), Some(&[8][..]));
    assert_eq!(current.table().err().unwrap().kind(), ErrorKind::InvalidArgument);
    make_table(&disk, 1);
    publish(&disk, "exact", TABLE).unwrap();
    let exact = catalog(&disk).reader("exact", Path::new("/exact"), ReaderOptions::default());
    let error = exact.unwrap().current().approximate_table().err().unwrap().to_string();
    assert!(error.contains("`exact` is no approximate table: its kind is table"), "{error}");
}

#[test]
fn a_bad_version_leaves_the_old_one_open() {
    let disk = SimDisk::new();
    make_collection(&disk);
    publish(&disk, "docs", COLLECTION).unwrap();
    let reader = reader(&disk, "docs").unwrap();
    replace(&disk, "c", 2);
    let version = publish(&disk, "docs", COLLECTION).unwrap().version;
    let manifest = Path::new(CATALOG).join(version_object("docs", 2));
    let new = version.files.iter().find(|file| file.since == 2).unwrap();
    let object = Path::new(CATALOG).join(version.object(new));
    let (text, bytes) = (disk.files()[&manifest].clone(), disk.files()[&object].clone());
    let newer = String::from_utf8(text.clone()).unwrap().replace("\"format\": 1", "\"format\": 2");
    let (body, _) = newer.rsplit_once(",\n\"checksum\"").unwrap();
    let sum = xxhash_rust::xxh3::xxh3_64(body.as_bytes());
    let newer = format!("{body},\n\"checksum\": \"{sum:016x}\"\n}}\n").into_bytes();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 4;
    let bad: [(&Path, Option<&[u8]>, ErrorKind); 6] = [
        (&manifest, Some(&text[..text.len() / 2]), ErrorKind::Corrupt),
        (&manifest, Some(&newer), ErrorKind::UnsupportedVersion),
        (&manifest, Some(b""), ErrorKind::Corrupt),
        (&object, Some(&flipped), ErrorKind::Corrupt),
        (&object, Some(&bytes[..bytes.len() - 1]), ErrorKind::Corrupt),
        (&object, None, ErrorKind::NotFound),
    ];
    for (i, (path, damage, kind)) in bad.into_iter().enumerate() {
        disk.remove(path).unwrap();
        damage.into_iter().for_each(|damage| disk.write_raw(path, damage));
        assert_eq!(reader.refresh().unwrap_err().kind(), kind, "damage {i}");
        let stats = reader.stats();
        assert_eq!((stats.version, stats.failures), (1, i as u64 + 1));
        assert!(stats.last_error.is_some());
        reader.current().collection().unwrap().verify().unwrap();
        disk.write_raw(&manifest, &text);
        disk.write_raw(&object, &bytes);
    }
    assert!(reader.refresh().unwrap());
    assert_eq!((twos(&reader), reader.stats().last_error), (4, None));
}

#[test]
fn a_reader_skips_removed_versions() {
    let disk = SimDisk::new();
    make_collection(&disk);
    publish(&disk, "docs", COLLECTION).unwrap();
    let reader = reader(&disk, "docs").unwrap();
    for version in 2..6 {
        replace(&disk, "a", version);
        publish(&disk, "docs", COLLECTION).unwrap();
    }
    let options = CleanOptions { keep: 1, grace: Duration::ZERO, dry_run: false };
    clean_at(&catalog(&disk), "docs", &options, i64::MAX).unwrap();
    reader.current().collection().unwrap().verify().unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.current().version().number, 5);
}

#[test]
fn the_cache_size_is_bounded() {
    let disk = SimDisk::new();
    make_collection(&disk);
    let bytes = publish(&disk, "docs", COLLECTION).unwrap().version.bytes();
    let open = |cache_bytes| {
        let options = ReaderOptions { cache_bytes, ..ReaderOptions::default() };
        catalog(&disk).reader("docs", Path::new(CACHE), options)
    };
    assert_eq!(open(bytes - 1).err().unwrap().kind(), ErrorKind::InvalidArgument);
    let reader = open(bytes + 1).unwrap();
    replace(&disk, "a", 2);
    let second = publish(&disk, "docs", COLLECTION).unwrap();
    assert!(reader.refresh().unwrap_err().message().contains("are allowed"));
    drop(reader);
    let reader = open(bytes.max(second.version.bytes()) + second.bytes_sent).unwrap();
    assert_eq!(reader.current().version().number, 2);
}

/// A catalog behind a faulty network, and that network.
fn behind(disk: &Arc<SimDisk>, seed: u64) -> (Catalog, Arc<Faulty>) {
    let faulty = Arc::new(Faulty::new(disk, seed));
    (Catalog { origin: faulty.clone(), disk: disk.clone() as DiskRef }, faulty)
}

#[test]
fn fetched_bytes_are_not_fetched_again() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/tables")).unwrap();
    let options = BuildOptions { threads: 1, ..BuildOptions::default() };
    let path = Path::new(TABLE);
    let mut builder = TableBuilder::create_on(disk.clone() as DiskRef, path, options).unwrap();
    let mut state = 7u64;
    for n in 0..11_000u32 {
        let mut value = Vec::new();
        for _ in 0..125 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            value.extend_from_slice(&state.to_le_bytes());
        }
        builder.add(n.to_le_bytes(), &value).unwrap();
    }
    builder.finish().unwrap();
    let version = publish(&disk, "words", TABLE).unwrap().version;
    let file = &version.files[0];
    assert!(file.bytes > 10 << 20, "more than two pieces");
    // An attempt that was interrupted in the second piece.
    let bytes = disk.files()[path].clone();
    let part = format!("{CACHE}/.{}.part", file.blake3);
    disk.write_raw(&Path::new(CACHE).join(MARK), MARK_TEXT);
    disk.write_raw(Path::new(&part), &bytes[..5 << 20]);
    let (catalog, network) = behind(&disk, 1);
    let open = || catalog.reader("words", Path::new(CACHE), ReaderOptions::default());
    drop(open().unwrap());
    let fetched = network.bytes.load(Relaxed) as u64;
    assert!(fetched < file.bytes - (5 << 20) + 100_000, "{fetched} of {}", file.bytes);
    // A complete file is not fetched at all.
    drop(open().unwrap());
    assert!(network.bytes.load(Relaxed) as u64 - fetched < 100_000);
    // A part with other content is detected and replaced.
    disk.remove(&Path::new(CACHE).join(format!("{}.firn", file.blake3))).unwrap();
    disk.write_raw(Path::new(&part), &vec![1; 5 << 20]);
    open().unwrap().current().table().unwrap().get(7u32.to_le_bytes()).unwrap().unwrap();
}

#[test]
fn a_reader_starts_while_the_catalog_is_unavailable() {
    let disk = SimDisk::new();
    make_collection(&disk);
    publish(&disk, "docs", COLLECTION).unwrap();
    let (catalog, network) = behind(&disk, 1);
    drop(catalog.reader("docs", Path::new(CACHE), ReaderOptions::default()).unwrap());
    network.one_in.store(1, Relaxed);
    let mut outcomes = [0, 0];
    for _ in 0..20 {
        let reader = catalog.reader("docs", Path::new(CACHE), ReaderOptions::default()).unwrap();
        assert_eq!(reader.current().collection().unwrap().count(&all()).unwrap(), 12);
        outcomes[usize::from(reader.stats().last_error.is_some())] += 1;
    }
    assert!(outcomes[1] > 10, "{outcomes:?}");
    let nothing = catalog.reader("docs", Path::new("/other"), ReaderOptions::default());
    assert!(nothing.is_err());
}

#[test]
fn versions_are_atomic_over_a_faulty_origin() {
    for seed in 1..=12 {
        let disk = SimDisk::new();
        make_collection(&disk);
        publish(&disk, "docs", COLLECTION).unwrap();
        let (catalog, network) = behind(&disk, seed);
        let reader = catalog.reader("docs", Path::new(CACHE), ReaderOptions::default()).unwrap();
        network.one_in.store(7, Relaxed);
        let (mut failures, mut seen) = (0, 1);
        for round in 2..30 {
            replace(&disk, ["a", "b", "c"][round as usize % 3], round);
            let options = PublishOptions::default();
            let published = catalog.publish("docs", Path::new(COLLECTION), &options);
            failures += usize::from(published.is_err());
            let clean = CleanOptions { keep: 4, grace: Duration::ZERO, dry_run: false };
            let _ = clean_at(&catalog, "docs", &clean, i64::MAX);
            failures += usize::from(reader.refresh().is_err());
            let now = reader.current();
            assert!(now.version().number >= seen, "seed {seed}: back to an older version");
            seen = now.version().number;
            assert_eq!(now.collection().unwrap().count(&all()).unwrap(), 12);
            now.collection().unwrap().verify().unwrap();
            // Every existing version is complete, and acknowledged versions exist.
            let there = check_all(&disk, "docs").unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            if let Ok(published) = published {
                assert!(there.contains(&published.version.number), "seed {seed}: {there:?}");
            }
        }
        network.one_in.store(0, Relaxed);
        reader.refresh().unwrap();
        assert_eq!(reader.current().version().number, catalog.newest("docs").unwrap().number);
        assert!(failures > 5, "seed {seed}: {failures} failures prove little");
    }
}
