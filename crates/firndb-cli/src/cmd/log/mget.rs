//! `firn log mget`: prints the values of many keys, in the order of the keys.

use super::{open_to_read, put_bytes};
use crate::cmd::keys::KeyLines;
use crate::failure::Result;
use crate::output::{Out, finish_mget};
use serde_json::{Map, Value as Json};
use std::path::PathBuf;

/// Get the values of many keys.
///
/// Get the values of many keys: one line KEY, tab, VALUE for each, in their order. An absent key is
/// printed without a value, and the exit code is 3.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    #[command(flatten)]
    keys: KeyLines,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let store = open_to_read(&args.dir)?;
    let mut out = Out::new();
    let (mut asked, mut absent) = (0, 0);
    args.keys.each(|keys| {
        for (key, value) in keys.iter().zip(store.get_many(keys)?) {
            asked += 1;
            absent += u64::from(value.is_none());
            if json {
                let mut object = Map::new();
                put_bytes(&mut object, "key", key);
                object.insert("found".to_string(), Json::from(value.is_some()));
                value.iter().for_each(|value| put_bytes(&mut object, "value", value));
                out.json(&Json::Object(object))?;
            } else {
                args.keys.print(&mut out, key, value.as_deref())?;
            }
        }
        Ok(())
    })?;
    finish_mget(out, &args.dir, asked, absent, json)
}
