//! Native methods of log stores, snapshots and iterators.

use super::{Described, Method, methods, run};
use crate::convert::Part;
use crate::log::{self, Packed, Write};
use jni::EnvUnowned;
use jni::objects::{JByteArray, JByteBuffer, JLongArray, JObject, JString};
use jni::sys::{jboolean, jdouble, jint, jlong};
use std::ffi::c_void;

methods! { 'l;

    // Log stores.
    fn logOpen(
        env, at: JString<'l>, flags: jint, segment: jlong, rate: jlong, checkpoint: jlong,
        threshold: jdouble,
    ) -> jlong {
        log::open(env, &at, flags, (segment, rate, checkpoint), threshold)
    }
    fn logClose(env, id: jlong) -> () {
        log::close(env, id)
    }
    fn logGetVersioned(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, details: JLongArray<'l>,
    ) -> JByteArray<'l> {
        log::get_versioned(env, id, &Part::new(key, key_buffer, key_offset, key_length), &details)
    }
    fn logValueLength(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> jlong {
        log::value_length(env, id, &Part::new(key, key_buffer, key_offset, key_length))
    }
    fn logExpiry(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> jlong {
        log::expiry(env, id, &Part::new(key, key_buffer, key_offset, key_length))
    }
    fn logPut(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, value: JByteArray<'l>, value_buffer: JByteBuffer<'l>,
        value_offset: jint, value_length: jint, durability: jint, lifetime: jint, time: jlong,
    ) -> () {
        log::put(
            env,
            id,
            &Part::new(key, key_buffer, key_offset, key_length),
            &Part::new(value, value_buffer, value_offset, value_length),
            Write { durability, lifetime, time },
        )
    }
    fn logDelete(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, durability: jint, lifetime: jint, time: jlong,
    ) -> jboolean {
        log::delete(
            env,
            id,
            &Part::new(key, key_buffer, key_offset, key_length),
            Write { durability, lifetime, time },
        )
    }
    fn logAppend(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, value: JByteArray<'l>, value_buffer: JByteBuffer<'l>,
        value_offset: jint, value_length: jint, durability: jint, lifetime: jint, time: jlong,
    ) -> jlong {
        log::append(
            env,
            id,
            &Part::new(key, key_buffer, key_offset, key_length),
            &Part::new(value, value_buffer, value_offset, value_length),
            Write { durability, lifetime, time },
        )
    }
    fn logCompareAndSet(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, expected: JByteArray<'l>, new: JByteArray<'l>, durability: jint,
        lifetime: jint, time: jlong,
    ) -> jboolean {
        log::compare_and_set(
            env,
            id,
            &Part::new(key, key_buffer, key_offset, key_length),
            &expected,
            &new,
            Write { durability, lifetime, time },
        )
    }
    fn logSetExpiry(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, durability: jint, lifetime: jint, time: jlong,
    ) -> jboolean {
        log::set_expiry(
            env,
            id,
            &Part::new(key, key_buffer, key_offset, key_length),
            Write { durability, lifetime, time },
        )
    }
    fn logWrite(
        env, id: jlong, changes: JByteArray<'l>, changes_length: jint, conditions: JByteArray<'l>,
        conditions_length: jint, durability: jint, lifetime: jint, time: jlong,
    ) -> jboolean {
        let changes = Packed { bytes: changes, length: changes_length };
        let conditions = Packed { bytes: conditions, length: conditions_length };
        log::write(env, id, &changes, &conditions, Write { durability, lifetime, time })
    }
    fn logLength(env, id: jlong) -> jlong {
        log::length(env, id)
    }
    fn logIsOrdered(env, id: jlong) -> jboolean {
        log::is_ordered(env, id)
    }
    fn logRefresh(env, id: jlong) -> jboolean {
        log::refresh(env, id)
    }
    fn logPromote(env, id: jlong) -> () {
        log::promote(env, id)
    }
    fn logSync(env, id: jlong) -> () {
        log::sync(env, id)
    }
    fn logMaintain(env, id: jlong) -> jboolean {
        log::maintain(env, id)
    }
    fn logStats(env, id: jlong) -> JLongArray<'l> {
        log::stats(env, id)
    }
    fn logVerify(env, id: jlong) -> JLongArray<'l> {
        log::verify(env, id)
    }
    fn logSnapshot(env, id: jlong) -> jlong {
        log::snapshot(env, id)
    }
    fn logIterate(env, id: jlong) -> jlong {
        log::iterate(env, id)
    }
    fn logRange(
        env, id: jlong, from: JByteArray<'l>, to: JByteArray<'l>, reverse: jboolean,
    ) -> jlong {
        let range = log::keys_between(env, &from, &to)?;
        log::range(env, id, range, reverse)
    }
    fn logPrefix(env, id: jlong, prefix: JByteArray<'l>, reverse: jboolean) -> jlong {
        let range = log::keys_with_prefix(env, &prefix)?;
        log::range(env, id, range, reverse)
    }
    fn logCompact(env, id: jlong, threshold: jdouble) -> jlong {
        log::compact(env, id, threshold)
    }
    fn logPauseCompaction(env, id: jlong, pause: jboolean) -> () {
        log::pause_compaction(env, id, pause)
    }
    fn logBackup(env, id: jlong, to: JString<'l>) -> JLongArray<'l> {
        log::backup(env, id, &to)
    }
    fn logRestore(env, from: JString<'l>, to: JString<'l>) -> JLongArray<'l> {
        log::restore(env, &from, &to)
    }
    fn logRepair(env, from: JString<'l>, to: JString<'l>) -> JLongArray<'l> {
        log::repair(env, &from, &to)
    }
    fn logScan(env, id: jlong, cursor: jlong, limit: jint) -> JByteArray<'l> {
        log::scan(env, id, cursor, limit)
    }

    // Snapshots and iterators of log stores.
    fn snapshotClose(env, id: jlong) -> () {
        log::snapshot_close(env, id)
    }
    fn snapshotExpiry(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> jlong {
        log::snapshot_expiry(env, id, &Part::new(key, key_buffer, key_offset, key_length))
    }
    fn snapshotIterate(env, id: jlong) -> jlong {
        log::snapshot_iterate(env, id)
    }
    fn snapshotRange(
        env, id: jlong, from: JByteArray<'l>, to: JByteArray<'l>, reverse: jboolean,
    ) -> jlong {
        let range = log::keys_between(env, &from, &to)?;
        log::snapshot_range(env, id, range, reverse)
    }
    fn snapshotPrefix(env, id: jlong, prefix: JByteArray<'l>, reverse: jboolean) -> jlong {
        let range = log::keys_with_prefix(env, &prefix)?;
        log::snapshot_range(env, id, range, reverse)
    }
    fn iteratorNext(env, id: jlong, bytes: jint) -> JByteArray<'l> {
        log::iterator_next(env, id, bytes)
    }
    fn iteratorClose(env, id: jlong) -> () {
        log::iterator_close(env, id)
    }
}
