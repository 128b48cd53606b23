//! Ctrl-C and termination: every command ends with a sentence about what exists and what does not,
//! and leaves no temporary file.
//!
//! A thread waits for SIGINT, SIGTERM and SIGHUP. It removes the files that are registered as
//! [`temporary`], and ends the process. Only during a [`step`], which must not be cut off, does the
//! thread wait for the command: at most [`PATIENCE`], or until another signal arrives.
//!
//! The exit code is 128 and the number of the signal, as shells have it: 130 after Ctrl-C, 143
//! after SIGTERM.

use crate::failure::report_interrupt;
use firndb::{Error, ErrorKind, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a step may go on after a signal.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval at which the thread looks for the second signal.
const POLL: Duration = Duration::from_millis(20);
/// Attempts to remove a directory that the command goes on filling.
const ATTEMPTS: u32 = 100;

/// What ends with the process.
struct State {
    /// What exists, and what does not.
    sentence: String,
    steps: usize,
    temporary: Vec<PathBuf>,
}

static STATE: Mutex<State> =
    Mutex::new(State { sentence: String::new(), steps: 0, temporary: Vec::new() });
/// Notified when a step ends.
static STEP_ENDED: Condvar = Condvar::new();
/// The last signal; 0 before the first one.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);
/// Whether a signal arrived: the form that readers of inputs poll.
static STOPPED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles the signals from now on. Signals that the process was started to ignore, as `nohup`
/// does, stay ignored.
pub fn install() -> Result<()> {
    says("nothing was changed");
    let failed = |e| Error::new(ErrorKind::Io, format!("cannot handle signals: {e}"));
    let (read, write) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)) {
        // In this order: the number is known when the byte arrives.
        flag::register_usize(signal, SIGNAL.clone(), signal as usize).map_err(failed)?;
        flag::register(signal, STOPPED.clone()).map_err(failed)?;
        low_level::pipe::register(signal, write.try_clone().map_err(failed)?).map_err(failed)?;
    }
    let watcher = thread::Builder::new().name("signals".to_string());
    watcher.spawn(move || watch(read)).map_err(failed)?;
    Ok(())
}

/// Whether the process was started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (signal - 1) != 0
}

/// Ends the process after the first signal.
fn watch(mut pipe: UnixStream) {
    let mut byte = [0];
    if pipe.read_exact(&mut byte).is_err() {
        return;
    }
    let deadline = Instant::now() + PATIENCE;
    let is_polled = pipe.set_nonblocking(true).is_ok();
    let mut state = state();
    while state.steps > 0 && Instant::now() < deadline {
        if is_polled && pipe.read(&mut byte).is_ok_and(|read| read > 0) {
            break;
        }
        let waited = STEP_ENDED.wait_timeout(state, POLL);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    // The lock is held to the end: no further step begins and no further file is registered.
    let code = end(&state);
    low_level::exit(code);
}

/// Removes temporary files and reports the sentence; returns the exit code.
fn end(state: &State) -> i32 {
    state.temporary.iter().for_each(|path| remove(path));
    let signal = SIGNAL.load(Ordering::SeqCst);
    let unfinished = match state.steps {
        0 => "",
        _ => "; a file that was being written may be left, and is removed by the next change",
    };
    report_interrupt(&format!("interrupted: {}{unfinished}", state.sentence), name(signal));
    128 + signal as i32
}

fn name(signal: usize) -> &'static str {
    match signal as i32 {
        SIGINT => "SIGINT",
        SIGHUP => "SIGHUP",
        _ => "SIGTERM",
    }
}

/// Removes a path. Other threads may go on creating files in a directory until it is gone.
fn remove(path: &Path) {
    for _ in 0..ATTEMPTS {
        let removed = match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(e) => Err(e),
        };
        match removed {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                thread::sleep(Duration::from_millis(5));
            }
            _ => return,
        }
    }
}

/// Sets the sentence: what exists, and what does not, if a signal ends the command now.
pub fn says(sentence: impl Into<String>) {
    state().sentence = sentence.into();
}

/// A part of a command that ends by itself after a signal.
#[must_use]
pub struct Step(());

/// Begins a step: until it is dropped, a signal does not end the process at once. The command polls
/// [`check`] in between, or the step is short.
pub fn step() -> Step {
    state().steps += 1;
    Step(())
}

impl Drop for Step {
    fn drop(&mut self) {
        state().steps -= 1;
        STEP_ENDED.notify_all();
    }
}

/// A file or directory that a signal removes, until this is dropped.
#[must_use]
pub struct Temporary(PathBuf);

/// Registers a file, or a directory, that this command alone has created, or that has a random
/// name.
pub fn temporary(path: &Path) -> Temporary {
    state().temporary.push(path.to_path_buf());
    Temporary(path.to_path_buf())
}

/// Creates a file or a directory that does not exist, and registers it. A signal does not come in
/// between, so what another program created is never removed.
pub fn created<T: AsRef<Path>>(create: impl FnOnce() -> Result<T>) -> Result<(T, Temporary)> {
    let _step = step();
    let path = create()?;
    let temporary = temporary(path.as_ref());
    Ok((path, temporary))
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut state = state();
        if let Some(at) = state.temporary.iter().rposition(|path| *path == self.0) {
            state.temporary.remove(at);
        }
    }
}

/// The flag that a signal sets, for readers that poll one.
pub fn flag() -> Arc<AtomicBool> {
    STOPPED.clone()
}

/// Whether a signal arrived.
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// `Cancelled` once a signal arrived.
pub fn check() -> Result<()> {
    match is_stopped() {
        true => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
        false => Ok(()),
    }
}

/// What [`unwind`] unwinds with.
pub struct Unwound;

/// Unwinds to `main` once a signal arrived: for callbacks that cannot return an error. Temporary
/// files of the caller are removed on the way.
pub fn unwind() {
    if is_stopped() {
        resume_unwind(Box::new(Unwound));
    }
}

/// Ends the command if a signal arrived, and returns its exit code. Signals that arrive later have
/// no effect: the process is about to end.
pub fn finish() -> Option<u8> {
    let state = state();
    let code = (SIGNAL.load(Ordering::SeqCst) != 0).then(|| end(&state) as u8);
    std::mem::forget(state);
    code
}
