//! `firn log get`: prints the value of a key.

use super::{no_key, open_to_read, put_bytes, put_expiry};
use crate::cmd::keys::KeyForm;
use crate::failure::Result;
use crate::output::Out;
use firndb::Error;
use serde_json::{Map, Value as Json};
use std::ffi::OsString;
use std::path::PathBuf;

/// Get the value of a key.
///
/// For example: firn log get users alice
///
/// Exit code 3 if the key is absent.
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
    if args.raw && json {
        let message = "--raw prints bytes and --json an object; choose one of them";
        return Err(Error::invalid(message).into());
    }
    let key = args.form.one(args.key.as_deref())?;
    let store = open_to_read(&args.dir)?;
    let found = store.get_entry_with(&key, |entry| (entry.value.to_vec(), entry.expiry))?;
    let mut out = Out::new();
    if json {
        let mut object = Map::new();
        put_bytes(&mut object, "key", &key);
        object.insert("found".to_string(), Json::from(found.is_some()));
        if let Some((value, expiry)) = &found {
            put_bytes(&mut object, "value", value);
            put_expiry(&mut object, *expiry);
        }
        out.json(&Json::Object(object))?;
    } else if let Some((value, _)) = &found {
        out.bytes(value)?;
        if !args.raw {
            out.line("")?;
        }
    }
    out.finish()?;
    match found {
        Some(_) => Ok(()),
        None => Err(no_key(&args.dir, &key).into()),
    }
}
