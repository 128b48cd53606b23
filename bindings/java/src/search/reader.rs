//! Readers of collections: queries.

use crate::convert::{LongPredicate, Pack, Unpack, bytes_of, long, new_array, new_longs};
use crate::error::Result;
use crate::handle::Handles;
use crate::log::Packed;
use crate::search::results::{
    pack_explain, pack_facets, pack_groups, unpack_facets, unpack_group_by,
};
use crate::search::{query, schema, stack};
use firndb::search::{Filter, Hit, Query, Reader};
use jni::Env;
use jni::objects::{JByteArray, JLongArray, JObject};
use jni::sys::{jint, jlong};
use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

static READERS: Handles<Opened, 8> = Handles::new("reader of a collection");

/// Hits of a deep condition that are found before they are visited.
const HITS_AHEAD: usize = 1024;

/// A reader, and the longest time of its queries.
#[derive(Clone)]
struct Opened {
    reader: Reader,
    timeout: Option<Duration>,
}

impl Opened {
    /// The reader for a call that begins now.
    fn begin(&self) -> Reader {
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        deadline.map_or_else(|| self.reader.clone(), |deadline| self.reader.with_deadline(deadline))
    }
}

/// Makes a reader known to Java.
pub fn open(reader: Reader) -> Result<jlong> {
    Ok(READERS.insert(Opened { reader, timeout: None })?)
}

pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    READERS.close(handle)?;
    Ok(())
}

/// Calls `call` with an open reader.
#[inline]
pub fn with<R>(handle: jlong, call: impl FnOnce(&Reader) -> Result<R>) -> Result<R> {
    READERS.with(handle, |opened| call(&opened.reader))?
}

/// Calls `call` with an open reader, within the time of its queries.
fn with_timeout<R>(handle: jlong, call: impl FnOnce(&Reader) -> Result<R>) -> Result<R> {
    READERS.with(handle, |opened| match opened.timeout {
        None => call(&opened.reader),
        Some(_) => call(&opened.begin()),
    })?
}

/// What `call` returns for a reader and a query.
fn with_query<'l, R: Send>(
    env: &mut Env<'l>,
    handle: jlong,
    argument: Packed<'l>,
    call: impl FnOnce(&Reader, &Query) -> firndb::Result<R> + Send,
) -> Result<R> {
    with_packed(env, handle, argument, |reader, packed| {
        Ok(call(reader, &query::query(packed, Some(reader.schema()))?)?)
    })
}

/// What `call` returns for a reader and a filter.
fn with_filter<'l, R: Send>(
    env: &mut Env<'l>,
    handle: jlong,
    argument: Packed<'l>,
    call: impl FnOnce(&Reader, &Filter) -> firndb::Result<R> + Send,
) -> Result<R> {
    with_packed(env, handle, argument, |reader, packed| {
        Ok(call(reader, &query::filter(packed, Some(reader.schema()))?)?)
    })
}

fn with_packed<'l, R: Send>(
    env: &mut Env<'l>,
    handle: jlong,
    argument: Packed<'l>,
    call: impl FnOnce(&Reader, &[u8]) -> Result<R> + Send,
) -> Result<R> {
    argument.with(env, |_, packed| {
        with_timeout(handle, |reader| stack::run(query::is_deep(packed), || call(reader, packed)))
    })
}

/// What `CollectionReader.Setting` changes.
pub fn with_setting(_: &mut Env<'_>, handle: jlong, setting: jint, number: jlong) -> Result<jlong> {
    let number = number.cast_unsigned();
    let changed = READERS.with(handle, |opened| {
        let Opened { reader, timeout } = opened;
        let size = usize::try_from(number).unwrap_or(usize::MAX);
        match setting {
            0 => Opened { reader: reader.with_threads(size), timeout: *timeout },
            1 => Opened { timeout: Some(Duration::from_nanos(number)), ..opened.clone() },
            2 => Opened { reader: reader.with_group_limit(size), timeout: *timeout },
            _ => Opened { reader: reader.with_bundle_limit(number), timeout: *timeout },
        }
    })?;
    Ok(READERS.insert(changed)?)
}

/// A reader of the partitions with the packed names.
pub fn with_partitions(env: &mut Env<'_>, handle: jlong, names: &Packed<'_>) -> Result<jlong> {
    let names = bytes_of(env, &names.bytes, names.length)?;
    let names = Unpack(&names).texts()?;
    let chosen = READERS.with(handle, |opened| -> Result<Opened> {
        Ok(Opened { reader: opened.reader.with_partitions(&names)?, timeout: opened.timeout })
    })??;
    Ok(READERS.insert(chosen)?)
}

/// The schema, as `Schema.unpack` reads it.
pub fn schema<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    with(handle, |reader| schema::pack(reader.schema()).finish(env))
}

/// The numbers of `CollectionReader.Stats`, in the order of its components.
pub fn stats<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JLongArray<'l>> {
    let numbers = with(handle, |reader| {
        let partitions = reader.partitions();
        let bytes = partitions.iter().map(|part| part.bytes).sum();
        Ok([reader.len(), partitions.len() as u64, bytes, reader.bundle_memory()])
    })?;
    new_longs(env, &numbers.map(long))
}

/// Name, documents and bytes of each partition.
pub fn partitions<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    let partitions = with(handle, |reader| Ok(reader.partitions()))?;
    let mut packed = Pack::default();
    for part in partitions {
        packed.text(&part.name);
        packed.long(part.documents.into());
        packed.long(long(part.bytes));
    }
    packed.finish(env)
}

pub fn length(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |reader| Ok(long(reader.len())))
}

pub fn warm(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    with_timeout(handle, |reader| Ok(reader.warm()?))
}

pub fn verify<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JLongArray<'l>> {
    let verified = with(handle, |reader| Ok(reader.verify()?))?;
    new_longs(env, &[verified.files, verified.bytes, verified.records].map(long))
}

/// The match with a number of Java: the partition in the upper half, the document in the lower.
pub fn hit(number: jlong) -> Hit {
    let number = number.cast_unsigned();
    Hit { partition: (number >> 32) as u32, doc: number as u32 }
}

#[inline]
fn number(hit: &Hit) -> jlong {
    (u64::from(hit.partition) << 32 | u64::from(hit.doc)).cast_signed()
}

/// A page: the number of all matches, or -1 if the query does not count them, and the hits.
pub fn search<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    argument: Packed<'l>,
) -> Result<JLongArray<'l>> {
    let page = with_query(env, handle, argument, Reader::search)?;
    let mut numbers = Vec::with_capacity(page.hits.len() + 1);
    numbers.push(page.count.map_or(-1, long));
    numbers.extend(page.hits.iter().map(number));
    new_longs(env, &numbers)
}

/// The token after a page of `count` hits, or null if it is the last page.
pub fn token<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    argument: Packed<'l>,
    count: jint,
    last: jlong,
) -> Result<JByteArray<'l>> {
    let token = with_query(env, handle, argument, |reader, query| {
        let is_full = query.limit == u64::try_from(count).ok();
        is_full.then(|| reader.page_token(query, hit(last))).transpose()
    })?;
    match token {
        Some(token) => new_array(env, token.to_string().as_bytes()),
        None => Ok(JByteArray::default()),
    }
}

/// Calls a `LongPredicate` of Java with each match, until it returns false.
pub fn for_each<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    argument: Packed<'l>,
    each: &JObject<'l>,
) -> Result<()> {
    let each = LongPredicate::new(env, each)?;
    argument.with(env, |env, packed| {
        READERS.with_callback(handle, |opened| {
            let reader = opened.begin();
            let mut failed = None;
            let mut visit = |hit| match each.test(env, number(&hit)) {
                Ok(true) => ControlFlow::Continue(()),
                Ok(false) => ControlFlow::Break(()),
                Err(failure) => {
                    failed = Some(failure);
                    ControlFlow::Break(())
                }
            };
            if query::is_deep(packed) {
                for_each_deep(&reader, packed, visit)?;
            } else {
                let query = query::query(packed, Some(reader.schema()))?;
                reader.for_each(&query, &mut visit)?;
            }
            failed.map_or(Ok(()), Err)
        })?
    })
}

/// [`Reader::for_each`] of a deep condition: another thread finds the hits.
fn for_each_deep(
    reader: &Reader,
    packed: &[u8],
    mut visit: impl FnMut(Hit) -> ControlFlow<()>,
) -> Result<()> {
    std::thread::scope(|scope| {
        let (sender, hits) = sync_channel(HITS_AHEAD);
        let finder = stack::spawn(scope, move || {
            let query = query::query(packed, Some(reader.schema()))?;
            // Sending fails when the visitor has ended the iteration.
            Ok(reader.for_each(&query, |hit| match sender.send(hit) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })?)
        })?;
        for hit in hits {
            if visit(hit).is_break() {
                break;
            }
        }
        stack::join(finder)
    })
}

pub fn count<'l>(env: &mut Env<'l>, handle: jlong, argument: Packed<'l>) -> Result<jlong> {
    Ok(long(with_filter(env, handle, argument, Reader::count)?))
}

pub fn facets<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    argument: Packed<'l>,
    facets: &Packed<'_>,
) -> Result<JByteArray<'l>> {
    let facets = unpack_facets(&bytes_of(env, &facets.bytes, facets.length)?)?;
    let found =
        with_filter(env, handle, argument, |reader, filter| reader.facets(filter, &facets))?;
    pack_facets(&found).finish(env)
}

pub fn group_by<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    argument: Packed<'l>,
    by: &Packed<'_>,
) -> Result<JByteArray<'l>> {
    let by = unpack_group_by(&bytes_of(env, &by.bytes, by.length)?)?;
    let found = with_filter(env, handle, argument, |reader, filter| reader.group_by(filter, &by))?;
    pack_groups(&found).finish(env)
}

pub fn explain<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    argument: Packed<'l>,
) -> Result<JByteArray<'l>> {
    let explain = with_query(env, handle, argument, Reader::explain)?;
    pack_explain(&explain).finish(env)
}

/// What `make` returns for the bytes of an argument, as an array.
fn array_of<'l>(
    env: &mut Env<'l>,
    argument: Packed<'l>,
    make: impl FnOnce(&[u8]) -> Result<Vec<u8>> + Send,
) -> Result<JByteArray<'l>> {
    argument.with(env, |env, packed| {
        let made = stack::run(query::is_deep(packed), || make(packed))?;
        new_array(env, &made)
    })
}

/// Parses the text of a filter: see [`query::pack_with_levels`].
pub fn filter_parse<'l>(env: &mut Env<'l>, text: Packed<'l>) -> Result<JByteArray<'l>> {
    array_of(env, text, |packed| {
        let mut result = Pack::default();
        query::pack_with_levels(&mut result, &query::filter(packed, None)?);
        Ok(result.0)
    })
}

/// Parses the text of a query: see [`query::pack_query`].
pub fn query_parse<'l>(env: &mut Env<'l>, text: Packed<'l>) -> Result<JByteArray<'l>> {
    array_of(env, text, |packed| {
        let mut result = Pack::default();
        query::pack_query(&mut result, &query::query(packed, None)?);
        Ok(result.0)
    })
}

pub fn filter_text<'l>(env: &mut Env<'l>, filter: Packed<'l>) -> Result<JByteArray<'l>> {
    array_of(env, filter, |packed| Ok(query::filter(packed, None)?.to_string().into_bytes()))
}

pub fn query_text<'l>(env: &mut Env<'l>, query: Packed<'l>) -> Result<JByteArray<'l>> {
    array_of(env, query, |packed| Ok(query::query_text(packed)?.into_bytes()))
}
