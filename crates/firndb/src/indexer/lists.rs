//! Lists of IDs in the log: a base, and journals of the IDs added and removed since.
//!
//! A journal makes a change of a few IDs cost a few bytes. `compact` merges the journals into a new
//! base: for a partition when it is rebuilt, which costs more anyway; for a source when its
//! journals have grown to a quarter of the base, so that an ID is written about five times at most.

use super::format::{
    Head, Id, base_key, decode_head, decode_ids, decode_journal, encode_head, encode_ids,
    encode_journal, head_key, inconsistent, journal_key,
};
use crate::Result;
use crate::log::{Batch, LogStore};
use std::collections::HashMap;

/// Journal entries up to which a list is not compacted.
const FEW: u64 = if cfg!(test) { 10 } else { 1024 };

fn head(log: &LogStore, list: &[u8]) -> Result<Head> {
    let head = log.get_with(head_key(list), decode_head)?;
    Ok(head.transpose()?.unwrap_or_default())
}

/// The IDs of a list, ascending.
pub(super) fn read(log: &LogStore, list: &[u8]) -> Result<Vec<Id>> {
    let head = head(log, list)?;
    let mut ids = match head.base {
        0 => Vec::new(),
        _ => log.get_with(base_key(list), decode_ids)?.unwrap_or_else(|| Ok(Vec::new()))?,
    };
    if ids.len() as u64 != head.base {
        return Err(inconsistent("a list does not have as many IDs as its head says"));
    }
    let mut since: HashMap<Id, bool> = HashMap::new();
    for n in 0..head.journals {
        let read = log.get_with(journal_key(list, n), |journal| {
            decode_journal(journal, |id, is_added| {
                since.insert(id, is_added);
            })
        })?;
        read.ok_or_else(|| inconsistent("a journal of a list is missing"))??;
    }
    if !since.is_empty() {
        ids.retain(|id| !since.contains_key(id));
        ids.extend(since.into_iter().filter(|(_, is_added)| *is_added).map(|(id, _)| id));
        ids.sort_unstable();
    }
    Ok(ids)
}

/// Appends a journal to a list: IDs that were added (`true`) or removed. A batch may contain one
/// journal per list.
pub(super) fn append(
    log: &LogStore,
    batch: &mut Batch,
    list: &[u8],
    entries: &[(Id, bool)],
) -> Result<()> {
    let mut head = head(log, list)?;
    batch.push_put(journal_key(list, head.journals), encode_journal(entries));
    head.journals += 1;
    head.entries += entries.len() as u64;
    batch.push_put(head_key(list), encode_head(head));
    Ok(())
}

/// Whether the journals of a list have grown enough to compact it.
pub(super) fn needs_compaction(log: &LogStore, list: &[u8]) -> Result<bool> {
    let head = head(log, list)?;
    Ok(head.entries > FEW + head.base / 4)
}

/// Replaces the journals of a list by a new base. `ids` is the result of `read`.
pub(super) fn compact(log: &LogStore, batch: &mut Batch, list: &[u8], ids: &[Id]) -> Result<()> {
    let old = head(log, list)?;
    if ids.is_empty() {
        return remove(log, batch, list);
    }
    if old.journals > 0 {
        (0..old.journals).for_each(|n| batch.push_delete(journal_key(list, n)));
        batch.push_put(base_key(list), encode_ids(ids));
        let head = Head { base: ids.len() as u64, ..Head::default() };
        batch.push_put(head_key(list), encode_head(head));
    }
    Ok(())
}

/// Removes a list, if it exists.
pub(super) fn remove(log: &LogStore, batch: &mut Batch, list: &[u8]) -> Result<()> {
    let old = head(log, list)?;
    (0..old.journals).for_each(|n| batch.push_delete(journal_key(list, n)));
    if old.base > 0 {
        batch.push_delete(base_key(list));
    }
    if old != Head::default() {
        batch.push_delete(head_key(list));
    }
    Ok(())
}
