//! Native methods of catalogs, their readers and generations.

use super::{Described, Method, methods, run};
use crate::catalog::{self, reader};
use jni::EnvUnowned;
use jni::objects::{JByteArray, JLongArray, JObject, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong};
use std::ffi::c_void;

methods! { 'l;

    fn catalogOpen(env, at: JString<'l>, create: jboolean) -> jlong {
        catalog::open(env, &at, create)
    }
    fn catalogOpenUrl(env, url: JString<'l>) -> jlong {
        catalog::open_url(env, &url)
    }
    fn catalogClose(env, id: jlong) -> () {
        catalog::close(env, id)
    }
    fn catalogNames(env, id: jlong) -> JObjectArray<'l, JString<'l>> {
        catalog::names(env, id)
    }
    fn catalogVersions(env, id: jlong, name: JString<'l>) -> JLongArray<'l> {
        catalog::versions(env, id, &name)
    }
    fn catalogVersion(env, id: jlong, name: JString<'l>, number: jlong) -> JByteArray<'l> {
        catalog::version(env, id, &name, number)
    }
    fn catalogPublish(
        env, id: jlong, name: JString<'l>, at: JString<'l>, if_changed: jboolean,
        options: JByteArray<'l>, progress: JObject<'l>,
    ) -> JByteArray<'l> {
        catalog::publish(env, id, (&name, &at), if_changed, &options, &progress)
    }
    fn catalogStage(
        env, id: jlong, name: JString<'l>, at: JString<'l>, progress: JObject<'l>,
    ) -> JString<'l> {
        catalog::stage(env, id, &name, &at, &progress)
    }
    fn catalogStaged(env, text: JString<'l>) -> JByteArray<'l> {
        catalog::staged(env, &text)
    }
    fn catalogPublishStaged(
        env, id: jlong, name: JString<'l>, lines: JByteArray<'l>, options: JByteArray<'l>,
    ) -> JByteArray<'l> {
        catalog::publish_staged(env, id, &name, &lines, &options)
    }
    fn catalogRollback(
        env, id: jlong, name: JString<'l>, to: jlong, options: JByteArray<'l>,
    ) -> JByteArray<'l> {
        catalog::rollback(env, id, &name, to, &options)
    }
    fn catalogPin(env, id: jlong, name: JString<'l>, number: jlong, note: JString<'l>) -> () {
        catalog::pin(env, id, &name, number, &note)
    }
    fn catalogUnpin(env, id: jlong, name: JString<'l>, number: jlong) -> () {
        catalog::unpin(env, id, &name, number)
    }
    fn catalogPins(env, id: jlong, name: JString<'l>) -> JLongArray<'l> {
        catalog::pins(env, id, &name)
    }
    fn catalogClean(
        env, id: jlong, name: JString<'l>, keep: jint, grace_millis: jlong, dry_run: jboolean,
    ) -> JLongArray<'l> {
        catalog::clean(env, id, &name, keep, grace_millis, dry_run)
    }
    fn catalogVerify(
        env, id: jlong, name: JString<'l>, number: jlong, progress: JObject<'l>,
    ) -> JLongArray<'l> {
        catalog::verify(env, id, &name, number, &progress)
    }
    fn catalogPull(
        env, id: jlong, name: JString<'l>, number: jlong, to: JString<'l>, threads: jint,
    ) -> JByteArray<'l> {
        catalog::pull(env, id, &name, number, &to, threads)
    }
    fn catalogDiff(
        env, id: jlong, name: JString<'l>, before: jlong, after: jlong,
    ) -> JByteArray<'l> {
        catalog::diff(env, id, &name, before, after)
    }

    // Readers.
    fn catalogReaderOpen(
        env, id: jlong, name: JString<'l>, cache_dir: JString<'l>, version: jlong, access: jint,
        warm: jint, bundle_limit: jlong, cache_bytes: jlong, threads: jint, follow_millis: jlong,
    ) -> jlong {
        let given = reader::ReaderArguments {
            version, access, warm, bundle_limit, cache_bytes, threads, follow_millis,
        };
        reader::open(env, id, &name, &cache_dir, &given)
    }
    fn catalogReaderClose(env, id: jlong) -> () {
        reader::close(env, id)
    }
    fn catalogReaderCurrent(env, id: jlong) -> jlong {
        reader::current(env, id)
    }
    fn catalogReaderRefresh(env, id: jlong) -> jboolean {
        reader::refresh(env, id)
    }
    fn catalogReaderStats(env, id: jlong) -> JByteArray<'l> {
        reader::stats(env, id)
    }

    // Generations.
    fn generationClose(env, id: jlong) -> () {
        reader::generation_close(env, id)
    }
    fn generationNumber(env, id: jlong) -> jlong {
        reader::generation_number(env, id)
    }
    fn generationVersion(env, id: jlong) -> JByteArray<'l> {
        reader::generation_version(env, id)
    }
    fn generationTable(env, id: jlong) -> jlong {
        reader::generation_table(env, id)
    }
    fn generationApproximate(env, id: jlong) -> jlong {
        reader::generation_approximate(env, id)
    }
    fn generationSharded(env, id: jlong) -> jlong {
        reader::generation_sharded(env, id)
    }
    fn generationCollection(env, id: jlong) -> jlong {
        reader::generation_collection(env, id)
    }
}
