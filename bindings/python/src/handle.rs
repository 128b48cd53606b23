//! A handle of the library that Python code can close while other threads use it.

use crate::error::Result;
use pyo3::exceptions::PyValueError;
use std::sync::{Mutex, PoisonError};

/// A cheaply cloned handle, until it is closed. The lock is held only by threads that hold the GIL,
/// and never while Python code runs: so it is free in a forked child.
pub struct Handle<T> {
    open: Mutex<Option<T>>,
    /// What the handle is, for the message of a call after it was closed.
    what: &'static str,
}

impl<T: Clone> Handle<T> {
    pub fn new(open: T, what: &'static str) -> Handle<T> {
        Handle { open: Mutex::new(Some(open)), what }
    }

    /// Calls `read`, which must be short and must not run Python code: closing waits for it.
    pub fn with<R>(&self, read: impl FnOnce(&T) -> firndb::Result<R>) -> Result<R> {
        let result = self.open.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(read);
        // The lock is released here: making an exception runs Python code.
        match result {
            Some(result) => Ok(result?),
            None => Err(self.closed()),
        }
    }

    /// A clone, which stays open until it is dropped if another thread closes the handle.
    pub fn get(&self) -> Result<T> {
        self.with(|open| Ok(open.clone()))
    }

    /// Closes the handle and returns what it held; `None` if it was closed before.
    pub fn take(&self) -> Option<T> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub fn is_closed(&self) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn closed(&self) -> crate::error::Failure {
        PyValueError::new_err(format!("the {} is closed", self.what)).into()
    }
}
