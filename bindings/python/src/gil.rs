//! Calls without the GIL, during which other Python threads run.

use crate::error::Result;
use pyo3::prelude::*;

/// Runs a call of the library without the GIL.
pub fn detached<T: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> firndb::Result<T> + Send,
) -> Result<T> {
    Ok(py.detach(call)?)
}
