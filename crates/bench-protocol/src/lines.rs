//! The job loop: each line of tab-separated fields is answered before the next is read.

use crate::Result;
use std::io::{BufRead, StdoutLock, Write};

/// Answers jobs from standard input until it ends. An error is reported to the runner and ends the
/// process.
pub fn answer_jobs(
    mut perform: impl FnMut(&[&str], &mut StdoutLock<'static>) -> Result<()>,
) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let job: Vec<&str> = line.split('\t').collect();
        let done = perform(&job, &mut out);
        if let Err(error) = &done {
            writeln!(out, "error\t{}", error.to_string().replace('\n', " "))?;
        }
        out.flush()?;
        done?;
    }
    Ok(())
}
