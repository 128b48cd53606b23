//! Native methods of queries and of readers of collections.

use super::{Described, Method, methods, run};
use crate::convert::Part;
use crate::log::Packed;
use crate::search::hits::{self, Numbers};
use crate::search::reader;
use jni::EnvUnowned;
use jni::objects::{JByteArray, JByteBuffer, JLongArray, JObject, JString};
use jni::sys::{jboolean, jdouble, jint, jlong};
use std::ffi::c_void;

methods! { 'l;

    fn filterParse(env, bytes: JByteArray<'l>, length: jint) -> JByteArray<'l> {
        reader::filter_parse(env, Packed { bytes, length })
    }
    fn filterText(env, bytes: JByteArray<'l>, length: jint) -> JByteArray<'l> {
        reader::filter_text(env, Packed { bytes, length })
    }
    fn queryParse(env, bytes: JByteArray<'l>, length: jint) -> JByteArray<'l> {
        reader::query_parse(env, Packed { bytes, length })
    }
    fn queryText(env, bytes: JByteArray<'l>, length: jint) -> JByteArray<'l> {
        reader::query_text(env, Packed { bytes, length })
    }
    fn readerClose(env, id: jlong) -> () {
        reader::close(env, id)
    }
    fn readerWith(env, id: jlong, setting: jint, number: jlong) -> jlong {
        reader::with_setting(env, id, setting, number)
    }
    fn readerWithPartitions(env, id: jlong, bytes: JByteArray<'l>, length: jint) -> jlong {
        reader::with_partitions(env, id, &Packed { bytes, length })
    }
    fn readerSchema(env, id: jlong) -> JByteArray<'l> {
        reader::schema(env, id)
    }
    fn readerLength(env, id: jlong) -> jlong {
        reader::length(env, id)
    }
    fn readerStats(env, id: jlong) -> JLongArray<'l> {
        reader::stats(env, id)
    }
    fn readerPartitions(env, id: jlong) -> JByteArray<'l> {
        reader::partitions(env, id)
    }
    fn readerWarm(env, id: jlong) -> () {
        reader::warm(env, id)
    }
    fn readerVerify(env, id: jlong) -> JLongArray<'l> {
        reader::verify(env, id)
    }
    fn readerSearch(env, id: jlong, bytes: JByteArray<'l>, length: jint) -> JLongArray<'l> {
        reader::search(env, id, Packed { bytes, length })
    }
    fn readerToken(
        env, id: jlong, bytes: JByteArray<'l>, length: jint, count: jint, last: jlong,
    ) -> JByteArray<'l> {
        reader::token(env, id, Packed { bytes, length }, count, last)
    }
    fn readerForEach(
        env, id: jlong, bytes: JByteArray<'l>, length: jint, each: JObject<'l>,
    ) -> () {
        reader::for_each(env, id, Packed { bytes, length }, &each)
    }
    fn readerCount(env, id: jlong, bytes: JByteArray<'l>, length: jint) -> jlong {
        reader::count(env, id, Packed { bytes, length })
    }
    fn readerFacets(
        env, id: jlong, bytes: JByteArray<'l>, length: jint, facets: JByteArray<'l>,
        facets_length: jint,
    ) -> JByteArray<'l> {
        let facets = Packed { bytes: facets, length: facets_length };
        reader::facets(env, id, Packed { bytes, length }, &facets)
    }
    fn readerGroupBy(
        env, id: jlong, bytes: JByteArray<'l>, length: jint, by: JByteArray<'l>, by_length: jint,
    ) -> JByteArray<'l> {
        let by = Packed { bytes: by, length: by_length };
        reader::group_by(env, id, Packed { bytes, length }, &by)
    }
    fn readerExplain(env, id: jlong, bytes: JByteArray<'l>, length: jint) -> JByteArray<'l> {
        reader::explain(env, id, Packed { bytes, length })
    }
    fn readerValue(env, id: jlong, hit: jlong, field: JString<'l>) -> JByteArray<'l> {
        hits::value(env, id, hit, &field)
    }
    fn readerValues(env, id: jlong, hit: jlong, field: JString<'l>) -> JByteArray<'l> {
        hits::values(env, id, hit, &field)
    }
    fn readerLong(env, id: jlong, hit: jlong, field: JString<'l>) -> jlong {
        hits::long_value(env, id, hit, &field)
    }
    fn readerDouble(env, id: jlong, hit: jlong, field: JString<'l>) -> jdouble {
        hits::double_value(env, id, hit, &field)
    }
    fn readerBoolean(env, id: jlong, hit: jlong, field: JString<'l>) -> jboolean {
        hits::boolean_value(env, id, hit, &field)
    }
    fn readerPayload(env, id: jlong, hit: jlong) -> JByteArray<'l> {
        hits::payload(env, id, hit)
    }
    fn readerPayloadInto(
        env, id: jlong, hit: jlong, to: JByteArray<'l>, to_buffer: JByteBuffer<'l>,
        to_offset: jint, to_length: jint,
    ) -> jint {
        hits::payload_into(env, id, hit, &Part::new(to, to_buffer, to_offset, to_length))
    }
    fn readerPayloads(
        env, id: jlong, array: JLongArray<'l>, from: jint, count: jint,
    ) -> JByteArray<'l> {
        hits::payloads(env, id, &Numbers { array, from, count })
    }
    fn readerColumns(
        env, id: jlong, array: JLongArray<'l>, from: jint, count: jint, bytes: JByteArray<'l>,
        length: jint,
    ) -> JByteArray<'l> {
        hits::columns(env, id, &Numbers { array, from, count }, &Packed { bytes, length })
    }
    fn readerNumbers(
        env, id: jlong, array: JLongArray<'l>, from: jint, count: jint, field: JString<'l>,
        are_floats: jboolean, absent: jlong,
    ) -> JLongArray<'l> {
        hits::numbers(env, id, &Numbers { array, from, count }, &field, are_floats, absent)
    }
}
