//! Failed appends and syncs are never retried.
//!
//! After a failed fsync, the kernel marks the unwritten pages clean: a second fsync would succeed
//! although the data is not on disk. After a failed append, the file may contain any part of the
//! bytes. So no call reaches the file after the first failure.

use crate::disk::traits::Append;
use crate::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// A file that rejects all calls after its first failure.
pub(super) struct Poison<F> {
    file: F,
    path: PathBuf,
    failed: bool,
}

impl<F: Append> Poison<F> {
    /// `path` is for error messages only.
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
        // Set first, so that a panic in the call counts as a failure.
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
