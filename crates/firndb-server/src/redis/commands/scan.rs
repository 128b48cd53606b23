//! Commands on all keys: SCAN, KEYS, RANDOMKEY, DBSIZE, FLUSHDB, and MEMORY USAGE.

use super::strings::int;
use super::{Fail, Outcome, text};
use crate::redis::codec::Args;
use crate::redis::glob;
use crate::redis::reply::Out;
use crate::redis::unit::{Source, Unit};
use crate::stores::TableRef;
use firndb::log::Batch;
use firndb::table::Table;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::ControlFlow;

/// Cursors are below this, so that every client can keep them in a signed integer.
const CURSORS: u64 = 1 << 63;
/// Keys of a page if the client names no number.
const COUNT: usize = 10;
/// Keys that KEYS, FLUSHDB and RANDOMKEY look at in one go.
const PAGE: usize = 1000;
/// The low bits of a table's cursor are a position, the others are of the table's version.
const POSITION_BITS: u32 = 40;
/// What MEMORY USAGE adds to a record's key and value: its header in the log and its entry in the
/// index.
const RECORD_OVERHEAD: usize = 32;

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
pub fn scan<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let cursor = parse_cursor(args.at(1))?;
    let options = Options::parse(args)?;
    let limit = options.count.min(unit.limits.page);
    let mut keys = Keys { count: 0, replies: Out::default(), pattern: options.pattern };
    let next = page(unit.source, cursor, limit, |key| {
        if options.is_string {
            keys.add(key);
        }
    })?;
    out.array(2);
    out.bulk(itoa::Buffer::new().format(next.unwrap_or(0)).as_bytes());
    keys.write(out);
    Ok(())
}

/// A cursor: digits.
fn parse_cursor(text: &[u8]) -> Result<u64, Fail> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let cursor = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
    let cursor = cursor.filter(|cursor| digits && *cursor < CURSORS);
    cursor.ok_or_else(|| super::text("ERR invalid cursor"))
}

/// The options of SCAN.
struct Options<'a> {
    pattern: &'a [u8],
    count: usize,
    /// Whether strings, which all values are, are among the wanted types.
    is_string: bool,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Options<'a>, Fail> {
        let mut options = Options { pattern: b"*", count: COUNT, is_string: true };
        let mut words = args.from(2);
        while let Some(word) = words.next() {
            let mut name = [0; 8];
            let name = super::uppercase(word, &mut name);
            let value = words.next().ok_or(Fail::Syntax)?;
            match name {
                b"COUNT" => {
                    let count = int(value)?;
                    options.count =
                        usize::try_from(count).ok().filter(|n| *n > 0).ok_or(Fail::Syntax)?;
                }
                b"MATCH" => options.pattern = value,
                b"TYPE" => options.is_string = value.eq_ignore_ascii_case(b"string"),
                _ => return Err(Fail::Syntax),
            }
        }
        Ok(options)
    }
}

/// Keys that match a pattern, as replies.
struct Keys<'p> {
    count: usize,
    replies: Out,
    pattern: &'p [u8],
}

impl Keys<'_> {
    fn add(&mut self, key: &[u8]) {
        if self.pattern == b"*" || glob::matches(self.pattern, key) {
            self.count += 1;
            self.replies.bulk(key);
        }
    }

    fn write(&self, out: &mut Out) {
        out.array(self.count);
        out.raw(self.replies.bytes());
    }
}

/// Passes about `limit` keys from a cursor on to `each`. Returns the next cursor, never 0; `None`
/// at the end. Expired keys are left out.
fn page(
    source: Source<'_>,
    cursor: u64,
    limit: usize,
    mut each: impl FnMut(&[u8]),
) -> Result<Option<u64>, Fail> {
    match source {
        Source::Log(store) => Ok(store.scan_from_with(cursor, limit, |entry| each(entry.key))?),
        Source::Table(TableRef::Exact(table), version, _) => {
            let version = version_bits(version);
            let at = position(cursor, version)?;
            let end = table_page([table].into_iter(), at, limit, &mut each)?;
            Ok(end.map(|at| at | version))
        }
        Source::Table(TableRef::Sharded(table), version, _) => {
            let version = version_bits(version);
            let at = position(cursor, version)?;
            let shards = table.shards().iter().map(|shard| &**shard);
            let end = table_page(shards, at, limit, &mut each)?;
            Ok(end.map(|at| at | version))
        }
        Source::Table(TableRef::Approximate(_), ..) => {
            Err(text("ERR an approximate table has no keys that could be listed"))
        }
    }
}

/// The version of a table as the high bits of a cursor.
fn version_bits(version: u64) -> u64 {
    (version << POSITION_BITS) % CURSORS
}

/// The position of a cursor. A position is valid for one version of a table.
fn position(cursor: u64, version: u64) -> Result<u64, Fail> {
    let at = cursor % (1 << POSITION_BITS);
    match at == 0 && cursor != 0 || at != 0 && cursor - at != version {
        true => Err(text("ERR the cursor is of another version of the table: begin again with 0")),
        false => Ok(at),
    }
}

/// Passes whole blocks of tables to `each`, from a block on. Returns the next block.
fn table_page<'t>(
    tables: impl Iterator<Item = &'t Table>,
    at: u64,
    limit: usize,
    each: &mut impl FnMut(&[u8]),
) -> Result<Option<u64>, Fail> {
    let (mut first, mut seen) = (0, 0);
    for table in tables {
        let blocks = table.stats().blocks;
        for block in at.max(first)..first + blocks {
            if seen >= limit {
                return Ok(Some(block));
            }
            table.scan(block - first, blocks, |key, _| {
                seen += 1;
                each(key);
                ControlFlow::Continue(())
            })?;
        }
        first += blocks;
    }
    Ok(None)
}

/// Passes all keys to `each`, until it returns false or the time is over. Takes no lock.
fn every_key(unit: &Unit<'_, '_>, mut each: impl FnMut(&[u8]) -> bool) -> Outcome {
    let (mut cursor, mut goes_on) = (Some(0), true);
    while let Some(at) = cursor.filter(|_| goes_on) {
        if let Some(deadline) = unit.deadline {
            deadline.check()?;
        }
        cursor = page(unit.source, at, PAGE, |key| goes_on = goes_on && each(key))?;
    }
    Ok(())
}

/// KEYS pattern
pub fn keys<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let mut keys = Keys { count: 0, replies: Out::default(), pattern: args.at(1) };
    let (most, most_bytes) = (unit.limits.keys, unit.limits.response_bytes);
    every_key(unit, |key| {
        keys.add(key);
        keys.count <= most && keys.replies.len() <= most_bytes
    })?;
    if keys.count > most || keys.replies.len() > most_bytes {
        let message = format!("ERR more than {most} keys, or too many bytes: use SCAN");
        return Err(Fail::Text(message.into()));
    }
    keys.write(out);
    Ok(())
}

/// RANDOMKEY
pub fn randomkey<'a>(unit: &mut Unit<'_, 'a>, _: Args<'a>, out: &mut Out) -> Outcome {
    let random = RandomState::new().build_hasher().finish();
    let start = match unit.source {
        Source::Log(_) => random % CURSORS,
        Source::Table(table, version, _) => {
            let blocks = match table {
                TableRef::Exact(table) => table.stats().blocks,
                TableRef::Sharded(table) => table.shards().iter().map(|s| s.stats().blocks).sum(),
                TableRef::Approximate(_) => 0,
            };
            match random.checked_rem(blocks) {
                None | Some(0) => 0,
                Some(block) => block | version_bits(version),
            }
        }
    };
    // A random position; from there to the next page that has a key, at the end from the start.
    let mut cursor = Some(start);
    let mut has_wrapped = start == 0;
    while let Some(at) = cursor {
        if let Some(deadline) = unit.deadline {
            deadline.check()?;
        }
        let (mut chosen, mut seen) = (None, 0);
        cursor = page(unit.source, at, COUNT, |key| {
            seen += 1;
            // Each key of the page is as likely as the others.
            if random.rotate_left(7 * seen).is_multiple_of(u64::from(seen)) {
                chosen = Some(key.to_vec());
            }
        })?;
        if let Some(key) = chosen {
            out.bulk(&key);
            return Ok(());
        }
        if cursor.is_none() && !has_wrapped {
            (cursor, has_wrapped) = (Some(0), true);
        }
    }
    out.null();
    Ok(())
}

/// DBSIZE
pub fn dbsize<'a>(unit: &mut Unit<'_, 'a>, _: Args<'a>, out: &mut Out) -> Outcome {
    out.count(unit.source.len());
    Ok(())
}

/// FLUSHDB [ASYNC | SYNC]
pub fn flushdb<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    let is_known = |word: &[u8]| matches!(super::uppercase(word, &mut [0; 8]), b"ASYNC" | b"SYNC");
    if args.count() > 2 || args.from(1).any(|word| !is_known(word)) {
        return Err(Fail::Syntax);
    }
    let Source::Log(store) = unit.source else { return Err(super::text(READ_ONLY)) };
    if !unit.may_flush {
        return Err(text("ERR FLUSHDB is disabled: see redis.flushdb in the configuration"));
    }
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let mut batch = Batch::new();
        cursor = store.scan_from_with(at, PAGE, |entry| batch.push_delete(entry.key))?;
        store.write(&batch)?;
    }
    out.ok();
    Ok(())
}

/// The error of a write to a store that is only read.
pub const READ_ONLY: &str = "READONLY You can't write against a read only replica.";

/// MEMORY USAGE key [SAMPLES count]
pub fn memory<'a>(unit: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    if super::uppercase(args.at(1), &mut [0; 8]) != b"USAGE" {
        return Err(Fail::subcommand("MEMORY", args.at(1)));
    }
    if args.count() < 3 {
        return Err(Fail::arity("memory|usage"));
    }
    match args.count() {
        3 => {}
        5 if super::uppercase(args.at(3), &mut [0; 8]) == b"SAMPLES" => {
            if int(args.at(4))? < 0 {
                return Err(Fail::Syntax);
            }
        }
        _ => return Err(Fail::Syntax),
    }
    let key = args.at(2);
    match unit.read(key, |found| found.map(|found| found.value.len()))? {
        Some(length) => out.count((key.len() + length + RECORD_OVERHEAD) as u64),
        None => out.null(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_digits_below_2_to_the_63() {
        assert_eq!(parse_cursor(b"0").ok(), Some(0));
        assert_eq!(parse_cursor(b"9223372036854775807").ok(), Some(CURSORS - 1));
        for wrong in ["", "-1", "+1", " 1", "x", "9223372036854775808", "99999999999999999999"] {
            assert!(parse_cursor(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cursor_of_a_table_is_valid_for_its_version() {
        for version in [0, 1, 7, u64::MAX] {
            let bits = version_bits(version);
            assert!(bits < CURSORS);
            assert_eq!(position(0, bits).ok(), Some(0));
            assert_eq!(position(5 | bits, bits).ok(), Some(5));
            assert!(position(5 | bits, version_bits(version ^ 1)).is_err());
        }
    }
}
