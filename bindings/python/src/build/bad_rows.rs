//! Rows that cannot be used.

use firndb::{Error, Result};
use std::fmt::Display;

/// Reasons that are kept for the warning.
const KEPT: usize = 5;

/// Rows that cannot be used: each ends the build, or is skipped and counted.
#[derive(Debug)]
pub struct BadRows {
    skip: bool,
    pub skipped: u64,
    /// The first reasons, each with the position of its row.
    pub reasons: Vec<String>,
}

impl BadRows {
    pub fn new(skip: bool) -> BadRows {
        BadRows { skip, skipped: 0, reasons: Vec::new() }
    }

    /// Counts a row; an error if bad rows end the build.
    pub fn take(&mut self, reason: impl Display) -> Result<()> {
        if !self.skip {
            return Err(Error::invalid(reason.to_string()));
        }
        self.skipped += 1;
        if self.reasons.len() < KEPT {
            self.reasons.push(reason.to_string());
        }
        Ok(())
    }
}
