//! `firn log get`: prints the value of a key.

use super::{KeyForm, no_key, open_to_read, put_bytes, put_expiry};
use crate::failure::Result;
use crate::output::Out;
use firndb::Error;
use serde_json::{Map, Value as Json};
use std::ffi::OsString;
use std::path::PathBuf;

/// Get the value of a key: firn log get users alice. Exit code 3 if the key is not there.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// The key: text, or hexadecimal digits with --hex.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    key: Option<OsString>,
    #[command(flatten)]
    form: KeyForm,
    /// Print only the bytes of the value, without a newline.
    #[arg(long)]
    raw: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let key = match (&args.key, args.form.of_file()) {
        (_, Some(key)) => key?,
        (Some(key), None) => args.form.key(key)?,
        (None, None) => return Err(Error::invalid("name a key").into()),
    };
    let store = open_to_read(&args.dir)?;
    let found = store.get_entry_with(&key, |entry| (entry.value.to_vec(), entry.expiry))?;
    let (value, expiry) = found.ok_or_else(|| no_key(&args.dir, &key))?;
    let mut out = Out::new();
    if args.raw {
        out.bytes(&value)?;
    } else if json {
        let mut object = Map::new();
        put_bytes(&mut object, "key", &key);
        object.insert("found".to_string(), Json::from(true));
        put_bytes(&mut object, "value", &value);
        put_expiry(&mut object, expiry);
        out.json(&Json::Object(object))?;
    } else {
        out.bytes(&value)?;
        out.line("")?;
    }
    Ok(out.finish()?)
}
