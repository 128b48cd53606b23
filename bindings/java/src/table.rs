//! Tables and their builder.

use crate::building::{self, Builders};
use crate::convert::{
    Records, long, new_array, new_longs, optional_bytes, optional_string, path, too_large,
};
use crate::error::{Failure, Result};
use crate::handle::Handles;
use crate::log::{self, Iteration, finish_page};
use firndb::KeyRange;
use firndb::table::{
    Access, BuildOptions, BuildReport, Compression, Duplicates, KeyFilter, Order, Table,
    TableBuilder,
};
use jni::objects::{JByteArray, JLongArray, JObject, JString, JValue};
use jni::sys::{jint, jlong};
use jni::{Env, jni_sig, jni_str};
use std::ops::ControlFlow;
use std::sync::Arc;

pub static TABLES: Handles<Arc<Table>, 8> = Handles::new("table");
pub static BUILDERS: Builders<TableBuilder> = Handles::new("builder");

/// The access of the enumeration `Access` with this number.
pub fn access(number: jint) -> Access {
    match number {
        1 => Access::Buffered,
        2 => Access::Direct,
        3 => Access::Resident,
        _ => Access::Map,
    }
}

pub fn open(env: &mut Env<'_>, at: &JString<'_>, mode: jint) -> Result<jlong> {
    share(Arc::new(Table::open_with(path(env, at)?, access(mode))?))
}

/// A handle for an open table.
pub fn share(table: Arc<Table>) -> Result<jlong> {
    Ok(TABLES.insert(table)?)
}

pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    TABLES.close(handle)?;
    Ok(())
}

/// Calls `call` with an open table.
fn with<R>(handle: jlong, call: impl FnOnce(&Table) -> firndb::Result<R>) -> Result<R> {
    Ok(TABLES.with(handle, |table| call(table))??)
}

/// A page of records after 8 bytes with the cursor of the next page, or -1.
pub fn scan<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    cursor: jlong,
    limit: jint,
) -> Result<JByteArray<'l>> {
    let cursor = cursor.cast_unsigned();
    let limit = usize::try_from(limit).unwrap_or(0);
    let (mut page, mut fits) = (Records(vec![0; 8]), true);
    let next = with(handle, |table| {
        table.scan_from(cursor, limit, |key, value| fits &= page.push(key, value))
    })?;
    finish_page(env, page, fits, next)
}

/// The records of a range of keys, a page at a time. Between two pages it holds no block.
pub struct TableRange {
    table: Arc<Table>,
    /// The keys that were not read yet; `None` at the end.
    rest: Option<KeyRange>,
    is_reversed: bool,
}

impl TableRange {
    /// Adds records to a page until it has this many bytes. Adds none at the end.
    pub fn next_page(&mut self, bytes: usize, page: &mut Records) -> Result<()> {
        // Nothing follows an error.
        let Some(rest) = self.rest.take() else { return Ok(()) };
        let mut records = self.table.range(rest)?;
        if self.is_reversed {
            records = records.reversed();
        }
        while page.0.len() < bytes {
            match records.next_with(|key, value| page.push(key, value)) {
                Some(Ok(true)) => {}
                Some(Ok(false)) => return Err(too_large()),
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            }
        }
        self.rest = Some(records.rest());
        Ok(())
    }
}

/// An iteration over a range. `InvalidArgument` if the table is in hash order.
pub fn range(_: &mut Env<'_>, handle: jlong, range: KeyRange, is_reversed: bool) -> Result<jlong> {
    let table = TABLES.with(handle, Arc::clone)?;
    table.range(range.clone())?;
    log::begin(Iteration::Table(TableRange { table, rest: Some(range), is_reversed }))
}

pub fn is_ordered(_: &mut Env<'_>, handle: jlong) -> Result<bool> {
    with(handle, |table| Ok(table.is_ordered()))
}

pub fn length(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |table| Ok(long(table.len())))
}

/// The numbers of `Table.Stats`, in the order of its components.
pub fn stats<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JLongArray<'l>> {
    let stats = with(handle, |table| Ok(table.stats()))?;
    let numbers = [
        stats.records,
        stats.blocks,
        stats.block_size,
        stats.block_bytes,
        stats.longest_block_bytes,
        stats.key_bytes,
        stats.value_bytes,
        stats.longest_key_bytes,
        stats.longest_value_bytes,
        stats.file_bytes,
        stats.filter_bytes,
        stats.index_bytes,
        stats.memory_bytes,
        u64::from(stats.paged),
        match stats.compression {
            Compression::Records { .. } => 1,
            Compression::Blocks { .. } => 2,
            _ => 0,
        },
        u64::try_from(stats.compression.level().unwrap_or(0)).unwrap_or(0),
        u64::from(stats.filter.bits()),
    ];
    let mut numbers = numbers.map(long).to_vec();
    numbers.push(stats.seed.cast_signed());
    new_longs(env, &numbers)
}

pub fn metadata<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    TABLES.with(handle, |table| new_array(env, table.metadata()?))?
}

pub fn value_schema<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JString<'l>> {
    TABLES.with(handle, |table| Ok(env.new_string(table.value_schema()?)?))?
}

/// The file of the table.
pub fn file<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JString<'l>> {
    TABLES.with(handle, |table| Ok(env.new_string(table.path().to_string_lossy())?))?
}

/// The 16 bytes of the content id, the highest first.
pub fn content_id<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    let id = with(handle, |table| Ok(table.content_id()))?;
    new_array(env, &id.to_be_bytes())
}

pub fn verify<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JLongArray<'l>> {
    let verified = with(handle, Table::verify)?;
    new_longs(env, &[verified.files, verified.bytes, verified.records].map(long))
}

/// `TableBuilder.Options`.
pub struct BuildArguments<'l> {
    pub block_size: jint,
    pub compression: jint,
    pub level: jint,
    pub filter_bits: jint,
    pub duplicates: jint,
    pub memory_limit: jlong,
    pub temp_dir: JString<'l>,
    pub threads: jint,
    pub metadata: JByteArray<'l>,
    pub value_schema: JString<'l>,
    pub in_key_order: bool,
}

/// The policy of the enumeration `Duplicates` with this number.
pub fn duplicates(number: jint) -> Duplicates {
    match number {
        1 => Duplicates::First,
        2 => Duplicates::Last,
        _ => Duplicates::Error,
    }
}

/// A size of Java; a negative one is 0, which every option refuses or raises.
pub fn size(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(0)
}

pub fn builder_create(
    env: &mut Env<'_>,
    at: &JString<'_>,
    given: &BuildArguments<'_>,
) -> Result<jlong> {
    let level = given.level;
    let mut options = BuildOptions::new()
        .block_size(size(given.block_size))
        .compression(match given.compression {
            1 => Compression::Records { level },
            2 => Compression::Blocks { level },
            _ => Compression::None,
        })
        .filter(match given.filter_bits {
            8 => KeyFilter::Bits8,
            16 => KeyFilter::Bits16,
            _ => KeyFilter::None,
        })
        .duplicates(duplicates(given.duplicates))
        .memory_limit(size(given.memory_limit))
        .order(if given.in_key_order { Order::Key } else { Order::Hash });
    if let Some(dir) = optional_string(env, &given.temp_dir)? {
        options = options.temp_dir(dir);
    }
    if given.threads > 0 {
        options = options.threads(size(given.threads));
    }
    if let Some(metadata) = optional_bytes(env, &given.metadata)? {
        options = options.metadata(metadata);
    }
    if let Some(schema) = optional_string(env, &given.value_schema)? {
        options = options.value_schema(schema);
    }
    let builder = TableBuilder::create_with(path(env, at)?, options)?;
    building::open(&BUILDERS, builder)
}

/// Finishes a build. `progress` is a `TableBuilder.Progress`, or null; it is called on this thread.
pub fn builder_finish<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    progress: &JObject<'_>,
) -> Result<JLongArray<'l>> {
    let report = BUILDERS
        .with_callback(handle, |builder| finish(env, building::take(builder)?, progress))??;
    let numbers = [report.records, report.duplicates, report.bytes, report.spilled];
    new_longs(env, &numbers.map(long))
}

fn finish(env: &mut Env<'_>, builder: TableBuilder, progress: &JObject<'_>) -> Result<BuildReport> {
    if progress.is_null() {
        return Ok(builder.finish()?);
    }
    let mut failed = None;
    let report =
        builder.finish_with(|at| match report_progress(env, progress, at.done, at.total) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(failure) => {
                failed = Some(failure);
                ControlFlow::Break(())
            }
        });
    match failed {
        Some(failure) => Err(failure),
        None => Ok(report?),
    }
}

/// Calls the method `report` of a progress callback. Whether the call is to continue.
pub fn report_progress(
    env: &mut Env<'_>,
    progress: &JObject<'_>,
    done: u64,
    total: u64,
) -> Result<bool> {
    let arguments = [JValue::Long(long(done)), JValue::Long(long(total))];
    let answer = env.call_method(progress, jni_str!("report"), jni_sig!("(JJ)Z"), &arguments)?;
    answer.z().map_err(Failure::from)
}
