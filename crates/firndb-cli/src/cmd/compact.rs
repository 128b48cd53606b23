//! `firn search compact`: joins small partitions that no longer change, under a policy.

use super::load::{parse_interval, parse_size_of, parse_time};
use super::open_collection;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::output::{Out, plural};
use firndb::search::{Merge, MergePolicy};
use firndb::{Error, ErrorKind};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Join small partitions that no longer change, under a policy.
///
/// Join neighbouring partitions that are small and have not changed for a while. Query results stay
/// the same, order included, and readers keep working. Do not join partitions that are replaced or
/// removed by name: afterwards `firn search build --update` refuses their names, since their
/// documents would be duplicated. Partitions A to B become `A.to.B`.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the collection.
    dir: PathBuf,
    /// Partitions with fewer documents than this are small.
    #[arg(long, default_value_t = MergePolicy::default().small, value_name = "DOCUMENTS")]
    small: u32,
    /// Maximum number of documents of a joined partition.
    #[arg(long, default_value_t = MergePolicy::default().most_documents, value_name = "DOCUMENTS")]
    most: u32,
    /// Maximum size of the partition files joined into one [default: 1G].
    #[arg(long, value_name = "SIZE", value_parser = parse_size_of)]
    most_size: Option<u64>,
    /// Minimum number of neighbours to join.
    #[arg(long, default_value_t = MergePolicy::default().at_least, value_name = "N")]
    at_least: usize,
    /// Leave partitions alone whose files are younger than this.
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = parse_time)]
    unchanged_for: Duration,
    /// Only report what would be joined.
    #[arg(long)]
    dry_run: bool,
    /// Repeat at this interval until Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = parse_interval, conflicts_with = "dry_run")]
    every: Option<Duration>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    refuse_index(&args.dir)?;
    let policy = MergePolicy::default()
        .small(args.small)
        .most_documents(args.most)
        .most_bytes(args.most_size.unwrap_or(MergePolicy::default().most_bytes))
        .at_least(args.at_least)
        .unchanged_for(args.unchanged_for);
    let collection = Arc::new(open_collection(&args.dir)?);
    if args.dry_run {
        let plan = collection.compact_plan(&policy)?;
        plan.iter().try_for_each(|merge| report(merge, true, json))?;
        return finish(plan.len(), json);
    }
    let joined = "every document is in the collection; partitions that were joined stay joined";
    interrupt::says(joined);
    let step = interrupt::step();
    let (mut merges, mut reported) = (0, Ok(()));
    collection.compact(&policy, |merge| {
        merges += 1;
        let now = report(merge, false, json);
        reported = std::mem::replace(&mut reported, Ok(())).and(now);
    })?;
    reported?;
    interrupt::check()?;
    let Some(every) = args.every else {
        interrupt::says("the collection is compacted");
        return finish(merges, json);
    };
    let (send, outcomes) = mpsc::channel();
    let thread = collection.compact_every(policy, every, move |outcome| {
        // The output pipe may be closed when the command ends.
        let _ = send.send(outcome.cloned().map_err(|error| error.to_string()));
    });
    loop {
        match outcomes.recv_timeout(POLL) {
            Ok(Ok(merge)) => report(&merge, false, json)?,
            Ok(Err(error)) => eprintln!("firn: {error}"),
            Err(RecvTimeoutError::Timeout) if !interrupt::is_stopped() => {}
            Err(_) => break,
        }
    }
    drop(thread);
    drop(step);
    interrupt::check().map_err(Failure::from)
}

/// Interval at which a signal is noticed.
const POLL: Duration = Duration::from_millis(50);

/// Refuses the collection of an index, which the index rebuilds from its log.
fn refuse_index(dir: &Path) -> Result<()> {
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let has_log = real.parent().is_some_and(|parent| parent.join("log").is_dir());
    if real.file_name().is_some_and(|name| name == "collection") && has_log {
        let message = "this is the collection of an index, which makes its partitions by key; \
                       fewer of them are made by `firn index rebuild DIR --partitions N`";
        let error = Error::new(ErrorKind::InvalidArgument, message);
        return Err(Failure::from(error.in_file(dir)));
    }
    Ok(())
}

/// Reports each merge as it ends: there may be many, and each takes a while.
fn report(merge: &Merge, dry_run: bool, json: bool) -> Result<()> {
    let Merge { from, into, documents, .. } = merge;
    let mut out = Out::new();
    if json {
        let (from, into) = (json!(from), json!(into));
        out.json(&json!({
            "from": from, "into": into, "documents": documents, "dry_run": dry_run,
        }))?;
    } else {
        out.line(format!(
            "{} {} into {into}: {}.",
            if dry_run { "Would join" } else { "Joined" },
            plural(from.len() as u64, "partition"),
            plural(*documents, "document")
        ))?;
    }
    Ok(out.finish()?)
}

fn finish(merges: usize, json: bool) -> Result<()> {
    let mut out = Out::new();
    if merges == 0 && !json {
        out.line("Nothing to join.")?;
    }
    Ok(out.finish()?)
}
