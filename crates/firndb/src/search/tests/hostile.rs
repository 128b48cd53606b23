//! Random damage with valid checksums, as an attacker would make it: no panic, no hang, no huge
//! allocation. The answers are unspecified.
//!
//! A child process reads the damaged collections, so that the test can measure its memory and limit
//! its time.

use super::sample_files::{Files, answers, files, large_files};
use crate::bytes::testing::{Forged, damage};
use crate::disk::envelope::{Kind, kind_of};
use crate::search::format::global;
use crate::testing::{Rng, memory, run_child};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

const SEED: u64 = 0x0905_711E;
const DAMAGES: u64 = 6_000;
/// Larger partitions: their number of documents, and how often each is damaged.
const LARGE: [(u64, u64); 2] = [(5_000, 1_500), (66_000, 60)];
const MEMORY_KIB: u64 = 256 << 10;

/// Recomputes all checksums, including those of the payloads. Returns the old and the new content
/// ID.
fn seal(file: &mut Forged) -> (Vec<u8>, Vec<u8>) {
    let payloads = file.find(global::PAYLOADS).zip(file.find(global::CHECKS));
    if let Some((data, check)) = payloads.filter(|(_, check)| check.len() == 8)
        && file.kind() == Kind::Partition as u32
    {
        let sum = xxh3_64(&file.0[data]);
        file.0[check].copy_from_slice(&sum.to_le_bytes());
    }
    file.seal()
}

/// Damages one section of one file. Returns all files, and a description of the damage.
fn forge(rng: &mut Rng, files: &Files) -> (Files, String) {
    let mut files = files.clone();
    let paths: Vec<PathBuf> = files.keys().cloned().collect();
    let path = rng.pick(&paths).clone();
    let mut file = Forged(files[&path].clone());
    let i = rng.below(file.entries());
    let section = file.section(i);
    damage(rng, &mut file.0[section]);
    let (old, new) = seal(&mut file);
    let label = format!("{}, section {:#x}", path.display(), file.id(i));
    files.insert(path, file.0);
    update_content_id(&mut files, &old, &new);
    (files, label)
}

/// Replaces the content ID of a file in the set that lists it.
fn update_content_id(files: &mut Files, old: &[u8], new: &[u8]) {
    for bytes in files.values_mut() {
        if kind_of(bytes).unwrap().0 != Kind::PartitionSet as u32 {
            continue;
        }
        let mut set = Forged(std::mem::take(bytes));
        let end = set.entry(0);
        if let Some(at) = set.0[..end].windows(old.len()).position(|window| window == old) {
            set.0[at..at + new.len()].copy_from_slice(new);
            seal(&mut set);
        }
        *bytes = set.0;
    }
}

/// Reads damaged collections and records the outcomes.
struct ForgedReads {
    rng: Rng,
    /// Peak memory before the first read, in KiB.
    before: Option<u64>,
    answered: usize,
    refused: usize,
    longest: Duration,
}

impl ForgedReads {
    fn read(&mut self, whole: &Files, damages: u64) {
        for n in 0..damages {
            let (files, label) = forge(&mut self.rng, whole);
            let label = format!("damage {n} of {SEED:#x}: {label}");
            let start = Instant::now();
            let answers = catch_unwind(AssertUnwindSafe(|| answers(&files)));
            let answers = answers.unwrap_or_else(|_| panic!("{label}"));
            self.longest = self.longest.max(start.elapsed());
            assert!(self.longest < Duration::from_secs(10), "{label}: a hang");
            let ok = answers.iter().filter(|answer| answer.is_ok()).count();
            self.answered += ok;
            self.refused += answers.len() - ok;
            let grown = memory("VmPeak:").zip(self.before).map_or(0, |(now, before)| now - before);
            assert!(grown < MEMORY_KIB, "{label}: {grown} KiB");
        }
    }
}

/// Runs in the process that `forged_files_cause_no_panic_hang_or_large_allocation` starts.
#[test]
#[ignore = "started by forged_files_cause_no_panic_hang_or_large_allocation"]
fn read_forged_files() {
    let whole = files();
    assert!(answers(&whole).iter().all(|answer| answer.is_ok()));
    let mut same = whole.clone();
    let mut forged = Forged(same.values().next().unwrap().clone());
    let (old, new) = seal(&mut forged);
    assert!(old == new, "sealing an undamaged file changes nothing");
    update_content_id(&mut same, &old, &new);
    assert!(same == whole);

    let mut reads = ForgedReads {
        rng: Rng(SEED),
        before: memory("VmPeak:"),
        answered: 0,
        refused: 0,
        longest: Duration::ZERO,
    };
    reads.read(&whole, DAMAGES);
    for (documents, damages) in LARGE {
        reads.read(&large_files(documents), damages);
    }
    let ForgedReads { before, answered, refused, longest, .. } = reads;
    let grown = memory("VmPeak:").zip(before).map(|(now, before)| now - before);
    let block = std::hint::black_box(vec![0u8; (MEMORY_KIB as usize) << 10]);
    let seen = memory("VmPeak:").zip(grown).is_none_or(|(now, _)| now > before.unwrap());
    assert!(seen, "an allocation of {} bytes was not noticed", block.len());
    println!("{DAMAGES} damages and {LARGE:?}, {answered} answers, {refused} errors, no panic");
    println!("longest {longest:?}, {grown:?} KiB of additional memory");
    assert!(answered > 0 && refused > 0);
}

#[test]
fn forged_files_cause_no_panic_hang_or_large_allocation() {
    run_child("search::tests::hostile::read_forged_files");
}
