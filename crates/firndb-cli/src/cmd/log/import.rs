//! `firn log import`: imports the directory of another storage engine into a store.

mod report;

use super::open_to_write;
use crate::cmd::load::progress_bar;
use crate::failure::Result;
use crate::interrupt;
use crate::kinds::{Engine, Kind, kind_of};
use crate::new_dir::{fill_staged, leftovers, parent_of};
use crate::output::{Out, plural, size, time};
use firndb::log::{LogStore, Options};
use firndb::{Error, ErrorKind};
use firndb_import::halodb::HaloDb;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Import a directory of HaloDB.
///
/// For example: firn import /var/lib/users -o users
///
/// The newest version of each key is imported; deleted keys stay deleted. If HaloDB crashed, an
/// interrupted write at the end of its newest files is dropped, as HaloDB drops it, and reported.
/// The import stops if anything else is damaged, truncated or missing, for example records that an
/// index file lists and no data file has. HaloDB's directory is only read.
///
/// Memory: 20 to 40 bytes per key.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of HaloDB 0.5 or HaloDB Revive (closed), or a snapshot of one. It is only read.
    #[arg(value_name = "DIR")]
    halodb: PathBuf,
    /// Directory of the store: a new or empty one, unless --add is given.
    #[arg(short = 'o', long = "output", value_name = "STORE")]
    store: PathBuf,
    /// What to do about records that are damaged or missing.
    #[arg(long, value_enum, default_value_t)]
    on_error: Damaged,
    /// Put the records into an existing store. If writing fails, some of them may be in it.
    #[arg(long)]
    add: bool,
    /// Create an ordered store, whose keys can be scanned in byte order.
    #[arg(long, conflicts_with = "add")]
    ordered: bool,
}

/// What to do about records that are damaged or missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Damaged {
    /// Stop, and import nothing.
    #[default]
    Stop,
    /// Import the rest, and report what is missing. A key whose newest record is damaged or missing
    /// is not imported, unless the damage hides which key it is.
    Skip,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    check_engine(&args.halodb)?;
    let target = match args.add {
        true => args.store.clone(),
        false => target(&args.store, &args.halodb)?,
    };
    interrupt::says("nothing was imported");
    let bar = progress_bar(None);
    bar.set_message("reading");
    let halodb = HaloDb::open_with(&args.halodb, |bytes| bar.inc(bytes));
    let halodb = halodb.inspect_err(|_| bar.finish_and_clear())?;
    let refusal = report::refusal(halodb.report());
    if let Some(refusal) = refusal.filter(|_| args.on_error == Damaged::Stop) {
        bar.finish_and_clear();
        return Err(refusal.into());
    }
    bar.set_message("writing");
    let filled = match args.add {
        true => open_to_write(&target).and_then(|store| {
            interrupt::says("some of the records are in the store; importing again completes it");
            halodb.import_into(&store, |bytes| bar.inc(bytes))?;
            store.close()
        }),
        false => new_store(&target, Options::new().ordered(args.ordered), |store| {
            halodb.import_into(store, |bytes| bar.inc(bytes))
        }),
    };
    bar.finish_and_clear();
    filled?;
    interrupt::says("all records are imported");
    report::notes(halodb.report()).iter().for_each(|note| eprintln!("note: {note}"));
    if !args.add {
        leftovers(&target, PURPOSE).iter().for_each(|left| {
            eprintln!(
                "note: {} is of an import that was interrupted, or that is running: remove it if \
                 none is running",
                left.display()
            );
        });
    }
    let mut out = Out::new();
    if json {
        out.json(&report::as_json(halodb.report(), start))?;
    } else {
        let lost = match halodb.report().lost_keys() {
            0 => String::new(),
            lost => format!(", {} lost", plural(lost, "key")),
        };
        out.line(format!(
            "{}: {} imported from {}, {}{lost}, in {}",
            args.store.display(),
            plural(halodb.report().live, "key"),
            plural(halodb.report().files, "file"),
            size(halodb.report().bytes),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}

/// `InvalidArgument` for a database of an engine that is not read.
fn check_engine(dir: &Path) -> firndb::Result<()> {
    match kind_of(dir) {
        Kind::Foreign(Engine::HaloDb) | Kind::OtherDirectory | Kind::Missing => Ok(()),
        found => {
            let message = format!("this is {}; {}", found.noun(), found.advice(dir, "import"));
            Err(Error::invalid(message).in_file(dir))
        }
    }
}

/// The path of the new store: it must be missing or an empty directory, and not inside the imported
/// directory.
fn target(store: &Path, halodb: &Path) -> firndb::Result<PathBuf> {
    if store.is_symlink() && !store.exists() {
        let message = "this is a symlink that leads nowhere; name a new directory";
        return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(store));
    }
    crate::target::check_new(store)?;
    // Resolve a symlink to its directory: the symlink itself is not replaced.
    let store = match store.is_dir() {
        true => store.canonicalize().map_err(|e| Error::io("open", store, e))?,
        false => store.to_path_buf(),
    };
    let above = store.ancestors().skip(1).find(|dir| dir.is_dir());
    let above = above.unwrap_or(Path::new(".")).canonicalize();
    let is_inside = match (above, halodb.canonicalize()) {
        (Ok(above), Ok(halodb)) => above.starts_with(halodb),
        // Reading the directory will report the error.
        _ => false,
    };
    if is_inside {
        let message = "the store would be within the directory that is imported, which is only \
                       read; name another directory";
        return Err(Error::invalid(message).in_file(&store));
    }
    Ok(store)
}

/// In the names of temporary directories.
const PURPOSE: &str = "import";

/// Creates a store under a temporary name, and renames it when it is complete.
fn new_store(
    path: &Path,
    options: Options,
    import: impl FnOnce(&LogStore) -> firndb::Result<()>,
) -> firndb::Result<()> {
    let parent = parent_of(path);
    std::fs::create_dir_all(parent).map_err(|e| Error::io("make", parent, e))?;
    fill_staged(path, PURPOSE, |staged| {
        let store = LogStore::open_with(staged, options)?;
        import(&store)?;
        store.close()
    })
}
