//! Log stores, their snapshots and iterators.

use crate::convert::{
    Part, Records, Unpack, bytes_of, long, new_array, new_longs, optional_bytes, path, too_large,
};
use crate::error::{Failure, Result};
use crate::handle::Handles;
use crate::table::TableRange;
use firndb::log::{
    Access, AppendMode, Batch, Durability, Expiry, Iter, LogStore, Options, Range, Snapshot, Stats,
    WriteOptions,
};
use firndb::{Error, KeyRange};
use jni::Env;
use jni::objects::{JByteArray, JByteBuffer, JLongArray, JString};
use jni::sys::{jdouble, jint, jlong};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub static STORES: Handles<LogStore, 8> = Handles::new("log store");
pub static SNAPSHOTS: Handles<Arc<Snapshot>, 2> = Handles::new("snapshot");
static ITERATORS: Handles<Arc<Mutex<Iteration>>, 1> = Handles::new("iterator");

/// An iteration over records of a log store, in the order of the log or of their keys, or over a
/// range of a table.
pub enum Iteration {
    LogOrder(Iter<'static>),
    KeyOrder(Range<'static>),
    Table(TableRange),
}

/// Absent keys in results that are numbers: a length, and a time of expiry.
const ABSENT: jint = -1;
const ABSENT_TIME: jlong = -2;
const NEVER: jlong = -1;

/// `LogOptions` as flags.
const CREATE: jint = 1;
const READ_ONLY: jint = 2;
const SYNC: jint = 4;
const BUFFERED: jint = 8;
const BACKGROUND: jint = 16;
const APPEND_MAP: jint = 32;
const APPEND_WRITE: jint = 64;
const ORDERED: jint = 128;

/// The numbers of `LogOptions`: segment, compaction rate, checkpoint.
type Sizes = (jlong, jlong, jlong);

pub fn open(
    env: &mut Env<'_>,
    at: &JString<'_>,
    flags: jint,
    (segment, rate, checkpoint): Sizes,
    threshold: jdouble,
) -> Result<jlong> {
    let has = |flag: jint| flags & flag != 0;
    let size = |bytes: jlong| u64::try_from(bytes).unwrap_or(0);
    let options = Options::new()
        .create(has(CREATE))
        .read_only(has(READ_ONLY))
        .durability(if has(SYNC) { Durability::Sync } else { Durability::Os })
        .access(if has(BUFFERED) { Access::Buffered } else { Access::Map })
        .append_mode(match (has(APPEND_MAP), has(APPEND_WRITE)) {
            (true, _) => AppendMode::Map,
            (_, true) => AppendMode::Write,
            _ => AppendMode::Auto,
        })
        .background(has(BACKGROUND))
        .ordered(has(ORDERED))
        .segment_bytes(size(segment))
        .compaction_rate(size(rate))
        .checkpoint_bytes(size(checkpoint))
        .compaction_threshold(threshold);
    Ok(STORES.insert(LogStore::open_with(path(env, at)?, options)?)?)
}

pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    match STORES.close(handle)? {
        Some(store) => Ok(store.close()?),
        None => Ok(()),
    }
}

/// Calls `call` with an open store.
fn with<R>(handle: jlong, call: impl FnOnce(&LogStore) -> firndb::Result<R>) -> Result<R> {
    Ok(STORES.with(handle, call)??)
}

/// A value, with its version and its expiry in `details`.
pub fn get_versioned<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    key: &Part<'l>,
    details: &JLongArray<'_>,
) -> Result<JByteArray<'l>> {
    key.with_key(env, |env, key| {
        let found = with(handle, |store| store.get_versioned(key))?;
        let Some(found) = found else { return Ok(JByteArray::default()) };
        details.set_region(env, 0, &[found.version.cast_signed(), time(found.expiry)])?;
        new_array(env, &found.value)
    })
}

fn time(expiry: Expiry) -> jlong {
    expiry.millis().map_or(NEVER, long)
}

/// The length of a value, or -1.
pub fn value_length<'l>(env: &mut Env<'l>, handle: jlong, key: &Part<'l>) -> Result<jlong> {
    key.with_key(env, |_, key| {
        let length = with(handle, |store| store.value_len(key))?;
        Ok(length.map_or(jlong::from(ABSENT), long))
    })
}

pub fn expiry<'l>(env: &mut Env<'l>, handle: jlong, key: &Part<'l>) -> Result<jlong> {
    key.with_key(env, |_, key| {
        Ok(with(handle, |store| store.expiry(key))?.map_or(ABSENT_TIME, time))
    })
}

/// `WriteOptions` as numbers.
#[derive(Clone, Copy)]
pub struct Write {
    pub durability: jint,
    pub lifetime: jint,
    pub time: jlong,
}

/// What `Write::lifetime` means.
const TTL: jint = 1;
const AT: jint = 2;
const FOREVER: jint = 3;

impl Write {
    fn options(self) -> WriteOptions {
        let options = match self.durability {
            0 => WriteOptions::new().durability(Durability::Os),
            1 => WriteOptions::new().durability(Durability::Sync),
            _ => WriteOptions::new(),
        };
        let time = u64::try_from(self.time).unwrap_or(0);
        match self.lifetime {
            TTL => options.ttl(Duration::from_millis(time)),
            AT => options.expiry(Expiry::At(time)),
            FOREVER => options.expiry(Expiry::Never),
            _ => options,
        }
    }
}

pub fn put<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    key: &Part<'l>,
    value: &Part<'l>,
    write: Write,
) -> Result<()> {
    let options = write.options();
    key.with_key(env, |env, key| {
        value.with_value(env, |_, value| with(handle, |store| store.put_with(key, value, options)))
    })
}

pub fn delete<'l>(env: &mut Env<'l>, handle: jlong, key: &Part<'l>, write: Write) -> Result<bool> {
    let options = write.options();
    key.with_key(env, |_, key| with(handle, |store| store.delete_with(key, options)))
}

pub fn append<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    key: &Part<'l>,
    bytes: &Part<'l>,
    write: Write,
) -> Result<jlong> {
    let options = write.options();
    key.with_key(env, |env, key| {
        bytes.with_value(env, |_, bytes| {
            Ok(long(with(handle, |store| store.append_with(key, bytes, options))?))
        })
    })
}

/// `expected` and `new` are null for an absent key.
pub fn compare_and_set<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    key: &Part<'l>,
    expected: &JByteArray<'_>,
    new: &JByteArray<'_>,
    write: Write,
) -> Result<bool> {
    let options = write.options();
    let (expected, new) = (optional_bytes(env, expected)?, optional_bytes(env, new)?);
    key.with_key(env, |_, key| {
        with(handle, |store| {
            store.compare_and_set_with(key, expected.as_deref(), new.as_deref(), options)
        })
    })
}

pub fn set_expiry<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    key: &Part<'l>,
    write: Write,
) -> Result<bool> {
    let options = write.options();
    key.with_key(env, |_, key| with(handle, |store| store.set_expiry_with(key, options)))
}

/// An array of Java of which the first `length` bytes are used.
pub struct Packed<'l> {
    pub bytes: JByteArray<'l>,
    pub length: jint,
}

impl<'l> Packed<'l> {
    /// Copies the bytes and passes them to `call`. A few bytes are copied to the stack.
    #[inline]
    pub fn with<R>(
        self,
        env: &mut Env<'l>,
        call: impl FnOnce(&mut Env<'l>, &[u8]) -> Result<R>,
    ) -> Result<R> {
        Part::new(self.bytes, JByteBuffer::default(), 0, self.length).with_key(env, call)
    }
}

/// Writes a batch, if the conditions hold. No conditions are null.
pub fn write(
    env: &mut Env<'_>,
    handle: jlong,
    changes: &Packed<'_>,
    conditions: &Packed<'_>,
    write: Write,
) -> Result<bool> {
    let changes = bytes_of(env, &changes.bytes, changes.length)?;
    let batch = unpack_batch(&changes)?;
    let options = write.options();
    if conditions.bytes.is_null() {
        with(handle, |store| store.write_with(&batch, options))?;
        return Ok(true);
    }
    let packed = bytes_of(env, &conditions.bytes, conditions.length)?;
    let conditions = unpack_conditions(&packed)?;
    with(handle, |store| store.write_if_with(&conditions, &batch, options))
}

/// The kinds of changes of a packed batch.
const DELETE: u8 = 0;
const PUT: u8 = 1;
const PUT_TTL: u8 = 2;
const PUT_AT: u8 = 3;
const PUT_FOREVER: u8 = 4;

/// Reads a batch: for each change its kind, the time for `PUT_TTL` and `PUT_AT`, the key, and the
/// value of a put.
fn unpack_batch(packed: &[u8]) -> Result<Batch> {
    let (mut batch, mut unpack) = (Batch::new(), Unpack(packed));
    while !unpack.0.is_empty() {
        let kind = unpack.byte()?;
        let time = match kind {
            PUT_TTL | PUT_AT => u64::try_from(unpack.long()?).unwrap_or(0),
            _ => 0,
        };
        let key = unpack.bytes()?;
        batch = match kind {
            DELETE => batch.delete(key),
            PUT => batch.put(key, unpack.bytes()?),
            PUT_TTL => batch.put_ttl(key, unpack.bytes()?, Duration::from_millis(time)),
            PUT_AT => batch.put_expiring(key, unpack.bytes()?, Expiry::At(time)),
            PUT_FOREVER => batch.put_expiring(key, unpack.bytes()?, Expiry::Never),
            _ => return Err(Error::invalid(format!("unknown change {kind}")).into()),
        };
    }
    Ok(batch)
}

/// Reads conditions: for each key whether it must be present, its version, the key.
fn unpack_conditions(packed: &[u8]) -> Result<Vec<(&[u8], Option<u64>)>> {
    let (mut conditions, mut unpack) = (Vec::new(), Unpack(packed));
    while !unpack.0.is_empty() {
        let is_present = unpack.byte()? != 0;
        let version = unpack.long()?.cast_unsigned();
        conditions.push((unpack.bytes()?, is_present.then_some(version)));
    }
    Ok(conditions)
}

pub fn length(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |store| Ok(long(store.len())))
}

pub fn is_ordered(_: &mut Env<'_>, handle: jlong) -> Result<bool> {
    with(handle, |store| Ok(store.is_ordered()))
}

pub fn refresh(_: &mut Env<'_>, handle: jlong) -> Result<bool> {
    with(handle, LogStore::refresh)
}

pub fn promote(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    with(handle, LogStore::promote)
}

pub fn sync(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    with(handle, LogStore::sync)
}

pub fn maintain(_: &mut Env<'_>, handle: jlong) -> Result<bool> {
    with(handle, LogStore::maintain)
}

pub fn compact(_: &mut Env<'_>, handle: jlong, threshold: jdouble) -> Result<jlong> {
    with(handle, |store| Ok(long(store.compact(threshold)? as u64)))
}

pub fn pause_compaction(_: &mut Env<'_>, handle: jlong, pause: bool) -> Result<()> {
    with(handle, |store| {
        if pause {
            store.pause_compaction()
        } else {
            store.resume_compaction()
        }
        Ok(())
    })
}

/// The numbers of `LogStore.Stats`, in the order of its components; then those of each segment.
pub fn stats<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JLongArray<'l>> {
    let stats = with(handle, |store| Ok(store.stats()))?;
    new_longs(env, &numbers(&stats))
}

fn numbers(stats: &Stats) -> Vec<jlong> {
    let real = |number: f64| number.to_bits().cast_signed();
    let recovery = &stats.recovery;
    let mode = match stats.append_mode {
        AppendMode::Map => 1,
        AppendMode::Write => 2,
        _ => 0,
    };
    let counts = [
        stats.keys,
        stats.segments,
        stats.disk_bytes,
        stats.held_bytes,
        stats.live_bytes,
        stats.index_bytes,
        stats.key_runs,
        stats.key_run_bytes,
        stats.tail_bytes,
        stats.puts,
        stats.deletes,
        stats.user_bytes,
        stats.log_bytes,
        stats.syncs,
        stats.false_reads,
        stats.moved_bytes,
        stats.moved_records,
        stats.scanned_records,
        stats.removed_bytes,
        stats.pending_segments,
        stats.maintenance_bytes,
        stats.backups,
        stats.segments_removed,
        recovery.dropped_bytes,
        recovery.dropped_files,
        recovery.hinted_segments,
        recovery.scanned_segments,
    ];
    let mut numbers: Vec<jlong> = counts.map(long).into();
    numbers.extend([
        mode,
        jlong::from(stats.is_ordered),
        jlong::from(stats.is_compacting),
        real(stats.compaction_seconds),
        real(recovery.seconds),
        real(stats.seconds),
    ]);
    for segment in &stats.segment_stats {
        numbers.extend([
            long(segment.number),
            long(segment.disk_bytes),
            long(segment.used_bytes),
            long(segment.live_bytes),
            long(segment.delete_bytes),
            real(segment.stale_share),
            jlong::from(segment.is_sealed),
        ]);
    }
    numbers
}

pub fn verify<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JLongArray<'l>> {
    let verified = with(handle, LogStore::verify)?;
    new_longs(env, &[verified.files, verified.bytes, verified.records].map(long))
}

pub fn backup<'l>(env: &mut Env<'l>, handle: jlong, to: &JString<'_>) -> Result<JLongArray<'l>> {
    let to = path(env, to)?;
    let made = with(handle, |store| store.backup(to))?;
    new_longs(env, &[made.segments, made.kept, made.copied].map(long))
}

pub fn restore<'l>(
    env: &mut Env<'l>,
    from: &JString<'_>,
    to: &JString<'_>,
) -> Result<JLongArray<'l>> {
    let made = LogStore::restore(path(env, from)?, path(env, to)?)?;
    new_longs(env, &[made.keys, made.records, made.segments, made.bytes].map(long))
}

/// Records, keys, ranges of dropped bytes, dropped bytes.
pub fn repair<'l>(
    env: &mut Env<'l>,
    from: &JString<'_>,
    to: &JString<'_>,
) -> Result<JLongArray<'l>> {
    let made = LogStore::repair(path(env, from)?, path(env, to)?)?;
    let dropped = made.dropped.iter().map(|(_, _, bytes)| bytes).sum();
    let numbers = [made.records, made.keys, made.dropped.len() as u64, dropped];
    new_longs(env, &numbers.map(long))
}

/// A page of records after 8 bytes with the cursor of the next page, or -1.
pub fn scan<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    cursor: jlong,
    limit: jint,
) -> Result<JByteArray<'l>> {
    let cursor = cursor.cast_unsigned();
    let limit = usize::try_from(limit).unwrap_or(0);
    let (mut page, mut fits) = (Records(vec![0; 8]), true);
    let next = with(handle, |store| {
        store.scan_from_with(cursor, limit, |entry| fits &= page.push(entry.key, entry.value))
    })?;
    finish_page(env, page, fits, next)
}

/// The array of a page: see [`scan`].
pub fn finish_page<'l>(
    env: &mut Env<'l>,
    mut page: Records,
    fits: bool,
    next: Option<u64>,
) -> Result<JByteArray<'l>> {
    if !fits {
        return Err(too_large());
    }
    page.0[..8].copy_from_slice(&next.map_or(-1, long).to_le_bytes());
    new_array(env, &page.0)
}

pub fn snapshot(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    let snapshot = with(handle, |store| Ok(store.snapshot()))?;
    Ok(SNAPSHOTS.insert(Arc::new(snapshot))?)
}

/// Calls `call` with an open snapshot.
fn with_snapshot<R>(
    handle: jlong,
    call: impl FnOnce(&Arc<Snapshot>) -> firndb::Result<R>,
) -> Result<R> {
    Ok(SNAPSHOTS.with(handle, call)??)
}

pub fn snapshot_close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    SNAPSHOTS.close(handle)?;
    Ok(())
}

pub fn snapshot_expiry<'l>(env: &mut Env<'l>, handle: jlong, key: &Part<'l>) -> Result<jlong> {
    key.with_key(env, |_, key| {
        Ok(with_snapshot(handle, |s| s.expiry(key))?.map_or(ABSENT_TIME, time))
    })
}

pub fn iterate(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    let records = with(handle, |store| Ok(store.iter()))?;
    begin(Iteration::LogOrder(records))
}

pub fn snapshot_iterate(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    let records = with_snapshot(handle, |snapshot| Ok(snapshot.iter_shared()))?;
    begin(Iteration::LogOrder(records))
}

pub fn range(_: &mut Env<'_>, handle: jlong, range: KeyRange, reverse: bool) -> Result<jlong> {
    begin_in_order(with(handle, |store| store.range(range))?, reverse)
}

pub fn snapshot_range(
    _: &mut Env<'_>,
    handle: jlong,
    range: KeyRange,
    reverse: bool,
) -> Result<jlong> {
    begin_in_order(with_snapshot(handle, |snapshot| snapshot.range_shared(range))?, reverse)
}

fn begin_in_order(records: Range<'static>, reverse: bool) -> Result<jlong> {
    begin(Iteration::KeyOrder(if reverse { records.reversed() } else { records }))
}

/// A handle for an iteration.
pub fn begin(iteration: Iteration) -> Result<jlong> {
    Ok(ITERATORS.insert(Arc::new(Mutex::new(iteration)))?)
}

/// The keys from `from` on and before `to`; null is no bound.
pub fn keys_between(env: &Env<'_>, from: &JByteArray<'_>, to: &JByteArray<'_>) -> Result<KeyRange> {
    let (from, to) = (optional_bytes(env, from)?, optional_bytes(env, to)?);
    let from = from.map_or(Bound::Unbounded, Bound::Included);
    Ok(KeyRange::new(from, to.map_or(Bound::Unbounded, Bound::Excluded)))
}

/// The keys that begin with `prefix`.
pub fn keys_with_prefix(env: &Env<'_>, prefix: &JByteArray<'_>) -> Result<KeyRange> {
    Ok(KeyRange::prefix(optional_bytes(env, prefix)?.unwrap_or_default()))
}

pub fn iterator_close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    ITERATORS.close(handle)?;
    Ok(())
}

/// The next records, about `bytes` of them; an empty array at the end.
pub fn iterator_next<'l>(env: &mut Env<'l>, handle: jlong, bytes: jint) -> Result<JByteArray<'l>> {
    let bytes = usize::try_from(bytes).unwrap_or(0).max(1);
    let read = |iteration: &Arc<Mutex<Iteration>>| {
        let mut iteration = iteration.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ready = Records::default();
        while ready.0.len() < bytes {
            let take = |key: &[u8], value: &[u8]| ready.push(key, value);
            let read = match &mut *iteration {
                Iteration::LogOrder(records) => records.next_with(take),
                Iteration::KeyOrder(records) => records.next_with(take),
                Iteration::Table(range) => {
                    range.next_page(bytes, &mut ready)?;
                    break;
                }
            };
            let Some(fits) = read else { break };
            if !fits? {
                return Err(too_large());
            }
        }
        Ok::<_, Failure>(ready)
    };
    let ready = ITERATORS.with(handle, read)??;
    new_array(env, &ready.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_unpacked() {
        let part = |kind: u8, time: Option<i64>, parts: &[&str]| {
            let mut packed = vec![kind];
            packed.extend(time.into_iter().flat_map(i64::to_le_bytes));
            for part in parts {
                packed.extend((part.len() as u32).to_le_bytes());
                packed.extend(part.bytes());
            }
            packed
        };
        let packed = [
            part(PUT, None, &["a", "1"]),
            part(PUT_TTL, Some(5), &["b", ""]),
            part(PUT_AT, Some(i64::MAX), &["", "3"]),
            part(PUT_FOREVER, None, &["d", "4"]),
            part(DELETE, None, &["e"]),
        ]
        .concat();
        assert_eq!(unpack_batch(&packed).ok().map(|batch| batch.len()), Some(5));
        for cut in 1..packed.len() {
            let changes = unpack_batch(&packed[..cut]).ok().map(|batch| batch.len());
            assert!(changes.is_none_or(|changes| changes < 5), "{cut}");
        }
        assert!(unpack_batch(&[9, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn numbers_of_write_options_are_understood() {
        let write = |durability, lifetime, time| Write { durability, lifetime, time }.options();
        assert_eq!(write(-1, 0, 0), WriteOptions::new());
        assert_eq!(write(1, TTL, 7), WriteOptions::sync().ttl(Duration::from_millis(7)));
        assert_eq!(write(-1, AT, -1), WriteOptions::new().expiry(Expiry::At(0)));
        assert_eq!(write(-1, FOREVER, 0), WriteOptions::new().expiry(Expiry::Never));
    }
}
