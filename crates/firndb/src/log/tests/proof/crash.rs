//! Power cuts at every operation of every workload, and at every operation of the recovery after
//! it.

use super::oracle::{History, State, check, open_at};
use super::work::Run;
use super::workloads::{ALL, Workload};
use super::{DIR, NOW, setting};
use crate::disk::SimDisk;
use crate::log::failpoints::active;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Images of each kind per power cut.
const MIXED: usize = 8;
const SECTORS: usize = 14;
/// One in this many images is also crashed during its recovery.
const AGAIN: u64 = 97;

/// One sweep over a workload.
pub(crate) struct Sweep<'a> {
    pub(crate) workload: Workload,
    pub(crate) seed: u64,
    /// Called on each disk before the work begins.
    pub(crate) prepare: &'a dyn Fn(&SimDisk),
}

/// Counts of a sweep: images that were opened and checked, `nested` of them during recoveries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) operations: u64,
    pub(crate) images: u64,
    pub(crate) nested: u64,
}

impl Sweep<'_> {
    fn run(&self, cut: Option<usize>) -> (Arc<SimDisk>, Run) {
        active::STORE.set(Some(super::store_id(self.seed)));
        super::choose_access(self.seed);
        let disk = SimDisk::new();
        if self.seed % 4 >= 2 {
            disk.reserve_nothing(); // Then records are written with `write`, not through a map.
        }
        (self.prepare)(&disk);
        if let Some(cut) = cut {
            disk.crash_at(cut);
        }
        let mut run = Run::begin(&disk, self.seed, false);
        (self.workload.1)(&mut run);
        (disk, run)
    }

    /// Cuts the power before every operation. Ends at the first wrong image.
    pub(crate) fn go(&self) -> Result<Counts, String> {
        let (disk, run) = self.run(None);
        if let Some(wrong) = run.wrong {
            return Err(format!("{}, seed {}: {wrong}", self.workload.0, self.seed));
        }
        drop(run.end());
        let operations = disk.ops();
        let mut counts = Counts { operations: operations as u64, ..Counts::default() };
        let mut seen = HashSet::new();
        for cut in 0..=operations {
            let (disk, run) = self.run(Some(cut));
            let history = run.end();
            // A process crash alone loses nothing.
            let mut images = vec![("process killed".to_string(), disk.fork())];
            images.extend(disk.images(self.seed, MIXED));
            images.extend(disk.sector_images(self.seed, SECTORS));
            for (label, image) in images {
                // An image that was right stays right after more writes, unless more of them are
                // durable.
                let ids = |state: &State| state.map(|entry| entry.id);
                let backups: Vec<_> = history.backups.iter().map(ids).collect();
                if !seen.insert((image.digest(), history.durable, backups, history.now)) {
                    continue;
                }
                let label = format!("{}, seed {}, {label}", self.workload.0, self.seed);
                counts.images += 1;
                if counts.images % AGAIN == self.seed % AGAIN {
                    counts.nested += self.crash_again(&label, &image, &history)?;
                }
                check(&image, &history, counts.images).map_err(|e| format!("{label}: {e}"))?;
            }
        }
        counts.images += counts.nested;
        Ok(counts)
    }

    /// Cuts the power at every operation of an opening and closing.
    fn crash_again(&self, label: &str, at: &SimDisk, history: &History) -> Result<u64, String> {
        NOW.set(history.now);
        let work = |cut: Option<usize>| {
            let disk = at.fork();
            if let Some(cut) = cut {
                disk.crash_at(cut);
            }
            let _ = open_at(&disk, DIR).and_then(|store| store.close());
            disk
        };
        let mut images = 0;
        for cut in 0..work(None).ops() {
            for (again, image) in work(Some(cut)).images(self.seed, 4) {
                images += 1;
                check(&image, history, images)
                    .map_err(|e| format!("{label}, then during recovery {again}: {e}"))?;
            }
        }
        Ok(images)
    }
}

/// Sweeps all workloads with growing seeds until each has its share of `images`.
fn sweep_all(images: u64) -> Result<BTreeMap<&'static str, Counts>, String> {
    let share = images.div_ceil(ALL.len() as u64);
    let next = AtomicUsize::new(0);
    let table = Mutex::new(BTreeMap::new());
    let failure = Mutex::new(None);
    let work = || {
        while let Some(&workload) = ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut sum = Counts::default();
            for seed in setting("FIRNDB_CRASH_SEED", 1).. {
                match (Sweep { workload, seed, prepare: &|_| {} }).go() {
                    Ok(counts) => {
                        sum.operations += counts.operations;
                        sum.images += counts.images;
                        sum.nested += counts.nested;
                    }
                    Err(e) => {
                        failure.lock().unwrap().get_or_insert(e);
                        return;
                    }
                }
                if sum.images >= share {
                    break;
                }
            }
            table.lock().unwrap().insert(workload.0, sum);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    match failure.into_inner().unwrap() {
        Some(e) => Err(e),
        None => Ok(table.into_inner().unwrap()),
    }
}

/// `FIRNDB_CRASH_IMAGES` sets the number of images (the full proof has 50,000), `FIRNDB_CRASH_SEED`
/// the seed.
#[test]
fn a_power_cut_anywhere_leaves_a_prefix_with_all_durable_writes() {
    let wanted = setting("FIRNDB_CRASH_IMAGES", 50_000);
    let started = Instant::now();
    let table = sweep_all(wanted).unwrap_or_else(|e| panic!("{e}"));
    let total = AtomicU64::new(0);
    println!("{:<36} {:>10} {:>10} {:>10}", "workload", "operations", "images", "recovering");
    for (name, counts) in &table {
        println!(
            "{name:<36} {:>10} {:>10} {:>10}",
            counts.operations, counts.images, counts.nested
        );
        total.fetch_add(counts.images, Ordering::Relaxed);
    }
    let (total, seconds) = (total.into_inner(), started.elapsed().as_secs_f64());
    println!(
        "crash: workloads={} images={total} seconds={seconds:.1} rate={:.0}/s wrong=0",
        table.len(),
        total as f64 / seconds
    );
    assert!(table.len() >= 20 && total >= wanted, "{} workloads, {total} images", table.len());
}

/// Even seeds make stores with few hashes: see `store_id`.
#[test]
fn keys_with_the_same_hash_are_distinguished() {
    let workload = *ALL.iter().find(|(name, _)| *name == "compaction step by step").unwrap();
    let counts = Sweep { workload, seed: 2, prepare: &|_| {} }.go();
    assert!(counts.unwrap_or_else(|e| panic!("{e}")).images > 100);
}
