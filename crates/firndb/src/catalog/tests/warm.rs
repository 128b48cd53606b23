//! What a reader makes for a version before it becomes current, and versions that prove to be
//! damaged meanwhile.

use super::*;
use crate::ErrorKind;
use crate::catalog::format::{encode, version_object};
use crate::catalog::{CatalogReader, ReaderOptions, VersionFile};
use crate::disk::envelope::{Envelope, Kind};
use crate::search::query::{all, desc, gte};
use crate::search::{Query, section_id, section_part};
use crate::table::approx::format::section as approximate;
use crate::table::{ApproximateBuilder, ApproximateOptions};

const CACHE: &str = "/cache";

fn open(disk: &Arc<SimDisk>, name: &str, warm: Option<bool>) -> Result<CatalogReader> {
    let options = ReaderOptions::new().threads(1).warm(warm);
    catalog(disk).reader(name, Path::new(CACHE), options)
}

/// The number of partitions that are in bundles.
fn bundled(reader: &CatalogReader) -> u64 {
    let current = reader.current();
    let view = current.collection().unwrap().set.bundles.current();
    view.map_or(0, |view| view.bundled().0)
}

fn query(reader: &CatalogReader) {
    let query = Query::new(gte("version", 1)).order_by(desc("version")).limit(20);
    assert_eq!(reader.current().collection().unwrap().search(&query).unwrap().hits.len(), 12);
}

#[test]
fn a_refresh_makes_what_the_option_says() {
    for warm in [None, Some(true), Some(false)] {
        let disk = SimDisk::new();
        make_collection(&disk);
        publish(&disk, "docs", COLLECTION).unwrap();
        let reader = open(&disk, "docs", warm).unwrap();
        let next = |version| {
            replace(&disk, "b", version);
            publish(&disk, "docs", COLLECTION).unwrap();
            assert!(reader.refresh().unwrap());
            bundled(&reader)
        };
        let all = if warm == Some(true) { 3 } else { 0 };
        assert_eq!(bundled(&reader), all, "{warm:?}: after opening");
        assert_eq!(next(2), all, "{warm:?}: without queries");
        (0..10).for_each(|_| query(&reader));
        assert_eq!(bundled(&reader), 3);
        let kept = if warm == Some(false) { 0 } else { 3 };
        assert_eq!(next(3), kept, "{warm:?}: after queries");
        let memory = reader.current().collection().unwrap().bundle_memory();
        (0..10).for_each(|_| query(&reader));
        let after = reader.current().collection().unwrap().bundle_memory();
        assert!(warm == Some(false) || after == memory, "{warm:?}: queries have built bundles");
        let stats = reader.stats();
        assert!(stats.open_seconds > 0.0 && stats.warm_seconds >= 0.0 && stats.switched > 0);
        assert_eq!(stats.warm_seconds > 1e-6, warm != Some(false), "{stats:?}");
    }
}

#[test]
fn the_limit_of_bundles_holds_for_all_versions() {
    let disk = SimDisk::new();
    make_collection(&disk);
    publish(&disk, "docs", COLLECTION).unwrap();
    let options = ReaderOptions::new().warm(true).bundle_limit(0);
    let reader = catalog(&disk).reader("docs", Path::new(CACHE), options).unwrap();
    for version in 2..4 {
        (0..10).for_each(|_| query(&reader));
        assert_eq!(reader.current().collection().unwrap().bundle_memory(), 0);
        replace(&disk, "b", version);
        publish(&disk, "docs", COLLECTION).unwrap();
        assert!(reader.refresh().unwrap());
    }
}

#[test]
fn metrics_have_the_age_of_the_open_version() {
    let disk = SimDisk::new();
    make_table(&disk, 1);
    publish(&disk, "words", TABLE).unwrap();
    let reader = open(&disk, "words", Some(true)).unwrap();
    let value = |name: &str| {
        let metrics = reader.stats().metrics();
        metrics.iter().find(|metric| metric.name == name).unwrap().value
    };
    let first = value("firndb_catalog_swap_age_seconds");
    assert!((0.0..60.0).contains(&first), "{first}");
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert!(value("firndb_catalog_swap_age_seconds") > first);
    assert!(value("firndb_catalog_open_seconds") > 0.0);
    let switched = reader.stats().switched;
    make_table(&disk, 2);
    publish(&disk, "words", TABLE).unwrap();
    assert!(reader.refresh().unwrap() && reader.stats().switched > switched);
    let switched = reader.stats().switched;
    assert!(!reader.refresh().unwrap());
    assert_eq!(reader.stats().switched, switched, "there was no newer version");
    assert_eq!(value("firndb_catalog_warm_seconds"), reader.stats().warm_seconds);
}

/// Damages the section `id` of the file that is new in a version, and gives the manifest the BLAKE3
/// of the result: as if the machine of the publisher had damaged it.
fn damage_new_file(disk: &Arc<SimDisk>, version: &Version, kind: Kind, id: u32) {
    let is_kind = |file: &&VersionFile| {
        let bytes = &disk.files()[&Path::new(CATALOG).join(version.object(file))];
        file.since == version.number && bytes[8..12] == (kind as u32).to_le_bytes()
    };
    let file = version.files.iter().find(is_kind).unwrap();
    let path = Path::new(CATALOG).join(version.object(file));
    let envelope = Envelope::open(disk.map(&path).unwrap(), &path, kind).unwrap();
    let entry = envelope.entry(envelope.find(id).unwrap());
    let mut bytes = disk.files()[&path].clone();
    bytes[(entry.offset + entry.len / 2) as usize] ^= 4;
    let mut forged = version.clone();
    let name = file.name.clone();
    let file = forged.files.iter_mut().find(|file| file.name == name).unwrap();
    file.blake3 = blake3::hash(&bytes).to_hex().to_string();
    let object = Path::new(CATALOG).join(version.object(file));
    disk.write_raw(&object, &bytes);
    let manifest = Path::new(CATALOG).join(version_object(&version.name, version.number));
    disk.remove(&manifest).unwrap();
    disk.write_raw(&manifest, encode(&forged).as_bytes());
}

#[test]
fn a_damaged_partition_leaves_the_old_version_open() {
    let keys = section_id(0, section_part::KEYS);
    for warm in [None, Some(true), Some(false)] {
        let disk = SimDisk::new();
        make_collection(&disk);
        publish(&disk, "docs", COLLECTION).unwrap();
        let reader = open(&disk, "docs", warm).unwrap();
        (0..10).for_each(|_| query(&reader));
        replace(&disk, "b", 2);
        let version = publish(&disk, "docs", COLLECTION).unwrap().version;
        damage_new_file(&disk, &version, Kind::Partition, keys);
        if warm == Some(false) {
            assert!(reader.refresh().unwrap());
            continue;
        }
        for failures in 1..3 {
            let error = reader.refresh().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{warm:?}: {error}");
            let stats = reader.stats();
            assert_eq!((stats.version, stats.newest, stats.failures), (1, 2, failures));
            assert!(stats.last_error.unwrap().contains("checksum of section"));
            assert_eq!(reader.current().collection().unwrap().count(&all()).unwrap(), 12);
            reader.current().collection().unwrap().verify().unwrap();
        }
        // A reader that is started again gets the version that it had.
        drop(reader);
        let reader = open(&disk, "docs", Some(true)).unwrap();
        assert_eq!((reader.stats().version, reader.stats().failures), (1, 1));
        replace(&disk, "b", 3);
        publish(&disk, "docs", COLLECTION).unwrap();
        assert!(reader.refresh().unwrap());
        assert_eq!((reader.stats().version, reader.stats().last_error), (3, None));
    }
}

/// The functions of an approximate table are verified before it becomes current, if lookups have
/// used those of the version before or all is to be warm.
#[test]
fn a_damaged_approximate_table_leaves_the_old_version_open() {
    let path = Path::new("/words.approx");
    let build = |disk: &Arc<SimDisk>, add: u8| {
        let options = ApproximateOptions::new().value_width(1).threads(1);
        let mut builder =
            ApproximateBuilder::create_on(disk.clone() as DiskRef, path, options).unwrap();
        (0..20u8).for_each(|n| builder.add([n], [n + add]).unwrap());
        builder.finish().unwrap();
        publish(disk, "words", "/words.approx").unwrap().version
    };
    for (warm, lookup, refused) in [
        (None, false, false),
        (None, true, true),
        (Some(true), false, true),
        (Some(false), true, false),
    ] {
        let disk = SimDisk::new();
        build(&disk, 1);
        let reader = open(&disk, "words", warm).unwrap();
        if lookup {
            reader.current().approximate_table().unwrap().get([7]).unwrap();
        }
        let version = build(&disk, 2);
        damage_new_file(&disk, &version, Kind::ApproximateTable, approximate::PILOTS);
        let case = format!("{warm:?}, {lookup}");
        match reader.refresh() {
            Ok(switched) => assert!(switched && !refused, "{case}"),
            Err(error) => assert!(refused && error.kind() == ErrorKind::Corrupt, "{case}: {error}"),
        }
        let get = reader.current().approximate_table().unwrap().get([7]);
        assert_eq!(get.is_ok(), refused, "{case}");
    }
}
