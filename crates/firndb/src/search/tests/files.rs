//! Readers of partition files without a collection.

use crate::ErrorKind;
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::search::model::query::{all, desc};
use crate::search::{Document, Field, PartitionBuilder, Query, Reader, Roles, Schema, Type};
use std::path::Path;
use std::sync::Arc;

const PATHS: [&str; 3] = ["/2023/p.firn", "/2024/p.firn", "/2024/q.firn"];

/// A disk with the files at `PATHS`, of 10 documents each.
fn disk() -> Arc<SimDisk> {
    let disk = SimDisk::new();
    for (first, path) in (0u64..).step_by(10).zip(PATHS) {
        let path = Path::new(path);
        let schema = Schema::new([Field::new("n", Type::U64, Roles::FULL)]).unwrap();
        let mut builder = PartitionBuilder::new(schema);
        for n in first..first + 10 {
            builder.add(&Document::new().set("n", n / 4)).unwrap();
        }
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        builder.write_on(&(disk.clone() as DiskRef), path).unwrap();
    }
    disk
}

#[test]
fn pages_over_files_with_the_same_name_are_complete() {
    let disk = disk();
    let reader = Reader::open_files_on(&*disk, &PATHS.map(Path::new)).unwrap();
    let names: Vec<String> = reader.partitions().into_iter().map(|part| part.name).collect();
    assert_eq!(names, ["/2023/p.firn", "/2024/p.firn", "q.firn"]);
    for query in [Query::new(all()), Query::new(all()).order_by(desc("n"))] {
        let whole = reader.search(&query).unwrap().hits;
        let (mut paged, mut next) = (Vec::new(), query.clone().limit(3));
        loop {
            let page = reader.search(&next).unwrap().hits;
            let Some(&last) = page.last() else { break };
            paged.extend(page);
            next = next.after(reader.page_token(&query, last).unwrap());
        }
        assert_eq!(whole.len(), 30);
        assert_eq!(paged, whole, "{query}");
    }
}

#[test]
fn a_file_given_twice_is_refused() {
    let twice = [PATHS[0], PATHS[1], PATHS[0]].map(Path::new);
    let error = Reader::open_files_on(&*disk(), &twice).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.file(), Some(twice[0]));
}
