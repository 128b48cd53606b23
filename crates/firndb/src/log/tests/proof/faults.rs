//! Every call to the disk fails: once and for ever, for want of space and otherwise.
//!
//! Work goes on after an error, as a program may. What was acknowledged stays: in the running
//! store, after a reopening, and after a power cut.

use super::oracle::{History, check};
use super::setting;
use super::work::Run;
use super::workloads::{ALL, Workload};
use crate::disk::SimDisk;
use crate::log::failpoints::active;

/// Power cuts after each failure.
const CUTS: usize = 6;

/// Fails every operation of a workload in turn, and then looks at one power cut in `share`, not the
/// same ones after each. Gives the number of runs, and of images checked.
pub(crate) fn sweep(workload: Workload, seed: u64, share: usize) -> Result<(usize, usize), String> {
    let (mut images, mut faults, mut failure) = (0, 0, None);
    let work = |disk| {
        active::STORE.set(Some(super::store_id(seed)));
        super::choose_access(seed);
        let mut run = Run::begin(&disk, seed, true);
        (workload.1)(&mut run);
        let (wrong, errors) = (run.wrong.take(), run.errors);
        (run.end(), wrong, errors)
    };
    let see =
        |label: &str, done: &(History, Option<String>, usize), disk: std::sync::Arc<SimDisk>| {
            let (history, wrong, _) = done;
            let mut found = wrong.clone().map_or(Ok(()), Err);
            let reopened = vec![("reopened".to_string(), disk.fork())];
            faults += 1;
            let cuts = disk.images(seed, CUTS).into_iter().skip(faults % share).step_by(share);
            for (cut, image) in reopened.into_iter().chain(cuts) {
                images += 1;
                // What a failed sync lost no later one saves until the machine starts again: so
                // there is no power cut after the reopening alone.
                let turn = if cut == "reopened" { images as u64 % 2 } else { images as u64 };
                let checked = check(&image, history, turn);
                found = found.and(checked.map_err(|e| format!("{cut}: {e}")));
            }
            if let Err(what) = found {
                failure.get_or_insert(format!("{}, seed {seed}, {label}: {what}", workload.0));
            }
        };
    let disk = SimDisk::new();
    if seed % 4 >= 2 {
        disk.reserve_nothing(); // Then records are written, not stored into a map.
    }
    let runs = disk.each_fault(work, see);
    failure.map_or(Ok((runs, images)), Err)
}

/// `FIRNDB_FAULT_ROUNDS=2` runs each workload with both ways to append.
#[test]
fn a_failing_call_is_reported_and_what_was_acknowledged_stays() {
    let (mut runs, mut images) = (0, 0);
    // A third of the cuts: with all of them, as in the proof, no test would take longer.
    let share = setting("FIRNDB_FAULT_SHARE", 3) as usize;
    let rounds = setting("FIRNDB_FAULT_ROUNDS", 1) as usize;
    for (i, n) in (0..rounds).flat_map(|round| (0..ALL.len()).map(move |i| (i, i + 2 * round))) {
        let (more, checked) = sweep(ALL[i], n as u64, share).unwrap_or_else(|e| panic!("{e}"));
        (runs, images) = (runs + more, images + checked);
    }
    println!("faults: workloads={} runs={runs} images={images} wrong=0", ALL.len());
    assert!(runs > 10_000, "{runs}");
}
