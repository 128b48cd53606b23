//! Native methods of sharded tables.

use super::{Described, Method, methods, run};
use crate::convert::Part;
use crate::sharded;
use jni::EnvUnowned;
use jni::objects::{JByteArray, JByteBuffer, JLongArray, JObject, JObjectArray, JString};
use jni::sys::{jint, jlong};
use std::ffi::c_void;

methods! { 'l;

    fn shardedOpen(env, files: JObjectArray<'l, JString<'l>>, access: jint) -> jlong {
        sharded::open(env, &files, access)
    }
    fn shardedOpenDir(env, dir: JString<'l>, access: jint) -> jlong {
        sharded::open_dir(env, &dir, access)
    }
    fn shardedClose(env, id: jlong) -> () {
        sharded::close(env, id)
    }
    fn shardedScan(env, id: jlong, shard: jint, cursor: jlong, limit: jint) -> JByteArray<'l> {
        sharded::scan(env, id, shard, cursor, limit)
    }
    fn shardedLength(env, id: jlong) -> jlong {
        sharded::length(env, id)
    }
    fn shardedShards(env, id: jlong) -> jint {
        sharded::shards(env, id)
    }
    fn shardedPaths(env, id: jlong) -> JObjectArray<'l, JString<'l>> {
        sharded::paths(env, id)
    }
    fn shardedStats(env, id: jlong) -> JLongArray<'l> {
        sharded::stats(env, id)
    }
    fn shardedValueSchema(env, id: jlong) -> JString<'l> {
        sharded::value_schema(env, id)
    }
    fn shardedVerify(env, id: jlong) -> JLongArray<'l> {
        sharded::verify(env, id)
    }
    fn shardedShardOf(
        env, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>, key_offset: jint, key_length: jint,
        shards: jint,
    ) -> jint {
        sharded::shard(env, &Part::new(key, key_buffer, key_offset, key_length), shards)
    }
}
