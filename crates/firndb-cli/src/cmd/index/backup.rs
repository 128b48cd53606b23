//! `firn index backup`: backs up an index into another directory, by hard links or copies.

use super::open;
use crate::cmd::load::parse_time;
use crate::failure::Result;
use crate::interrupt;
use crate::new_dir::{self, Sentences};
use crate::output::{Out, plural, time};
use crate::target::is_free;
use firndb::ErrorKind;
use firndb::indexer::Indexer;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Make a backup of an index.
///
/// Make a backup of an index: hard links on the same file system, copies on another one. The backup
/// can be opened like any index. The directory must be new or empty, or hold an earlier backup of
/// this index, which is brought up to date.
///
/// The command waits for a program that has the index open. A program that keeps it open makes the
/// backup itself (`Indexer::backup`).
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index.
    dir: PathBuf,
    /// Directory of the backup.
    #[arg(short = 'o', long = "output", value_name = "BACKUP")]
    to: PathBuf,
    /// How long to wait for a program that has the index open.
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = parse_time)]
    wait: Duration,
}

const SENTENCES: Sentences = Sentences {
    absent: "no backup was made, and the index is unchanged",
    unfinished: "the directory holds an unfinished backup, which the same command completes",
    complete: "the backup is complete",
};

/// Interval between attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(20);

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let indexer = open_or_wait(&args.dir, args.wait)?;
    let made = match is_free(&args.to)? {
        true => new_dir::fill(&args.to, "backup", &SENTENCES, |dir| indexer.backup(dir))?,
        // In the directory of an earlier backup, that backup stays complete.
        false => {
            let _step = interrupt::step();
            interrupt::says("the directory holds the earlier backup or the new one");
            let made = indexer.backup(&args.to)?;
            interrupt::says(SENTENCES.complete);
            made
        }
    };
    let dirty = indexer.status()?.dirty.len() as u64;
    indexer.close()?;
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "partitions": made.partitions,
            "dirty": dirty,
            "segments": made.log.segments,
            "kept_segments": made.log.kept,
            "copied_segments": made.log.copied,
            "elapsed_seconds": start.elapsed().as_secs_f64(),
        }))?;
    } else {
        let waiting = match dirty {
            0 => String::new(),
            dirty => format!(", {} not published yet", plural(dirty, "partition")),
        };
        out.line(format!(
            "{}: {} of the log ({} there before), {}{waiting}, made in {}",
            args.to.display(),
            plural(made.log.segments, "segment"),
            made.log.kept,
            plural(made.partitions, "partition"),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}

/// Opens an index; waits while another process has it open, at most `most`.
fn open_or_wait(dir: &Path, most: Duration) -> firndb::Result<Indexer> {
    const MEMORY: usize = 1 << 30;
    let start = Instant::now();
    loop {
        match open(dir, MEMORY) {
            Err(e) if e.kind() == ErrorKind::Locked && start.elapsed() < most => {
                std::thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}
