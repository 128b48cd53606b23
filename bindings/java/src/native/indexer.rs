//! Native methods of indexes and their feeds.

use super::{Described, Method, methods, run};
use crate::indexer::index::{OptionArguments, PartitioningArguments};
use crate::indexer::{feed, index};
use crate::log::Packed;
use jni::EnvUnowned;
use jni::objects::{JByteArray, JLongArray, JObject, JString};
use jni::sys::{jboolean, jdouble, jint, jlong};
use std::ffi::c_void;

methods! { 'l;

    fn indexerOpen(
        env, at: JString<'l>, schema: JString<'l>, field: JString<'l>, partitions: jint,
        memory_limit: jlong, threads: jint, max_removed: jdouble,
    ) -> jlong {
        let by = PartitioningArguments { field, partitions };
        let options = OptionArguments { memory_limit, threads, max_removed };
        index::open(env, &at, &schema, &by, &options)
    }
    fn indexerClose(env, id: jlong) -> () {
        index::close(env, id)
    }
    fn indexerSchema(env, id: jlong) -> JByteArray<'l> {
        index::schema(env, id)
    }
    fn indexerIsRemade(env, id: jlong) -> jboolean {
        index::is_remade(env, id)
    }
    fn indexerPartitioning(env, id: jlong) -> JByteArray<'l> {
        index::partitioning(env, id)
    }
    fn indexerReader(env, id: jlong) -> jlong {
        index::reader(env, id)
    }
    fn indexerFeed(env, id: jlong, source: JString<'l>, is_whole: jboolean) -> jlong {
        index::feed(env, id, &source, is_whole)
    }
    fn indexerUpsert(
        env, id: jlong, source: JString<'l>, item: JByteArray<'l>, length: jint,
    ) -> jboolean {
        index::upsert(env, id, &source, &Packed { bytes: item, length })
    }
    fn indexerDelete(
        env, id: jlong, source: JString<'l>, key: JByteArray<'l>, length: jint,
    ) -> jboolean {
        index::delete(env, id, &source, &Packed { bytes: key, length })
    }
    fn indexerPublish(env, id: jlong) -> JByteArray<'l> {
        index::publish(env, id)
    }
    fn indexerPublishTo(env, id: jlong, catalog: jlong, name: JString<'l>) -> JByteArray<'l> {
        index::publish_to(env, id, catalog, &name)
    }
    fn indexerRepartition(env, id: jlong, field: JString<'l>, partitions: jint) -> () {
        index::repartition(env, id, &PartitioningArguments { field, partitions })
    }
    fn indexerStatus(env, id: jlong) -> JByteArray<'l> {
        index::status(env, id)
    }
    fn indexerBackup(env, id: jlong, to: JString<'l>) -> JLongArray<'l> {
        index::backup(env, id, &to)
    }

    fn feedAdd(env, id: jlong, items: JByteArray<'l>, length: jint) -> () {
        feed::add(env, id, &Packed { bytes: items, length })
    }
    fn feedRemove(env, id: jlong, key: JByteArray<'l>, length: jint) -> () {
        feed::remove(env, id, &Packed { bytes: key, length })
    }
    fn feedLeftOut(env, id: jlong, rows: jlong) -> () {
        feed::left_out(env, id, rows)
    }
    fn feedFinish(env, id: jlong, max_removed: jdouble) -> JByteArray<'l> {
        feed::finish(env, id, max_removed)
    }
    fn feedClose(env, id: jlong) -> () {
        feed::close(env, id)
    }
}
