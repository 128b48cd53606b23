//! The table of native methods.
//!
//! A key, a value or a destination is four arguments: see [`Part`]. A write has three for its
//! options: see [`Write`]. `id` is a handle.

use super::{Described, Method, run};
use crate::convert::{Part, new_strings};
use crate::log::{self, Keys, Packed, Write};
use crate::{approximate, table};
use firndb::ErrorKind;
use jni::EnvUnowned;
use jni::objects::{
    JByteArray, JByteBuffer, JIntArray, JLongArray, JObject, JObjectArray, JString,
};
use jni::sys::{jboolean, jdouble, jint, jlong};
use std::ffi::c_void;

/// Defines the functions and the table. `$l` is the lifetime of the arguments.
macro_rules! methods {
    ($l:lifetime; $(
        fn $name:ident($env:ident $(, $argument:ident: $type:ty)* $(,)?) -> $result:ty
            $body:block
    )*) => {
        /// The functions under the names of the methods.
        #[allow(non_snake_case, clippy::too_many_arguments)]
        mod functions {
            use super::*;
            $(
                pub extern "system" fn $name<$l>(
                    env: EnvUnowned<$l>,
                    _receiver: JObject<$l>,
                    $($argument: $type,)*
                ) -> $result {
                    run(env, |$env| $body)
                }
            )*
        }

        /// All methods.
        #[rustfmt::skip]
        #[allow(clippy::extra_unused_lifetimes, reason = "of the types")]
        pub fn all<$l>() -> Vec<Method> {
            vec![$(Method {
                name: stringify!($name),
                signature: [
                    "(", $(<$type as Described>::NAME,)* ")", <$result as Described>::NAME,
                ].concat(),
                function: functions::$name as *mut c_void,
            },)*]
        }
    };
}

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
    fn logGet(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> JByteArray<'l> {
        log::get(env, id, &Part::new(key, key_buffer, key_offset, key_length))
    }
    fn logGetInto(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, to: JByteArray<'l>, to_buffer: JByteBuffer<'l>, to_offset: jint,
        to_length: jint,
    ) -> jint {
        log::get_into(
            env,
            id,
            &Part::new(key, key_buffer, key_offset, key_length),
            &Part::new(to, to_buffer, to_offset, to_length),
        )
    }
    fn logGetVersioned(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, details: JLongArray<'l>,
    ) -> JByteArray<'l> {
        log::get_versioned(env, id, &Part::new(key, key_buffer, key_offset, key_length), &details)
    }
    fn logContains(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> jboolean {
        log::contains(env, id, &Part::new(key, key_buffer, key_offset, key_length))
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
    fn logGetMany(
        env, id: jlong, keys: JByteArray<'l>, keys_length: jint, ends: JIntArray<'l>, from: jint,
        count: jint, lengths: JIntArray<'l>,
    ) -> JByteArray<'l> {
        log::get_many(
            env,
            id,
            &Keys { bytes: keys, length: keys_length, ends, from, count },
            &lengths,
        )
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
    fn logRefresh(env, id: jlong) -> jboolean {
        log::refresh(env, id)
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
    fn snapshotGet(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> JByteArray<'l> {
        log::snapshot_get(env, id, &Part::new(key, key_buffer, key_offset, key_length))
    }
    fn snapshotContains(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> jboolean {
        log::snapshot_contains(env, id, &Part::new(key, key_buffer, key_offset, key_length))
    }
    fn snapshotExpiry(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> jlong {
        log::snapshot_expiry(env, id, &Part::new(key, key_buffer, key_offset, key_length))
    }
    fn snapshotGetMany(
        env, id: jlong, keys: JByteArray<'l>, keys_length: jint, ends: JIntArray<'l>, from: jint,
        count: jint, lengths: JIntArray<'l>,
    ) -> JByteArray<'l> {
        log::snapshot_get_many(
            env,
            id,
            &Keys { bytes: keys, length: keys_length, ends, from, count },
            &lengths,
        )
    }
    fn snapshotIterate(env, id: jlong) -> jlong {
        log::snapshot_iterate(env, id)
    }
    fn iteratorNext(env, id: jlong, bytes: jint) -> JByteArray<'l> {
        log::iterator_next(env, id, bytes)
    }
    fn iteratorClose(env, id: jlong) -> () {
        log::iterator_close(env, id)
    }

    // Tables and their builder.
    fn tableOpen(env, at: JString<'l>, access: jint) -> jlong {
        table::open(env, &at, access)
    }
    fn tableClose(env, id: jlong) -> () {
        table::close(env, id)
    }
    fn tableGet(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> JByteArray<'l> {
        table::get(env, id, &Part::new(key, key_buffer, key_offset, key_length))
    }
    fn tableGetInto(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, to: JByteArray<'l>, to_buffer: JByteBuffer<'l>, to_offset: jint,
        to_length: jint,
    ) -> jint {
        table::get_into(
            env,
            id,
            &Part::new(key, key_buffer, key_offset, key_length),
            &Part::new(to, to_buffer, to_offset, to_length),
        )
    }
    fn tableContains(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> jboolean {
        table::contains(env, id, &Part::new(key, key_buffer, key_offset, key_length))
    }
    fn tableGetMany(
        env, id: jlong, keys: JByteArray<'l>, keys_length: jint, ends: JIntArray<'l>, from: jint,
        count: jint, lengths: JIntArray<'l>,
    ) -> JByteArray<'l> {
        table::get_many(
            env,
            id,
            &Keys { bytes: keys, length: keys_length, ends, from, count },
            &lengths,
        )
    }
    fn tableLength(env, id: jlong) -> jlong {
        table::length(env, id)
    }
    fn tableStats(env, id: jlong) -> JLongArray<'l> {
        table::stats(env, id)
    }
    fn tableMetadata(env, id: jlong) -> JByteArray<'l> {
        table::metadata(env, id)
    }
    fn tableVerify(env, id: jlong) -> JLongArray<'l> {
        table::verify(env, id)
    }
    fn tableValueSchema(env, id: jlong) -> JString<'l> {
        table::value_schema(env, id)
    }
    fn tableContentId(env, id: jlong) -> JByteArray<'l> {
        table::content_id(env, id)
    }
    fn tableScan(env, id: jlong, cursor: jlong, limit: jint) -> JByteArray<'l> {
        table::scan(env, id, cursor, limit)
    }
    fn tableBuilderCreate(
        env, at: JString<'l>, block_size: jint, compression: jint, level: jint, filter_bits: jint,
        duplicates: jint, memory_limit: jlong, temp_dir: JString<'l>, threads: jint,
        metadata: JByteArray<'l>, value_schema: JString<'l>,
    ) -> jlong {
        let given = table::BuildArguments {
            block_size, compression, level, filter_bits, duplicates, memory_limit, temp_dir,
            threads, metadata, value_schema,
        };
        table::builder_create(env, &at, &given)
    }
    fn tableBuilderAdd(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, value: JByteArray<'l>, value_buffer: JByteBuffer<'l>,
        value_offset: jint, value_length: jint,
    ) -> () {
        table::builder_add(
            env,
            id,
            &Part::new(key, key_buffer, key_offset, key_length),
            &Part::new(value, value_buffer, value_offset, value_length),
        )
    }
    fn tableBuilderAddAll(env, id: jlong, records: JByteArray<'l>, length: jint) -> () {
        table::builder_add_all(env, id, &Packed { bytes: records, length })
    }
    fn tableBuilderRecords(env, id: jlong) -> jlong {
        table::builder_records(env, id)
    }
    fn tableBuilderClose(env, id: jlong) -> () {
        table::builder_close(env, id)
    }
    fn tableBuilderFinish(env, id: jlong, progress: JObject<'l>) -> JLongArray<'l> {
        table::builder_finish(env, id, &progress)
    }

    // Approximate tables and their builder.
    fn approximateOpen(env, at: JString<'l>, access: jint) -> jlong {
        approximate::open(env, &at, access)
    }
    fn approximateClose(env, id: jlong) -> () {
        approximate::close(env, id)
    }
    fn approximateGet(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> JByteArray<'l> {
        approximate::get(env, id, &Part::new(key, key_buffer, key_offset, key_length))
    }
    fn approximateGetInto(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, to: JByteArray<'l>, to_buffer: JByteBuffer<'l>, to_offset: jint,
        to_length: jint,
    ) -> jint {
        approximate::get_into(
            env,
            id,
            &Part::new(key, key_buffer, key_offset, key_length),
            &Part::new(to, to_buffer, to_offset, to_length),
        )
    }
    fn approximateContains(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint,
    ) -> jboolean {
        approximate::contains(env, id, &Part::new(key, key_buffer, key_offset, key_length))
    }
    fn approximateGetMany(
        env, id: jlong, keys: JByteArray<'l>, keys_length: jint, ends: JIntArray<'l>, from: jint,
        count: jint, lengths: JIntArray<'l>,
    ) -> JByteArray<'l> {
        approximate::get_many(
            env,
            id,
            &Keys { bytes: keys, length: keys_length, ends, from, count },
            &lengths,
        )
    }
    fn approximateLength(env, id: jlong) -> jlong {
        approximate::length(env, id)
    }
    fn approximateStats(env, id: jlong) -> JLongArray<'l> {
        approximate::stats(env, id)
    }
    fn approximateMetadata(env, id: jlong) -> JByteArray<'l> {
        approximate::metadata(env, id)
    }
    fn approximateVerify(env, id: jlong) -> JLongArray<'l> {
        approximate::verify(env, id)
    }
    fn approximateBuilderCreate(
        env, at: JString<'l>, value_width: jint, fingerprint_bits: jint, duplicates: jint,
        memory_limit: jlong, temp_dir: JString<'l>, threads: jint, metadata: JByteArray<'l>,
    ) -> jlong {
        let given = approximate::BuildArguments {
            value_width, fingerprint_bits, duplicates, memory_limit, temp_dir, threads, metadata,
        };
        approximate::builder_create(env, &at, &given)
    }
    fn approximateBuilderAdd(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, value: JByteArray<'l>, value_buffer: JByteBuffer<'l>,
        value_offset: jint, value_length: jint,
    ) -> () {
        approximate::builder_add(
            env,
            id,
            &Part::new(key, key_buffer, key_offset, key_length),
            &Part::new(value, value_buffer, value_offset, value_length),
        )
    }
    fn approximateBuilderAddAll(env, id: jlong, records: JByteArray<'l>, length: jint) -> () {
        approximate::builder_add_all(env, id, &Packed { bytes: records, length })
    }
    fn approximateBuilderRecords(env, id: jlong) -> jlong {
        approximate::builder_records(env, id)
    }
    fn approximateBuilderClose(env, id: jlong) -> () {
        approximate::builder_close(env, id)
    }
    fn approximateBuilderFinish(env, id: jlong) -> JLongArray<'l> {
        approximate::builder_finish(env, id)
    }

    // For tests.

    fn methods(env) -> JObjectArray<'l, JString<'l>> {
        let names = all().into_iter().map(|method| method.name.to_string() + &method.signature);
        new_strings(env, names.collect())
    }

    fn errorKinds(env) -> JObjectArray<'l, JString<'l>> {
        let kind = |kind: ErrorKind| {
            format!("{} {} {}", kind.exit_code(), kind.name(), kind.java_base())
        };
        new_strings(env, ErrorKind::ALL.map(kind).to_vec())
    }
    fn panic(env, message: JString<'l>) -> () {
        panic!("{}", message.try_to_string(env)?)
    }
}
