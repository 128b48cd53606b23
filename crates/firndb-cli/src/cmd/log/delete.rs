//! `firn log delete`: removes keys.

use super::{open_to_write, put_bytes};
use crate::cmd::keys::KeyForm;
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural};
use firndb::log::WriteOptions;
use serde_json::{Map, Value as Json, json};
use std::ffi::OsString;
use std::path::PathBuf;

/// Remove keys.
///
/// For example: firn log delete users alice bob
///
/// A key that is absent is reported, and is no error.
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
    let mut was_there = Vec::with_capacity(keys.len());
    for (done, key) in keys.iter().enumerate() {
        interrupt::says(format!("{done} of {} were deleted", plural(keys.len() as u64, "key")));
        interrupt::check()?;
        was_there.push(store.delete_with(key, options)?);
    }
    store.close()?;
    interrupt::says("all keys were deleted");
    drop(step);
    let deleted = was_there.iter().filter(|was_there| **was_there).count();
    let absent = keys.len() - deleted;
    let mut out = Out::new();
    if json {
        for (key, was_there) in keys.iter().zip(was_there) {
            let mut object = Map::new();
            put_bytes(&mut object, "key", key);
            object.insert("found".to_string(), Json::from(was_there));
            out.json(&Json::Object(object))?;
        }
        out.json(&json!({ "summary": { "deleted": deleted, "absent": absent } }))?;
    } else {
        let others = match absent {
            0 => String::new(),
            absent => format!("; {} not there", plural(absent as u64, "key")),
        };
        out.line(format!("Deleted {}{others}.", plural(deleted as u64, "key")))?;
    }
    Ok(out.finish()?)
}
