//! Searches: pages of documents as JSON, JSON lines and Arrow; and how a query runs.

use super::super::negotiate::Form;
use super::request::Members;
use super::{Running, arrow};
use firndb::search::{MAX_FIELDS, Page, Query};
use firndb::{Error, Result};
use firndb_ingest::query::{self, flag, texts};
use firndb_ingest::results::{HitReader, explain_to_json, next_token, page_summary, shown_fields};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

/// The number of documents of a page, unless the query has a limit.
const PAGE: u64 = 10;

/// Hits between two looks at the deadline.
const HITS_PER_LOOK: usize = 64;

/// A page that was found.
pub(super) struct Found<'a> {
    pub page: &'a Page,
    pub fields: &'a [String],
    pub payload: bool,
    /// The token of the next page.
    pub next: Option<&'a str>,
    pub elapsed: Duration,
}

/// A page of the documents that satisfy a condition.
pub(super) fn search(running: &Running<'_>, object: &Members) -> Result<Option<Vec<u8>>> {
    let reader = running.reader;
    let query = query_within(running, object)?;
    let payload = flag(object, "payload")?;
    let chosen = texts(object, "fields", MAX_FIELDS)?.map(distinct);
    let fields = shown_fields(reader.schema(), &query.order, chosen.as_deref())?;
    let start = Instant::now();
    let page = reader.search(&query)?;
    let elapsed = start.elapsed();
    let next = next_token(reader, &query, &page)?;
    let (page, fields, next) = (&page, &fields[..], next.as_deref());
    let found = Found { page, fields, payload, next, elapsed };
    match running.form {
        Form::Ndjson => as_lines(running, &found),
        Form::Arrow => arrow::stream(running, &found),
        _ => as_json(running, &found),
    }
}

/// How a query runs, and what it touches.
pub(super) fn explain(running: &Running<'_>, object: &Members) -> Result<Option<Vec<u8>>> {
    let query = query_within(running, object)?;
    let mut output = running.output();
    output.json(&explain_to_json(&running.reader.explain(&query)?));
    Ok(output.finish())
}

/// The query of a request, within the limits of pages: finding a page takes memory for the
/// documents that are skipped, too.
fn query_within(running: &Running<'_>, object: &Members) -> Result<Query> {
    let mut query = query::query_of(running.reader.schema(), object)?;
    let (page, skip) = (running.limits.page as u64, running.limits.skip as u64);
    let limit = query.limit.unwrap_or(PAGE.min(page));
    if limit > page {
        return Err(Error::invalid(format!(
            "limit: {limit} documents are more than a page can have, {page}: fetch further pages \
             with `after`"
        )));
    }
    if query.skip > skip {
        return Err(Error::invalid(format!(
            "skip: {} documents are more than can be skipped, {skip}: continue with `after`",
            query.skip
        )));
    }
    query.limit = Some(limit);
    Ok(query)
}

/// The names without those that were there before.
fn distinct(names: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        if !kept.contains(&name) {
            kept.push(name);
        }
    }
    kept
}

fn as_json(running: &Running<'_>, found: &Found<'_>) -> Result<Option<Vec<u8>>> {
    let mut output = running.output();
    output.text("{\"hits\":[");
    let mut separator = "";
    each_hit(running, found, |hit| {
        output.text(separator);
        output.json(&hit);
        separator = ",";
        !output.is_full()
    })?;
    output.text("]");
    let end = [("count", found.page.count.map(Json::from)), ("next", found.next.map(Json::from))];
    for (name, value) in end {
        if let Some(value) = value {
            output.text(&format!(",\"{name}\":{value}"));
        }
    }
    output.text(&format!(",\"elapsed_seconds\":{}}}", json!(found.elapsed.as_secs_f64())));
    Ok(output.finish())
}

fn as_lines(running: &Running<'_>, found: &Found<'_>) -> Result<Option<Vec<u8>>> {
    let mut output = running.output();
    each_hit(running, found, |hit| {
        output.line(&hit);
        !output.is_full()
    })?;
    output.line(&json!({ "summary": page_summary(found.page, found.next, found.elapsed) }));
    Ok(output.finish())
}

/// Calls `write` with each hit in JSON until it returns false.
fn each_hit(
    running: &Running<'_>,
    found: &Found<'_>,
    mut write: impl FnMut(Json) -> bool,
) -> Result<()> {
    let mut hits = HitReader::new(running.reader, found.fields, found.payload)?;
    for (i, hit) in found.page.hits.iter().enumerate() {
        if i % HITS_PER_LOOK == 0 {
            running.deadline.check()?;
        }
        if !write(hits.read(*hit)?) {
            break;
        }
    }
    Ok(())
}
