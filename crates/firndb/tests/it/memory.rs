//! The memory of a builder, as the kernel counts it: a child process builds partitions of several
//! shapes, and its peak memory stays within the bounds of `PartitionBuilder::memory_limit`.

use super::TestDir;
use firndb::ErrorKind;
use firndb::search::{Document, Field, PartitionBuilder, Roles, Schema, Type};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LIMIT: u64 = 24 << 20;
/// Memory of the allocator, the threads and the code, apart from the documents.
const SLACK: u64 = 3 << 20;
/// Additional memory when the buffer of the file grows to its final 2 MiB.
const BUFFER: u64 = 3 << 20;

/// A kind of documents: its name, the schema, document number `n`, and the size of the largest
/// field of `n` documents: values, distinct keys, and bytes of all distinct keys, including points.
type Shape = (&'static str, fn() -> Schema, fn(u64) -> Document, fn(u64) -> (u64, u64, u64));

const SHAPES: [Shape; 6] = [
    (
        "numbers",
        || one(Type::U64, false),
        |n| Document::new().set("a", n.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        |n| (n, n, 0),
    ),
    (
        "words",
        || one(Type::String, false),
        |n| Document::new().set("a", format!("the word number {n:010}")),
        |n| (n, n, n * 26),
    ),
    (
        "few values",
        || one(Type::U64, true),
        |n| {
            let mut document = Document::new();
            (0..20).for_each(|i| document.push("a", (n + i) % 50));
            document
        },
        |n| (20 * n, 50, 0),
    ),
    (
        "fields",
        || Schema::new(NAMES.map(|name| Field::new(name, Type::U64, Roles::FULL))).unwrap(),
        |n| NAMES.into_iter().zip(1..).fold(Document::new(), |d, (f, i)| d.set(f, n * i % 100_003)),
        |n| (n, n.min(100_003), 0),
    ),
    (
        "points",
        || {
            let fields = ["a", "b"].map(|name| Field::new(name, Type::U64, Roles::FILTERABLE));
            Schema::new(fields).unwrap().point("a", "b").unwrap()
        },
        |n| Document::new().set("a", n * 7_919 % 100_003).set("b", n * n % 99_991),
        |n| (n, n.min(100_003), 20 * n),
    ),
    (
        "payloads",
        || one(Type::U64, false),
        |n| Document::new().set("a", n % 7).payload(vec![n as u8; 20_000]),
        |n| (n, 7, 0),
    ),
];

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// The number of documents with payloads, which never reach the limit because payloads spill.
const PAYLOADS: u64 = 4_000;

fn one(ty: Type, multi: bool) -> Schema {
    let field = Field::new("a", ty, Roles::FULL);
    Schema::new([if multi { Field::new("a", ty, Roles::FILTERABLE).multi() } else { field }])
        .unwrap()
}

/// The anonymous memory of this process. Pages of mapped files do not count: the kernel can reclaim
/// them.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

static PEAK: AtomicU64 = AtomicU64::new(0);

fn watch(done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        PEAK.fetch_max(resident(), Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
#[ignore = "started by builders_stay_within_their_memory_limit"]
fn build_in_a_child() {
    let shape = std::env::var("SHAPE").unwrap();
    let (_, schema, document, largest) = SHAPES.into_iter().find(|s| s.0 == shape).unwrap();
    let temp = TestDir::new();
    let (base, done) = (resident(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&done));
        let mut builder =
            PartitionBuilder::new(schema()).memory_limit(LIMIT as usize).temp_dir(&temp.0);
        let mut n = 0;
        while n < PAYLOADS || shape != "payloads" {
            if let Err(error) = builder.add(&document(n)) {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                break;
            }
            n += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
        let adding = PEAK.swap(0, Ordering::Relaxed) - base;
        let memory = builder.memory() as u64;
        builder.write(temp.path("part.firn")).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        done.store(true, Ordering::Relaxed);
        let writing = PEAK.load(Ordering::Relaxed) - base;
        println!("{shape}: {n} documents, memory() {memory}; adding {adding}, writing {writing}");
        assert!(memory <= LIMIT + 1000, "more than a document beyond the limit");
        assert!(adding <= LIMIT + SLACK, "adding took more than the limit");
        let (values, keys, bytes) = largest(n);
        let top = 8 * values + 24 * keys + bytes;
        assert!(writing <= memory + top + BUFFER + SLACK, "writing took more than {top} on top");
        assert!(shape == "payloads" || memory > LIMIT / 3, "the limit was not approached");
        // `memory()` must match the real use, or this test would measure nothing.
        assert!(adding + SLACK > memory - memory / 8, "`memory()` reports more than is used");
    });
}

#[test]
fn builders_stay_within_their_memory_limit() {
    for (shape, ..) in SHAPES {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["memory::build_in_a_child", "--exact", "--ignored", "--nocapture"])
            .env("SHAPE", shape)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && text.contains(": "), "{shape}");
    }
}
