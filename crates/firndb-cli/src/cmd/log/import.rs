//! `firn log import`: the content of another engine's directory into a store.

use super::halodb::{Found, Import};
use super::{open_to_write, put_bytes};
use crate::cmd::load::progress_bar;
use crate::failure::Result;
use crate::output::{Out, plural, size, thousands, time};
use crate::target::check_new;
use firndb::Error;
use firndb::log::{LogStore, Options};
use serde_json::{Map, Value as Json, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Import a directory of HaloDB: firn log import users --halodb /var/lib/users
///
/// The newest version of each key is taken; deleted keys stay deleted. What a crash of HaloDB left
/// at the end of its newest files is dropped, as HaloDB drops it, and reported.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store: a new one, unless --add is given.
    #[arg(value_name = "STORE")]
    store: PathBuf,
    /// Directory of HaloDB (0.5; closed). It is only read.
    #[arg(long, required = true, value_name = "DIR")]
    halodb: PathBuf,
    /// What to do about damaged records.
    #[arg(long, value_enum, default_value_t)]
    on_error: Damaged,
    /// Put the records into a store that is there already. If writing fails, some of them may be
    /// in it.
    #[arg(long)]
    add: bool,
}

/// What to do about damaged records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Damaged {
    /// Stop, and import nothing.
    #[default]
    Stop,
    /// Import the rest, and report what is missing. A key whose newest record is damaged is not
    /// imported, unless nothing tells which key it is.
    Skip,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    if !args.add {
        check_new(&args.store)?;
    }
    let bar = progress_bar(None);
    bar.set_message("reading");
    let import =
        Import::new(&args.halodb, |bytes| bar.inc(bytes)).and_then(|import| match args.on_error {
            Damaged::Stop => import.check().map(|()| import),
            Damaged::Skip => Ok(import),
        });
    let import = import.inspect_err(|_| bar.finish_and_clear())?;
    bar.set_message("writing");
    let filled = match args.add {
        true => open_to_write(&args.store).and_then(|store| {
            import.fill(&store, |bytes| bar.inc(bytes))?;
            store.close()
        }),
        false => new_store(&args.store, |store| import.fill(store, |bytes| bar.inc(bytes))),
    };
    bar.finish_and_clear();
    filled?;
    report(&import.found);
    let mut out = Out::new();
    if json {
        out.json(&as_json(&import.found, start))?;
    } else {
        out.line(format!(
            "{}: {} imported from {}, {}, in {}",
            args.store.display(),
            plural(import.found.live, "key"),
            plural(import.found.files, "file"),
            size(import.found.bytes),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}

/// Makes a store: filled under a name of its own, and renamed when it is whole.
fn new_store(
    path: &Path,
    fill: impl FnOnce(&LogStore) -> firndb::Result<()>,
) -> firndb::Result<()> {
    let name = path.file_name().ok_or_else(|| Error::invalid("name a directory for the store"))?;
    let mut name = name.to_os_string();
    name.push(format!(".import-{}", std::process::id()));
    let staged = path.with_file_name(name);
    check_new(&staged)?; // What is there is not ours to fill, or to remove.
    let made = LogStore::open(&staged, Options::default()).and_then(|store| {
        fill(&store)?;
        store.close()?;
        // Renaming replaces an empty directory, and nothing else.
        std::fs::rename(&staged, path).map_err(|e| Error::io("name the store", path, e))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let synced = std::fs::File::open(parent).and_then(|dir| dir.sync_all());
        synced.map_err(|e| Error::io("sync", parent, e))
    });
    if made.is_err() {
        // The failure is the news.
        let _ = std::fs::remove_dir_all(&staged);
    }
    made
}

/// Says on standard error what is missing.
fn report(found: &Found) {
    if found.is_unclean {
        eprintln!("note: HaloDB did not close this directory");
    }
    for dropped in &found.dropped {
        eprintln!(
            "note: {}: {} at byte {} {}",
            dropped.path.display(),
            plural(dropped.bytes, "byte"),
            dropped.offset,
            match dropped.is_torn {
                true => "were a write that a crash interrupted, and were dropped",
                false => "are damaged, and were left out",
            }
        );
    }
    let damaged = || found.dropped.iter().filter(|dropped| !dropped.is_torn);
    for key in &found.lost {
        eprintln!("note: {} was not imported: its newest record is damaged", super::shown_key(key));
    }
    let unknown = damaged().filter(|dropped| dropped.records.is_empty()).count();
    if unknown > 0 {
        eprintln!(
            "note: at {} of these places nothing tells which keys were there; of these keys older \
             versions may have been imported",
            thousands(unknown as u64)
        );
    }
}

fn as_json(found: &Found, start: Instant) -> Json {
    let dropped = found.dropped.iter().map(|dropped| {
        json!({
            "file": dropped.path.display().to_string(),
            "offset": dropped.offset,
            "bytes": dropped.bytes,
            "torn": dropped.is_torn,
        })
    });
    let lost = found.lost.iter().map(|key| {
        let mut object = Map::new();
        put_bytes(&mut object, "key", key);
        Json::Object(object)
    });
    json!({
        "keys": found.live,
        "deleted": found.deleted,
        "records": found.records,
        "tombstones": found.tombstones,
        "files": found.files,
        "bytes": found.bytes,
        "unclean": found.is_unclean,
        "dropped": dropped.collect::<Vec<Json>>(),
        "lost": lost.collect::<Vec<Json>>(),
        "seconds": start.elapsed().as_secs_f64(),
    })
}
