//! An append or a sync that failed is never tried again.
//!
//! After a failed fsync the kernel marks the unwritten pages clean: a second fsync would succeed
//! without the data being on disk. After a failed append nobody knows how much of it is in the
//! file. So the first failure is the last call that reaches the file.

use super::Append;
use crate::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// A file that fails for good with its first failure.
pub(super) struct Poison<F> {
    file: F,
    path: PathBuf,
    failed: bool,
}

impl<F: Append> Poison<F> {
    /// `path` is for the errors only.
    pub(super) fn new(file: F, path: PathBuf) -> Poison<F> {
        Poison { file, path, failed: false }
    }

    fn attempt(&mut self, call: impl FnOnce(&mut F) -> Result<()>) -> Result<()> {
        if self.failed {
            return Err(Error::new(
                ErrorKind::Failed,
                "an earlier write or sync of this file failed and is not repeated: \
                 find the cause, then open again",
            )
            .in_file(&self.path));
        }
        // Set first, so that a panic inside the call counts as a failure too.
        self.failed = true;
        call(&mut self.file)?;
        self.failed = false;
        Ok(())
    }
}

impl<F: Append> Append for Poison<F> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.attempt(|file| file.append(bytes))
    }

    fn begin_writing(&mut self) {
        if !self.failed {
            self.file.begin_writing();
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.attempt(F::sync)
    }
}
