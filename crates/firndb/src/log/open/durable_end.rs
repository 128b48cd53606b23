//! Checks of the end of the log against what is known to have been durable.

use crate::log::format::names::{CHECKPOINT, DURABLE_END, segment_file};
use crate::log::format::segment_head::LogPosition;
use crate::{Error, Result};
use std::path::Path;

/// `Corrupt` if a log that was durable up to `known` ends before that, at `last`.
pub(crate) fn check(known: Option<LogPosition>, last: LogPosition, dir: &Path) -> Result<()> {
    let Some(known) = known.filter(|&known| last < known) else { return Ok(()) };
    let (number, offset) = if last == (0, 0) { (known.0, 0) } else { last };
    let message = format!(
        "damaged from here on: the log was durable up to byte {} of {} once; `firn log repair` \
         takes what is whole into a new store",
        known.1,
        segment_file(known.0)
    );
    Err(Error::corrupt(message).at(offset).in_file(&dir.join(segment_file(number))))
}

/// `Corrupt` if there are files that no store has before its first segment is durable. Called when
/// no segment can be read: without this check a damaged store would be taken for a new one.
pub(crate) fn check_new(names: &[String], has_hints: bool, dir: &Path) -> Result<()> {
    let is_later = |name: &&String| [DURABLE_END, CHECKPOINT].contains(&name.as_str());
    if !has_hints && !names.iter().any(|name| is_later(&name)) {
        return Ok(());
    }
    let message = "a log store of which no segment can be read: bring its segment files back, or \
                   let `firn log repair` take what is whole into a new store";
    Err(Error::corrupt(message).in_file(dir))
}
