//! Large stacks for deeply nested conditions.
//!
//! Conditions are read, planned and run by recursion, in up to 250 KiB of stack for the deepest.
//! A thread of Java may have less, and an overflow would end the JVM. Calls with deep
//! conditions therefore run on a new thread, which ends with the call and does not enter the JVM.

use crate::error::Result;
use firndb::{Error, ErrorKind};
use std::panic::resume_unwind;
use std::thread::{Builder, Scope, ScopedJoinHandle};

const STACK_BYTES: usize = 4 << 20;

/// Runs `work`, on a new thread with a large stack if its condition is deep.
pub fn run<R: Send>(is_deep: bool, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    if !is_deep {
        return work();
    }
    std::thread::scope(|scope| join(spawn(scope, work)?))
}

/// Starts a thread for the work on a deep condition.
pub fn spawn<'s, R: Send + 's>(
    scope: &'s Scope<'s, '_>,
    work: impl FnOnce() -> Result<R> + Send + 's,
) -> Result<ScopedJoinHandle<'s, Result<R>>> {
    let builder = Builder::new().name("firndb-query".to_string()).stack_size(STACK_BYTES);
    let refused = |error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}"));
    Ok(builder.spawn_scoped(scope, work).map_err(refused)?)
}

/// The result of a thread. Its panic goes on in this one.
pub fn join<R>(thread: ScopedJoinHandle<'_, Result<R>>) -> Result<R> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
