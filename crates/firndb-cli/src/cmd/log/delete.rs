//! `firn log delete`: removes keys.

use super::{KeyForm, no_key, open_to_write};
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural};
use firndb::log::WriteOptions;
use serde_json::json;
use std::ffi::OsString;
use std::path::PathBuf;

/// Remove keys: firn log delete users alice bob. Exit code 3 if a key is missing; the others are
/// removed all the same.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// The keys: text, or hexadecimal digits with --hex.
    #[arg(value_name = "KEY", required_unless_present = "file", conflicts_with = "file")]
    keys: Vec<OsString>,
    #[command(flatten)]
    form: KeyForm,
    /// Return when the deletes survive a power cut, not only a crash of the process.
    #[arg(long)]
    sync: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let keys: firndb::Result<Vec<Vec<u8>>> = match args.form.of_file() {
        Some(key) => key.map(|key| vec![key]),
        None => args.keys.iter().map(|key| args.form.key(key)).collect(),
    };
    let keys = keys?;
    let options = if args.sync { WriteOptions::sync() } else { WriteOptions::default() };
    interrupt::says("no key was deleted");
    let step = interrupt::step();
    let store = open_to_write(&args.dir)?;
    let mut absent = Vec::new();
    for (done, key) in keys.iter().enumerate() {
        interrupt::says(format!("{done} of {} were deleted", plural(keys.len() as u64, "key")));
        interrupt::check()?;
        if !store.delete_with(key, options)? {
            absent.push(key);
        }
    }
    store.close()?;
    interrupt::says("all keys were deleted");
    drop(step);
    let deleted = keys.len() - absent.len();
    let mut out = Out::new();
    if json {
        out.json(&json!({ "deleted": deleted, "absent": absent.len() }))?;
    } else {
        out.line(format!("Deleted {}.", plural(deleted as u64, "key")))?;
    }
    out.finish()?;
    match absent.first() {
        None => Ok(()),
        Some(key) => Err(no_key(&args.dir, key).into()),
    }
}
