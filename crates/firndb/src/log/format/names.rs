//! The names of a store's files.
//!
//! ```text
//! NAME                            FILE
//! segment-<20 digits>.log         a segment
//! segment-<20 digits>.hint        the hint of a sealed segment
//! keys-<20 digits>-<20 digits>.firn
//!                                 a key run of the segments from the first number to the second
//! checkpoint.firn                 the checkpoint of the index
//! durable_end.firn                a position up to which the log was durable
//! backup.firn                     in a backup: the segments it consists of
//! backup-unfinished.firn          the same, while a backup or a restore is in progress
//! lock                            the writer's lock
//! reserve-delete, reserve-compact reserved disk space
//! ```

use crate::disk::written_as;

pub(crate) const CHECKPOINT: &str = "checkpoint.firn";
pub(crate) const DURABLE_END: &str = "durable_end.firn";
pub(crate) const BACKUP: &str = "backup.firn";
pub(crate) const BACKUP_UNFINISHED: &str = "backup-unfinished.firn";
pub(crate) const LOCK: &str = "lock";
/// Reserved for deletes.
pub(crate) const RESERVE_DELETE: &str = "reserve-delete";
/// Reserved for compaction.
pub(crate) const RESERVE_COMPACT: &str = "reserve-compact";
/// A reserve file that is being created, and a file that tests whether there is space to spare.
pub(crate) const RESERVE_TEMPORARY: &str = ".reserve.tmp";
pub(crate) const RESERVE_PROBE: &str = ".reserve.probe";

const SEGMENT: &str = "segment-";
const KEYS: &str = "keys-";

/// The file name of segment `number`.
pub(crate) fn segment_file(number: u64) -> String {
    format!("{SEGMENT}{number:020}.log")
}

/// The file name of the hint of segment `number`.
pub(crate) fn hint_file(number: u64) -> String {
    format!("{SEGMENT}{number:020}.hint")
}

/// The number in the file name of a segment; `None` for any other name.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    number(name, ".log")
}

/// The number in the file name of a hint; `None` for any other name.
pub(crate) fn hint_number(name: &str) -> Option<u64> {
    number(name, ".hint")
}

/// The number in the file name of a segment or a hint.
pub(crate) fn segment_or_hint_number(name: &str) -> Option<u64> {
    segment_number(name).or(hint_number(name))
}

/// The file name of the key run of the segments `first..=last`.
pub(crate) fn key_run_file((first, last): (u64, u64)) -> String {
    format!("{KEYS}{first:020}-{last:020}.firn")
}

/// The first and the last segment in the file name of a key run; `None` for any other name.
pub(crate) fn key_run_segments(name: &str) -> Option<(u64, u64)> {
    let numbers = name.strip_prefix(KEYS)?.strip_suffix(".firn")?;
    let (first, last) = numbers.split_once('-')?;
    let segments = (digits(first)?, digits(last)?);
    (segments.0 <= segments.1).then_some(segments)
}

fn number(name: &str, suffix: &str) -> Option<u64> {
    digits(name.strip_prefix(SEGMENT)?.strip_suffix(suffix)?)
}

fn digits(text: &str) -> Option<u64> {
    let is_number = text.len() == 20 && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Whether this is the name of a file of the disk space reserve.
pub(crate) fn is_reserve(name: &str) -> bool {
    [RESERVE_DELETE, RESERVE_COMPACT, RESERVE_TEMPORARY, RESERVE_PROBE].contains(&name)
}

/// Whether a store or a backup may have a file of this name.
pub(crate) fn is_known(name: &str) -> bool {
    is_store_file(name) || written_as(name).is_some_and(is_store_file) || is_reserve(name)
}

fn is_store_file(name: &str) -> bool {
    let others = [LOCK, DURABLE_END, CHECKPOINT, BACKUP, BACKUP_UNFINISHED];
    segment_or_hint_number(name).is_some()
        || key_run_segments(name).is_some()
        || others.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_twenty_digits() {
        assert_eq!(segment_file(7), "segment-00000000000000000007.log");
        assert_eq!(segment_number(&segment_file(u64::MAX)), Some(u64::MAX));
        assert_eq!(hint_number(&hint_file(7)), Some(7));
        assert_eq!(segment_number(&hint_file(7)), None);
        for name in ["segment-7.log", "segment-99999999999999999999.log", "segment-.log", ""] {
            assert_eq!(segment_or_hint_number(name), None, "{name}");
        }
        let name = "keys-00000000000000000003-00000000000000000012.firn";
        assert_eq!(key_run_file((3, 12)), name);
        assert_eq!(key_run_segments(name), Some((3, 12)));
        for name in [
            "keys-00000000000000000003.firn",
            "keys-00000000000000000012-00000000000000000003.firn",
            "keys-+0000000000000000003-00000000000000000012.firn",
            "keys-00000000000000000003-00000000000000000012.hint",
            "keys--.firn",
        ] {
            assert_eq!(key_run_segments(name), None, "{name}");
        }
    }

    #[test]
    fn foreign_names_are_not_known() {
        for name in [
            "lock",
            "durable_end.firn",
            ".durable_end.firn.firndb-tmp",
            "backup.firn",
            "reserve-delete",
            "keys-00000000000000000003-00000000000000000012.firn",
            ".keys-00000000000000000003-00000000000000000012.firn.firndb-tmp",
        ] {
            assert!(is_known(name), "{name}");
        }
        for name in [
            "",
            ".",
            "x",
            ".lock",
            "lock.tmp",
            "durable_end.firn.tmp",
            ".durable_end.firn.tmp",
            "..firndb-tmp",
            ".x.firndb-tmp",
        ] {
            assert!(!is_known(name), "{name}");
        }
    }
}
