//! `firn table mget`: prints the values of many keys, in the order of the keys.

use super::{Source, answer};
use crate::cmd::keys::KeyLines;
use crate::failure::Result;
use crate::output::{Out, finish_mget};

/// Get the values of many keys.
///
/// Get the values of many keys: one line KEY, tab, VALUE for each, in their order. An absent key is
/// printed without a value, and the exit code is 3.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    keys: KeyLines,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let table = args.source.open_any()?;
    let shown = table.shown()?;
    let mut out = Out::new();
    let (mut asked, mut absent) = (0, 0);
    args.keys.each(|keys| {
        table.read_many(keys, |index, value| {
            let key = &keys[index];
            asked += 1;
            absent += u64::from(value.is_none());
            if json {
                return out.json(&answer(&shown, key, value)?);
            }
            let text = value.map(|value| shown.text(key, value)).transpose()?;
            args.keys.print(&mut out, key, text.as_deref())
        })
    })?;
    finish_mget(out, &args.source.path, asked, absent, json)
}
