//! `firn search compact`: small partitions that rest become larger ones, under a policy.

use crate::failure::{Failure, Result};
use crate::output::{Out, plural};
use firndb::search::{Collection, Merge, MergePolicy};
use firndb::{Error, ErrorKind};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Join neighbouring partitions that are small and have not changed for a while. Answers stay as
/// they are, order included, and readers go on; but partitions that are replaced or removed by
/// name should be left as they are: afterwards `firn search build --update` refuses their names,
/// which would double their documents. Partitions A to B become `A.to.B`.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the collection.
    dir: PathBuf,
    /// Partitions with fewer documents are small.
    #[arg(long, default_value_t = MergePolicy::default().small, value_name = "DOCUMENTS")]
    small: u32,
    /// Documents of a joined partition at most.
    #[arg(long, default_value_t = MergePolicy::default().most_documents, value_name = "DOCUMENTS")]
    most: u32,
    /// Bytes of the files that become one, at most.
    #[arg(long, default_value_t = MergePolicy::default().most_bytes, value_name = "BYTES")]
    most_bytes: u64,
    /// How many neighbours are worth it.
    #[arg(long, default_value_t = MergePolicy::default().at_least, value_name = "N")]
    at_least: usize,
    /// Leave partitions alone whose files are younger.
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    unchanged_for: u64,
    /// Only say what would be joined.
    #[arg(long)]
    dry_run: bool,
    /// Look again after so many seconds, until Ctrl-C.
    #[arg(long, value_name = "SECONDS", conflicts_with = "dry_run")]
    every: Option<u64>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    refuse_index(&args.dir)?;
    let policy = MergePolicy {
        small: args.small,
        most_documents: args.most,
        most_bytes: args.most_bytes,
        at_least: args.at_least,
        unchanged_for: Duration::from_secs(args.unchanged_for),
    };
    let collection = Arc::new(Collection::open(&args.dir)?);
    if args.dry_run {
        let plan = collection.compact_plan(&policy)?;
        plan.iter().try_for_each(|merge| tell(merge, true, json))?;
        return finish(plan.len(), json);
    }
    let (mut merges, mut told) = (0, Ok(()));
    collection.compact(&policy, |merge| {
        merges += 1;
        let now = tell(merge, false, json);
        told = std::mem::replace(&mut told, Ok(())).and(now);
    })?;
    told?;
    let Some(every) = args.every else { return finish(merges, json) };
    let (send, outcomes) = mpsc::channel();
    let every = Duration::from_secs(every);
    let _thread = collection.compact_every(policy, every, move |outcome| {
        // Nobody listens any more when the command ends.
        let _ = send.send(outcome.cloned().map_err(|error| error.to_string()));
    });
    for outcome in outcomes {
        match outcome {
            Ok(merge) => tell(&merge, false, json)?,
            Err(error) => eprintln!("firn: {error}"),
        }
    }
    Ok(())
}

/// The collection of an index is made from its log: it would be made again.
fn refuse_index(dir: &Path) -> Result<()> {
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let beside = real.parent().is_some_and(|parent| parent.join("log").is_dir());
    if real.file_name().is_some_and(|name| name == "collection") && beside {
        let message = "this is the collection of an index, which makes its partitions by key; \
                       fewer of them are made by `firn index rebuild DIR --partitions N`";
        let error = Error::new(ErrorKind::InvalidArgument, message);
        return Err(Failure::from(error.in_file(dir)));
    }
    Ok(())
}

/// Tells of each merge at once: there may be many, and each takes a while.
fn tell(merge: &Merge, would: bool, json: bool) -> Result<()> {
    let Merge { from, into, documents } = merge;
    let mut out = Out::new();
    if json {
        let (from, into) = (json!(from), json!(into));
        out.json(&json!({
            "from": from, "into": into, "documents": documents, "dry_run": would,
        }))?;
    } else {
        out.line(format!(
            "{} {} into {into}: {}.",
            if would { "Would join" } else { "Joined" },
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
