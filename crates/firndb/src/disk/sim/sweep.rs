//! Sweeps: repeat a workload and let a different operation fail each time.

use crate::disk::sim::state::{Fault, SimDisk};
use std::sync::Arc;

impl SimDisk {
    /// Cuts the power before each operation of `work` and after the last, and passes up to `max`
    /// images of each cut to `check`. Every run starts from a fork of this disk.
    ///
    /// `work` must continue after errors or return. Its result (for example, the acknowledged
    /// writes) is passed to `check` with the label of the image. Returns the number of images.
    pub(crate) fn each_crash<T>(
        &self,
        seed: u64,
        max: usize,
        mut work: impl FnMut(Arc<SimDisk>) -> T,
        mut check: impl FnMut(&str, &T, Arc<SimDisk>),
    ) -> usize {
        let mut images = 0;
        for cut in 0..=self.operations_of(&mut work) {
            let disk = self.fork();
            disk.crash_at(cut);
            let done = work(Arc::clone(&disk));
            for (label, image) in disk.images(seed, max) {
                images += 1;
                check(&label, &done, image);
            }
        }
        images
    }

    /// Fails each operation of `work` in every way, once and permanently, and passes the healed
    /// disk to `check`, which may inspect the `images` of a power cut as well.
    ///
    /// Returns the number of runs.
    pub(crate) fn each_fault<T>(
        &self,
        mut work: impl FnMut(Arc<SimDisk>) -> T,
        mut check: impl FnMut(&str, &T, Arc<SimDisk>),
    ) -> usize {
        let operations = self.operations_of(&mut work);
        let mut runs = 0;
        for fault in [Fault::Io, Fault::NoSpace, Fault::Short, Fault::Dropped] {
            for forever in [false, true] {
                for n in 0..operations {
                    let disk = self.fork();
                    if forever {
                        disk.fail_from(n, fault)
                    } else {
                        disk.fail_at(n, fault)
                    }
                    let done = work(Arc::clone(&disk));
                    let how = if forever { "for ever from" } else { "once at" };
                    let operation = disk.log().get(n).cloned().unwrap_or_default();
                    let label = format!("{fault:?} {how} operation {operation}");
                    disk.heal();
                    runs += 1;
                    check(&label, &done, disk);
                }
            }
        }
        runs
    }

    /// Number of operations of `work` without faults.
    fn operations_of<T>(&self, work: &mut impl FnMut(Arc<SimDisk>) -> T) -> usize {
        let disk = self.fork();
        work(Arc::clone(&disk));
        disk.ops()
    }
}
