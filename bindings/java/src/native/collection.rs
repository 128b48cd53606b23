//! Native methods of schemas, builders of partitions, collections and changes.

use super::{Described, Method, methods, run};
use crate::log::Packed;
use crate::search::{builder, change, collection, schema};
use jni::EnvUnowned;
use jni::objects::{JByteArray, JObject, JString};
use jni::sys::{jboolean, jint, jlong};
use std::ffi::c_void;

methods! { 'l;

    fn schemaRead(env, text: JString<'l>) -> JByteArray<'l> {
        schema::read(env, &text)
    }
    fn schemaChange(
        env, text: JString<'l>, changes: JByteArray<'l>, length: jint,
    ) -> JByteArray<'l> {
        schema::change(env, &text, &Packed { bytes: changes, length })
    }

    fn partitionBuilderCreate(
        env, schema: JString<'l>, memory_limit: jlong, temp_dir: JString<'l>,
    ) -> jlong {
        builder::create(env, &schema, memory_limit, &temp_dir)
    }
    fn partitionBuilderAdd(env, id: jlong, documents: JByteArray<'l>, length: jint) -> () {
        builder::add(env, id, &Packed { bytes: documents, length })
    }
    fn partitionBuilderLength(env, id: jlong) -> jlong {
        builder::length(env, id)
    }
    fn partitionBuilderMemory(env, id: jlong) -> jlong {
        builder::memory(env, id)
    }
    fn partitionBuilderSchema(env, id: jlong) -> JByteArray<'l> {
        builder::schema(env, id)
    }
    fn partitionBuilderWrite(env, id: jlong, to: JString<'l>) -> () {
        builder::write(env, id, &to)
    }
    fn partitionBuilderClose(env, id: jlong) -> () {
        builder::close(env, id)
    }

    fn collectionCreate(env, at: JString<'l>) -> jlong {
        collection::create(env, &at)
    }
    fn collectionOpen(env, at: JString<'l>) -> jlong {
        collection::open(env, &at)
    }
    fn collectionClose(env, id: jlong) -> () {
        collection::close(env, id)
    }
    fn collectionOpenFiles(env, files: JByteArray<'l>, length: jint) -> jlong {
        collection::open_files(env, &Packed { bytes: files, length })
    }
    fn collectionReader(env, id: jlong) -> jlong {
        collection::reader(env, id)
    }
    fn collectionVersion(env, id: jlong) -> jlong {
        collection::version(env, id)
    }
    fn collectionRefresh(env, id: jlong) -> jboolean {
        collection::refresh(env, id)
    }
    fn collectionChange(env, id: jlong) -> jlong {
        collection::change(env, id)
    }
    fn collectionCompact(
        env, id: jlong, small: jlong, most_documents: jlong, most_bytes: jlong, at_least: jlong,
        unchanged_millis: jlong, dry_run: jboolean,
    ) -> JByteArray<'l> {
        let policy = collection::PolicyArguments {
            small, most_documents, most_bytes, at_least, unchanged_millis,
        };
        collection::compact(env, id, &policy, dry_run)
    }

    fn changePut(
        env, id: jlong, name: JString<'l>, builder: jlong, extends: jboolean,
    ) -> () {
        change::put(env, id, &name, builder, extends)
    }
    fn changePutFile(
        env, id: jlong, name: JString<'l>, file: JString<'l>, extends: jboolean,
    ) -> () {
        change::put_file(env, id, &name, &file, extends)
    }
    fn changeRemove(env, id: jlong, name: JString<'l>) -> () {
        change::remove(env, id, &name)
    }
    fn changeMerge(
        env, id: jlong, names: JByteArray<'l>, length: jint, into: JString<'l>,
    ) -> () {
        change::merge(env, id, &Packed { bytes: names, length }, &into)
    }
    fn changeClear(env, id: jlong) -> () {
        change::clear(env, id)
    }
    fn changeCommit(env, id: jlong) -> () {
        change::commit(env, id)
    }
    fn changeClose(env, id: jlong) -> () {
        change::close(env, id)
    }
}
