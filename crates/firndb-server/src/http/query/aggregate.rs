//! Counts, facets and groups.

use super::super::negotiate::Form;
use super::request::Members;
use super::{Output, Running};
use firndb::search::{Facet, GroupBy};
use firndb::{Error, Result};
use firndb_ingest::query::{condition_of, flag, number, texts};
use firndb_ingest::results::{facet_to_json, group_to_json, keep_largest};
use serde_json::{Value as Json, json};
use std::time::Instant;

/// The number of values of a facet, unless the request has one.
const TOP: usize = 10;

/// The maximum number of facets, and of aggregates, of a request.
const MAX_BY: usize = 16;

/// Items between two looks at the deadline.
const ITEMS_PER_LOOK: usize = 1024;

/// The number of documents that satisfy a condition.
pub(super) fn count(running: &Running<'_>, object: &Members) -> Result<Option<Vec<u8>>> {
    let filter = condition_of(running.reader.schema(), object)?;
    let mut output = running.output();
    output.json(&json!({ "count": running.reader.count(&filter)? }));
    Ok(output.finish())
}

/// The most frequent values of fields.
pub(super) fn facets(running: &Running<'_>, object: &Members) -> Result<Option<Vec<u8>>> {
    let filter = condition_of(running.reader.schema(), object)?;
    let by = texts(object, "by", MAX_BY)?.filter(|by| !by.is_empty());
    let by = by.ok_or_else(|| Error::invalid("by: name the fields whose values are counted"))?;
    let top = top(running, object)?.unwrap_or(TOP.min(running.limits.page));
    let disjunctive = flag(object, "disjunctive")?;
    let facet = |field: &String| {
        let facet = Facet::new(field).top(top);
        if disjunctive { facet.disjunctive() } else { facet }
    };
    let facets: Vec<Facet> = by.iter().map(facet).collect();
    let start = Instant::now();
    let reader = running.reader.with_group_limit(running.limits.facet_values);
    let found = reader.facets(&filter, &facets)?;
    let end = json!({ "elapsed_seconds": start.elapsed().as_secs_f64() });
    write_all(running, "facets", &found, facet_to_json, end)
}

/// The documents by the values of one or two fields, with aggregates of others.
pub(super) fn group(running: &Running<'_>, object: &Members) -> Result<Option<Vec<u8>>> {
    let filter = condition_of(running.reader.schema(), object)?;
    let names = |key| texts(object, key, MAX_BY).map(Option::unwrap_or_default);
    let by = GroupBy::new(names("by")?).aggregates(names("aggregates")?);
    let top = top(running, object)?;
    let start = Instant::now();
    let reader = running.reader.with_group_limit(running.limits.groups);
    let mut groups = reader.group_by(&filter, &by)?;
    let total = groups.len();
    if let Some(top) = top {
        keep_largest(&mut groups, top);
    }
    let seconds = start.elapsed().as_secs_f64();
    let end = json!({ "total": total, "elapsed_seconds": seconds });
    write_all(running, "groups", &groups, |group| group_to_json(group, &by), end)
}

/// The number of values or groups that the client wants.
fn top(running: &Running<'_>, object: &Members) -> Result<Option<usize>> {
    let (top, page) = (number(object, "top")?, running.limits.page);
    let Some(top) = top else { return Ok(None) };
    match usize::try_from(top) {
        Ok(top) if top <= page => Ok(Some(top)),
        _ => Err(Error::invalid(format!("top: {top} is more than a page can have, {page}"))),
    }
}

/// Writes items under `name`, followed by the members of `end`; or one item per line.
fn write_all<T>(
    running: &Running<'_>,
    name: &str,
    items: &[T],
    to_json: impl Fn(&T) -> Json,
    end: Json,
) -> Result<Option<Vec<u8>>> {
    let mut output: Output = running.output();
    let lines = running.form == Form::Ndjson;
    if !lines {
        output.text(&format!("{{\"{name}\":["));
    }
    for (i, item) in items.iter().enumerate() {
        if i % ITEMS_PER_LOOK == 0 {
            running.deadline.check()?;
        }
        if !lines && i > 0 {
            output.text(",");
        }
        output.json(&to_json(item));
        if lines {
            output.text("\n");
        }
        if output.is_full() {
            break;
        }
    }
    if !lines {
        output.text("],");
        // The members of the object without its first brace.
        output.text(&end.to_string()[1..]);
    }
    Ok(output.finish())
}
