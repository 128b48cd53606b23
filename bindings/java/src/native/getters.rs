//! Native methods that get values by their keys, for every kind of store.

use super::{Described, Method, methods, run};
use crate::convert::Part;
use crate::lookup::{self, Keys};
use crate::{approximate, log, sharded, table};
use jni::EnvUnowned;
use jni::objects::{JByteArray, JByteBuffer, JIntArray, JObject};
use jni::sys::{jboolean, jint, jlong};
use std::ffi::c_void;

/// Defines the four methods of one kind of store.
macro_rules! getters {
    ($kind:ident, $stores:path: $get:ident $get_into:ident $contains:ident $get_many:ident) => {
        mod $kind {
            use super::*;

            methods! { 'l;
                fn $get(
                    env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>,
                    key_offset: jint, key_length: jint,
                ) -> JByteArray<'l> {
                    let key = Part::new(key, key_buffer, key_offset, key_length);
                    lookup::get(env, &$stores, id, &key)
                }
                fn $get_into(
                    env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>,
                    key_offset: jint, key_length: jint, to: JByteArray<'l>,
                    to_buffer: JByteBuffer<'l>, to_offset: jint, to_length: jint,
                ) -> jint {
                    let key = Part::new(key, key_buffer, key_offset, key_length);
                    let to = Part::new(to, to_buffer, to_offset, to_length);
                    lookup::get_into(env, &$stores, id, &key, &to)
                }
                fn $contains(
                    env, id: jlong, key: JByteArray<'l>, key_buffer: JByteBuffer<'l>,
                    key_offset: jint, key_length: jint,
                ) -> jboolean {
                    let key = Part::new(key, key_buffer, key_offset, key_length);
                    lookup::contains(env, &$stores, id, &key)
                }
                fn $get_many(
                    env, id: jlong, keys: JByteArray<'l>, keys_length: jint, ends: JIntArray<'l>,
                    from: jint, count: jint, lengths: JIntArray<'l>,
                ) -> JByteArray<'l> {
                    let keys = Keys { bytes: keys, length: keys_length, ends, from, count };
                    lookup::get_many(env, &$stores, id, &keys, &lengths)
                }
            }
        }
    };
}

getters!(stores, log::STORES: logGet logGetInto logContains logGetMany);
getters!(
    snapshots, log::SNAPSHOTS: snapshotGet snapshotGetInto snapshotContains snapshotGetMany
);
getters!(tables, table::TABLES: tableGet tableGetInto tableContains tableGetMany);
getters!(
    sharded_tables, sharded::TABLES: shardedGet shardedGetInto shardedContains shardedGetMany
);
getters!(
    approximate_tables, approximate::TABLES:
    approximateGet approximateGetInto approximateContains approximateGetMany
);

/// All methods.
pub fn all() -> Vec<Method> {
    [
        stores::all(),
        snapshots::all(),
        tables::all(),
        sharded_tables::all(),
        approximate_tables::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
