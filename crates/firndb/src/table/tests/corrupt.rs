//! Small tables with each byte damaged in three ways, and truncated to every length. Every answer
//! is right, or an error of a fitting kind, in every access mode.

use super::*;
use crate::ErrorKind;
use crate::table::{Compression, KeyFilter, Order};
use crate::testing::Rng;
use std::ops::ControlFlow;
use std::path::PathBuf;

const SEED: u64 = 0xBAD_7AB1E;

/// Numbers of results from damaged tables.
#[derive(Debug, Default)]
struct Tally {
    tables: u64,
    right: u64,
    errors: u64,
}

/// A table, its records, and the results so far.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    records: Records,
    tally: Tally,
}

fn case(name: &'static str, n: usize, value: usize, options: BuildOptions) -> Case {
    let record = |i: usize| {
        let value = format!("value {} of {i} ", i % 3).repeat(value).into_bytes();
        (format!("key {i:02}").into_bytes(), value)
    };
    let records: Records = (0..n).map(record).collect();
    let options = BuildOptions {
        metadata: b"about this table".to_vec(),
        value_schema: "text".into(),
        ..options
    };
    let bytes = bytes_of(options, &records);
    assert_fast(name, &bytes, &records);
    Case { name, bytes, records, tally: Tally::default() }
}

/// Tables of every kind, small enough to damage every byte.
fn cases() -> Vec<Case> {
    let of = |compression, filter| BuildOptions { compression, filter, ..BuildOptions::default() };
    let (none, level, order) = (Compression::None, 3, Order::Key);
    let blocks = Compression::Blocks { level };
    vec![
        case("paged", 40, 2, of(none, KeyFilter::Bits16)),
        case("packed", 14, 10, of(none, KeyFilter::None)),
        case("packed, filter", 9, 25, of(none, KeyFilter::Bits8)),
        case("records", 30, 20, of(Compression::Records { level }, KeyFilter::None)),
        case("blocks", 30, 20, of(Compression::Blocks { level }, KeyFilter::Bits8)),
        case("indexed", 9, 40, of(none, KeyFilter::None)),
        case("long", 2, 320, of(none, KeyFilter::None)),
        case("ordered", 60, 6, BuildOptions { order, ..of(none, KeyFilter::None) }),
        case("ordered, filter", 30, 5, BuildOptions { order, ..of(none, KeyFilter::Bits8) }),
        case("ordered blocks", 40, 20, BuildOptions { order, ..of(blocks, KeyFilter::None) }),
        case("empty", 0, 0, of(none, KeyFilter::Bits8)),
    ]
}

impl Case {
    /// Reads a damaged table in every way.
    fn check_damaged(&mut self, disk: &DiskRef, accesses: &[Access], damage: &dyn Fn() -> String) {
        self.tally.tables += 1;
        for &access in accesses {
            let name = self.name;
            let label = || format!("{name}, {access:?}, {}", damage());
            let Some(table) = self.accept(open(disk, access), |_| true, &label) else { continue };
            // Every fourth record, starting at another one each time. All of them would take
            // minutes.
            for i in (self.tally.tables as usize % 4..self.records.len()).step_by(4) {
                let (key, value) = self.records[i].clone();
                self.accept(table.get(&key), |got| got.as_deref() == Some(&value), &label);
                self.accept(table.contains(&key), |there| *there, &label);
            }
            for absent in [&b"key"[..], b"", b"key 99", b"other"] {
                self.accept(table.get(absent), |got| got.is_none(), &label);
            }
            let keys: Vec<Vec<u8>> = self.records.iter().map(|(key, _)| key.clone()).collect();
            let records = self.records.clone();
            let all = |got: &Vec<Option<std::borrow::Cow<[u8]>>>| {
                got.iter().zip(&records).all(|(got, (_, value))| got.as_deref() == Some(value))
            };
            self.accept(table.get_many(&keys), all, &label);
            let (mut right, mut wrong) = (0, 0);
            let read = table.read_many(&keys, |i, value| -> Result<()> {
                let is_right = value == Some(&records[i].1);
                *(if is_right { &mut right } else { &mut wrong }) += 1;
                Ok(())
            });
            self.accept(read, |()| right == records.len(), &label);
            assert_eq!(wrong, 0, "handed over before the error: {}", label());
            let collected: Result<Records> = table.iter().collect();
            let sorted = |mut all: Records| {
                all.sort();
                all
            };
            self.accept(collected, |got| sorted(got.clone()) == sorted(records.clone()), &label);
            if table.is_ordered() {
                self.check_ranges(&table, &label);
            }
            // Blocks have been checked, so the index may be used now.
            for (key, value) in records.iter().step_by(3) {
                self.accept(table.get(key), |got| got.as_deref() == Some(value), &label);
                self.accept(table.get(&key[1..]), |got| got.is_none(), &label);
            }
            self.accept(table.metadata(), |got| *got == b"about this table", &label);
            self.accept(table.value_schema(), |got| *got == "text", &label);
            self.accept(table.verify(), |_| true, &label);
        }
    }

    /// Reads ranges of a damaged table in both directions.
    fn check_ranges(&mut self, table: &Table, label: &dyn Fn() -> String) {
        let records = self.records.clone();
        let third = records.len() / 3;
        let from = records.get(third).map(|record| record.0.clone()).unwrap_or_default();
        let forward = table.range(&from[..]..).and_then(Iterator::collect::<Result<Records>>);
        self.accept(forward, |got| got[..] == records[third..], label);
        let backward = table.range(..&from[..]).map(|range| range.reversed());
        let backward = backward.and_then(Iterator::collect::<Result<Records>>);
        self.accept(backward, |got| got.iter().eq(records[..third].iter().rev()), label);
    }

    /// Asserts that a result is right, or an error of a fitting kind.
    fn accept<T>(
        &mut self,
        answer: Result<T>,
        right: impl Fn(&T) -> bool,
        label: &dyn Fn() -> String,
    ) -> Option<T> {
        match answer {
            Ok(answer) => {
                assert!(right(&answer), "{}: wrong answer", label());
                self.tally.right += 1;
                Some(answer)
            }
            Err(e) => {
                let apt = [ErrorKind::Corrupt, ErrorKind::UnsupportedVersion];
                assert!(apt.contains(&e.kind()), "{}: {e:?}", label());
                assert!(e.file().is_some(), "{}: no file in {e:?}", label());
                self.tally.errors += 1;
                None
            }
        }
    }

    fn report(&self, what: &str) {
        println!("{}, {} bytes, {what}: {:?}", self.name, self.bytes.len(), self.tally);
        assert!(self.tally.errors > 0);
    }
}

const IN_MEMORY: [Access; 3] = [Access::Map, Access::Resident, Access::Buffered];

#[test]
fn undamaged_tables_cause_no_error() {
    for mut case in cases() {
        case.check_damaged(&disk_with(&case.bytes.clone()), &IN_MEMORY, &|| "whole".into());
        assert_eq!(case.tally.errors, 0);
    }
}

#[test]
fn damaged_bytes_never_cause_a_wrong_answer() {
    let mut rng = Rng(SEED);
    for mut case in cases() {
        let mut damaged = case.bytes.clone();
        for at in 0..damaged.len() {
            let old = damaged[at];
            for new in [old ^ 0xFF, 0, old ^ 1 << rng.below(8)] {
                // Long runs of zeros in page-aligned tables are alike; every 37th byte suffices.
                if new == old || (old == 0 && damaged.len() > 8000 && at % 37 > 0) {
                    continue;
                }
                damaged[at] = new;
                let access = IN_MEMORY[rng.below(3)];
                case.check_damaged(&disk_with(&damaged), &[access], &|| {
                    format!("byte {at}: {old}, {new}")
                });
            }
            damaged[at] = old;
        }
        case.report("bytes");
    }
}

#[test]
fn tables_of_wrong_length_are_refused() {
    for mut case in cases() {
        let whole = case.bytes.clone();
        for len in 0..whole.len() {
            let access = IN_MEMORY[len % 3];
            case.check_damaged(&disk_with(&whole[..len]), &[access], &|| {
                format!("cut to {len} bytes")
            });
        }
        for more in [1, 64, 4096] {
            let longer = [&whole[..], &vec![0; more]].concat();
            case.check_damaged(&disk_with(&longer), &IN_MEMORY, &|| format!("{more} bytes more"));
        }
        assert_eq!(case.tally.right, 0, "a table of another length was opened");
        case.report("lengths");
    }
}

#[test]
fn damage_under_direct_reads_never_causes_a_wrong_answer() {
    let mut rng = Rng(SEED);
    for mut case in cases() {
        let Some(dir) = super::direct::TempDir::new() else { return };
        let path = dir.0.join(FILE);
        for _ in 0..60 {
            let mut damaged = case.bytes.clone();
            let at = rng.below(damaged.len());
            let old = std::mem::replace(&mut damaged[at], rng.next() as u8);
            std::fs::write(&path, &damaged).unwrap();
            let damage = || format!("byte {at}, which was {old}");
            let name = case.name;
            let opened = Table::open_with(&path, Access::Direct);
            let label = || format!("{name}, Direct, {}", damage());
            let Some(table) = case.accept(opened, |_| true, &label) else { continue };
            for (key, value) in case.records.clone() {
                case.accept(table.get(&key), |got| got.as_deref() == Some(&value), &label);
                let right = |got: &Vec<Option<std::borrow::Cow<[u8]>>>| {
                    got[0].as_deref() == Some(&value) && got[1].is_none()
                };
                case.accept(table.get_many(&[&key, &b"absent"[..].to_vec()]), right, &label);
            }
            if table.is_ordered() {
                case.check_ranges(&table, &label);
            }
        }
        println!("{}: {:?}", case.name, case.tally);
    }
}

/// A record that is damaged in a temporary file is not lost silently.
#[test]
fn damaged_temporary_file_fails_the_build() {
    let records: Records =
        (0..150u32).map(|i| (format!("key {i}").into_bytes(), vec![i as u8; 50])).collect();
    // Partitions are read back whole; or split again, because 64 threads have too little memory
    // each.
    for (threads, step) in [(1, 11), (64, 23)] {
        let options = BuildOptions { memory_limit: 1_000, threads, ..BuildOptions::default() };
        let disk = SimDisk::new();
        let begin = || {
            let disk: DiskRef = disk.clone();
            let mut builder =
                TableBuilder::create_on(disk, Path::new(FILE), options.clone()).unwrap();
            for (key, value) in &records {
                builder.add(key, value).unwrap();
            }
            builder
        };
        assert!(begin().finish().unwrap().spilled > 8_000);
        let whole = disk.files().remove(Path::new(FILE)).unwrap();
        let mut damaged = 0;
        for at in (0..).step_by(step) {
            let builder = begin();
            let is_spill = |path: &&PathBuf| is_unnamed(path);
            let files = disk.files();
            let file = files.keys().find(is_spill).unwrap();
            if files[file].len() <= at {
                break;
            }
            disk.damage(file, at);
            assert_eq!(builder.finish().unwrap_err().kind(), ErrorKind::Corrupt, "byte {at}");
            let files = disk.files();
            assert!(files.len() == 1 && files[Path::new(FILE)] == whole, "byte {at}");
            damaged += 1;
        }
        assert!(damaged * step > 4_000, "{damaged} of each {step} bytes, {threads} threads");
    }
}

/// The index entries are spooled to another temporary file.
#[test]
fn damaged_index_spool_fails_the_build() {
    let key = |i: u32| format!("key {i}").into_bytes();
    let options = BuildOptions { memory_limit: 1_000, threads: 1, ..BuildOptions::default() };
    let disk = SimDisk::new();
    // Damages a byte of the newest temporary file once all records have been sorted.
    let build = |at: Option<usize>| {
        let mut builder =
            TableBuilder::create_on(disk.clone(), Path::new(FILE), options.clone()).unwrap();
        (0..300).for_each(|i| builder.add(key(i), [i as u8; 900]).unwrap());
        let mut seen = 0;
        let built = builder.finish_with(|progress| {
            let files = disk.files();
            let spills = files.iter().filter(|(path, _)| is_unnamed(path));
            let (path, bytes) =
                spills.max_by_key(|(path, _)| (path.as_os_str().len(), *path)).unwrap();
            if progress.done == progress.total && seen == 0 {
                seen = bytes.len();
                at.filter(|at| at < &seen).into_iter().for_each(|at| disk.damage(path, at));
            }
            ControlFlow::Continue(())
        });
        (built.map(|_| ()).map_err(|e| e.kind()), seen)
    };
    let (built, len) = build(None);
    assert!(built.is_ok() && (4_000..300 * 16).contains(&len), "{len} bytes of pointers");
    let whole = disk.files();
    for at in (0..len).step_by(59) {
        assert_eq!(build(Some(at)), (Err(ErrorKind::Corrupt), len), "byte {at}");
        assert!(disk.files() == whole, "byte {at}");
    }
    assert!(build(None).0.is_ok());
}

/// Whether the simulated disk shows a file without a name like this.
pub(crate) fn is_unnamed(path: &Path) -> bool {
    path.to_string_lossy().contains("(unnamed file ")
}
