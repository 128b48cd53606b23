//! Native methods of tables, approximate tables and their builders.

use super::{Described, Method, methods, run};
use crate::convert::Part;
use crate::log::{self, Packed};
use crate::{approximate, building, table};
use jni::EnvUnowned;
use jni::objects::{JByteArray, JByteBuffer, JLongArray, JObject, JString};
use jni::sys::{jboolean, jint, jlong};
use std::ffi::c_void;

methods! { 'l;

    // Tables and their builder.
    fn tableOpen(env, at: JString<'l>, access: jint) -> jlong {
        table::open(env, &at, access)
    }
    fn tableClose(env, id: jlong) -> () {
        table::close(env, id)
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
    fn tablePath(env, id: jlong) -> JString<'l> {
        table::file(env, id)
    }
    fn tableContentId(env, id: jlong) -> JByteArray<'l> {
        table::content_id(env, id)
    }
    fn tableScan(env, id: jlong, cursor: jlong, limit: jint) -> JByteArray<'l> {
        table::scan(env, id, cursor, limit)
    }
    fn tableIsOrdered(env, id: jlong) -> jboolean {
        table::is_ordered(env, id)
    }
    fn tableRange(
        env, id: jlong, from: JByteArray<'l>, to: JByteArray<'l>, reverse: jboolean,
    ) -> jlong {
        let range = log::keys_between(env, &from, &to)?;
        table::range(env, id, range, reverse)
    }
    fn tablePrefix(env, id: jlong, prefix: JByteArray<'l>, reverse: jboolean) -> jlong {
        let range = log::keys_with_prefix(env, &prefix)?;
        table::range(env, id, range, reverse)
    }
    fn tableBuilderCreate(
        env, at: JString<'l>, block_size: jint, compression: jint, level: jint, filter_bits: jint,
        duplicates: jint, memory_limit: jlong, temp_dir: JString<'l>, threads: jint,
        metadata: JByteArray<'l>, value_schema: JString<'l>, in_key_order: jboolean,
    ) -> jlong {
        let given = table::BuildArguments {
            block_size, compression, level, filter_bits, duplicates, memory_limit, temp_dir,
            threads, metadata, value_schema, in_key_order,
        };
        table::builder_create(env, &at, &given)
    }
    fn tableBuilderAdd(
        env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint,
        key_length: jint, value: JByteArray<'l>, value_buffer: JByteBuffer<'l>,
        value_offset: jint, value_length: jint,
    ) -> () {
        building::add(env, &table::BUILDERS, id,
            &Part::new(key, key_buffer, key_offset, key_length),
            &Part::new(value, value_buffer, value_offset, value_length),
        )
    }
    fn tableBuilderAddAll(env, id: jlong, records: JByteArray<'l>, length: jint) -> () {
        building::add_all(env, &table::BUILDERS, id, &Packed { bytes: records, length })
    }
    fn tableBuilderRecords(env, id: jlong) -> jlong {
        building::records(env, &table::BUILDERS, id)
    }
    fn tableBuilderClose(env, id: jlong) -> () {
        building::close(env, &table::BUILDERS, id)
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
    fn approximatePath(env, id: jlong) -> JString<'l> {
        approximate::file(env, id)
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
        building::add(env, &approximate::BUILDERS, id,
            &Part::new(key, key_buffer, key_offset, key_length),
            &Part::new(value, value_buffer, value_offset, value_length),
        )
    }
    fn approximateBuilderAddAll(env, id: jlong, records: JByteArray<'l>, length: jint) -> () {
        building::add_all(env, &approximate::BUILDERS, id, &Packed { bytes: records, length })
    }
    fn approximateBuilderRecords(env, id: jlong) -> jlong {
        building::records(env, &approximate::BUILDERS, id)
    }
    fn approximateBuilderClose(env, id: jlong) -> () {
        building::close(env, &approximate::BUILDERS, id)
    }
    fn approximateBuilderFinish(env, id: jlong) -> JLongArray<'l> {
        approximate::builder_finish(env, id)
    }
}
