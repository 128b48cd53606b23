//! Sweeps: the same work again and again, with another operation going wrong each time.

use super::{Fault, SimDisk};
use std::sync::Arc;

impl SimDisk {
    /// Cuts the power before operation 0, 1, 2, ... of `work`, and after the last, and shows
    /// `check` up to `max` images of each cut. Every run starts from a fork of this disk.
    ///
    /// `work` must go on after errors or return; what it returns (say, how much was acknowledged)
    /// is handed to `check` with the label of the image. Returns the number of images.
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

    /// Fails operation 0, 1, 2, ... of `work`, in every way, once and for ever, and shows `check`
    /// the healed disk each time; `disk.images` tells it what a power cut would leave.
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

    /// Number of operations of `work` when nothing goes wrong.
    fn operations_of<T>(&self, work: &mut impl FnMut(Arc<SimDisk>) -> T) -> usize {
        let disk = self.fork();
        work(Arc::clone(&disk));
        disk.ops()
    }
}
