//! Calls of catalogs that Ctrl-C interrupts, although they wait for disks and networks.

use super::origin::Switch;
use crate::error::Result;
use crate::interrupt::{Meter, interruptible};
use crate::progress::Reporter;
use pyo3::prelude::*;

/// Runs `call` without the GIL in a thread of its own. If a signal or the callback interrupts it,
/// the switch is turned off, so that the call ends soon.
pub fn run<T: Send>(
    py: Python<'_>,
    switch: &Switch,
    progress: Option<Py<PyAny>>,
    call: impl FnOnce(&Meter) -> firndb::Result<T> + Send,
) -> Result<T> {
    let (reporter, meter) = (Reporter::new(progress), Meter::default());
    let report = |is_end| {
        let (done, total) = meter.get();
        if is_end { reporter.report_now(done, total) } else { reporter.report(done, total) }
    };
    interruptible(py, switch.flag(), report, || call(&meter))
}
