//! A page of documents as an Arrow IPC stream.
//!
//! The columns are the fields, then `payload`, if it is requested. The metadata of the schema has
//! `firndb.next`, the token of the next page, `firndb.count` and `firndb.elapsed_seconds`.

use super::Running;
use super::output::Output;
use super::search::Found;
use arrow_array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use firndb::search::Hit;
use firndb::{Error, ErrorKind, Result};
use firndb_arrow::document::hits_to_batch;
use std::collections::HashMap;
use std::sync::Arc;

/// The name of the column of payloads.
const PAYLOAD: &str = "payload";

/// Rows of the first batch, and the maximum of the others.
const FIRST_ROWS: usize = 64;
const MAX_ROWS: usize = 4096;

/// The stream; `None` if it would exceed the limit of responses.
pub(super) fn stream(running: &Running<'_>, found: &Found<'_>) -> Result<Option<Vec<u8>>> {
    if found.payload && found.fields.iter().any(|name| name == PAYLOAD) {
        return Err(Error::invalid(
            "there is a field `payload`: leave either the field or the payload out",
        ));
    }
    let mut output = running.output();
    let written = write(running, found, &mut output);
    if output.is_full() {
        return Ok(None);
    }
    written?;
    Ok(output.finish())
}

fn write(running: &Running<'_>, found: &Found<'_>, output: &mut Output) -> Result<()> {
    let schema = schema_of(running, found)?;
    let room = output.room();
    let mut writer = StreamWriter::try_new(output, &schema).map_err(failed)?;
    let (mut rest, mut rows) = (&found.page.hits[..], FIRST_ROWS);
    while !rest.is_empty() {
        running.deadline.check()?;
        let (hits, others) = rest.split_at(rows.min(rest.len()));
        rest = others;
        writer.write(&batch(running, found, &schema, hits)?).map_err(failed)?;
        // As many rows as probably take a quarter of the room, so that no batch takes much more
        // memory than the response may.
        let done = found.page.hits.len() - rest.len();
        let used = room - writer.get_ref().room();
        let per_row = used.div_ceil(done).max(1);
        rows = (room / 4 / per_row).clamp(1, MAX_ROWS);
    }
    writer.finish().map_err(failed)
}

fn schema_of(running: &Running<'_>, found: &Found<'_>) -> Result<SchemaRef> {
    let fields = hits_to_batch(running.reader, &[], found.fields)?.schema();
    let mut columns: Vec<Arc<Field>> = fields.fields().iter().cloned().collect();
    if found.payload {
        columns.push(Arc::new(Field::new(PAYLOAD, DataType::Binary, false)));
    }
    let mut metadata = HashMap::new();
    let mut note = |name: &str, value: Option<String>| {
        metadata.extend(value.map(|value| (format!("firndb.{name}"), value)));
    };
    note("next", found.next.map(str::to_string));
    note("count", found.page.count.map(|count| count.to_string()));
    note("elapsed_seconds", Some(found.elapsed.as_secs_f64().to_string()));
    Ok(Arc::new(Schema::new_with_metadata(columns, metadata)))
}

fn batch(
    running: &Running<'_>,
    found: &Found<'_>,
    schema: &SchemaRef,
    hits: &[Hit],
) -> Result<RecordBatch> {
    let fields = hits_to_batch(running.reader, hits, found.fields)?;
    let mut columns: Vec<ArrayRef> = fields.columns().to_vec();
    if found.payload {
        let payloads = running.reader.payloads(hits)?;
        if payloads.iter().map(|payload| payload.len()).sum::<usize>() > i32::MAX as usize {
            return Err(Error::invalid("the payloads exceed 2 GiB: ask for fewer documents"));
        }
        let payloads = payloads.iter().map(|payload| &payload[..]);
        columns.push(Arc::new(BinaryArray::from_iter_values(payloads)));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(hits.len()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(failed)
}

fn failed(error: ArrowError) -> Error {
    Error::new(ErrorKind::Failed, format!("cannot write an Arrow stream: {error}"))
}
