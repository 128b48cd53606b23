//! Results of queries as JSON: what `firn search` prints with `--json` and the server sends.

use crate::value::to_json;
use firndb::search::{
    Aggregate, Explain, FacetCounts, FieldReader, Group, GroupBy, Hit, Number, OrderBy, Page,
    Query, Reader, Schema, Value,
};
use firndb::{Error, Result};
use serde_json::{Map, Value as Json, json};
use std::time::Duration;

/// The names of the fields whose values can be read back from a document.
pub fn readable(schema: &Schema) -> impl Iterator<Item = &str> {
    let fields = schema.fields().iter();
    fields.filter(|f| f.roles.stored || f.roles.sortable).map(|f| f.name.as_str())
}

/// The fields to show: the chosen ones, otherwise all that can be read back, those of the order
/// first.
///
/// # Errors
///
/// `InvalidArgument` if a chosen field does not exist or cannot be read back.
pub fn shown_fields(
    schema: &Schema,
    order: &[OrderBy],
    chosen: Option<&[String]>,
) -> Result<Vec<String>> {
    if let Some(chosen) = chosen {
        if let Some(wrong) = chosen.iter().find(|name| readable(schema).all(|f| f != **name)) {
            let reason = match schema.field(wrong) {
                Some(_) => format!("field `{wrong}` cannot be read back: it is not stored"),
                None => {
                    let name: String = wrong.chars().take(40).collect();
                    format!("there is no field `{name}`")
                }
            };
            let names = readable(schema).collect::<Vec<_>>().join(", ");
            return Err(Error::invalid(format!("{reason}; fields to show are {names}")));
        }
        return Ok(chosen.to_vec());
    }
    let mut fields: Vec<String> = Vec::new();
    for name in order.iter().map(|key| key.field.as_str()).chain(readable(schema)) {
        if !fields.iter().any(|field| field == name) {
            fields.push(name.to_string());
        }
    }
    Ok(fields)
}

/// The token of the next page; `None` if this page is the last.
///
/// # Errors
///
/// As [`Reader::page_token`].
pub fn next_token(reader: &Reader, query: &Query, page: &Page) -> Result<Option<String>> {
    let full = query.limit.is_some_and(|limit| page.hits.len() as u64 == limit);
    match page.hits.last() {
        Some(hit) if full => Ok(Some(reader.page_token(query, *hit)?.to_string())),
        _ => Ok(None),
    }
}

/// Reads some fields of many hits, and their payloads.
pub struct HitReader<'r> {
    reader: &'r Reader,
    columns: Vec<Column<'r>>,
    payload: bool,
}

struct Column<'r> {
    name: String,
    multi: bool,
    values: FieldReader<'r>,
}

impl<'r> HitReader<'r> {
    /// A reader of these fields, which must be stored or sortable, and of payloads if `payload` is
    /// set.
    ///
    /// # Errors
    ///
    /// As [`Reader::field`].
    pub fn new(reader: &'r Reader, fields: &[String], payload: bool) -> Result<HitReader<'r>> {
        let column = |name: &String| {
            let values = reader.field(name)?;
            let multi = reader.schema().field(name).is_some_and(|(_, field)| field.multi);
            Ok(Column { name: name.clone(), multi, values })
        };
        let columns = fields.iter().map(column).collect::<Result<_>>()?;
        Ok(HitReader { reader, columns, payload })
    }

    /// The fields of a hit: arrays for multi-valued ones, nothing for missing values.
    ///
    /// # Errors
    ///
    /// As [`Reader::values`].
    pub fn fields(&mut self, hit: Hit) -> Result<Map<String, Json>> {
        let mut object = Map::with_capacity(self.columns.len());
        for Column { name, multi, values } in &mut self.columns {
            let mut json = None;
            values.each_list(&[hit], |values| json = values_to_json(values, *multi))?;
            if let Some(json) = json {
                object.insert(name.clone(), json);
            }
        }
        Ok(object)
    }

    /// A hit with its partition, document number, fields and, if requested, its payload.
    ///
    /// # Errors
    ///
    /// As [`Reader::values`] and [`Reader::payload`].
    pub fn read(&mut self, hit: Hit) -> Result<Json> {
        let partition = self.reader.partition_name(hit.partition);
        let fields = self.fields(hit)?;
        let mut json = json!({ "partition": partition, "doc": hit.doc, "fields": fields });
        if self.payload {
            json["payload"] = payload_to_json(&self.reader.payload(hit)?);
        }
        Ok(json)
    }
}

/// The fields of a hit, as [`HitReader::fields`] returns them, which is faster for many hits.
///
/// # Errors
///
/// As [`Reader::values`].
pub fn fields_to_json(reader: &Reader, hit: Hit, fields: &[String]) -> Result<Map<String, Json>> {
    let mut object = Map::new();
    for name in fields {
        let multi = reader.schema().field(name).is_some_and(|(_, f)| f.multi);
        if let Some(json) = values_to_json(&reader.values(hit, name)?, multi) {
            object.insert(name.clone(), json);
        }
    }
    Ok(object)
}

/// The values of a field as an array, if it is multi-valued; `None` without values.
fn values_to_json(values: &[Value], multi: bool) -> Option<Json> {
    match values.first() {
        Some(value) if !multi => Some(to_json(value)),
        Some(_) => Some(values.iter().map(to_json).collect()),
        None => None,
    }
}

/// A payload as JSON: JSON unchanged, other text as a string, other bytes in hexadecimal.
pub fn payload_to_json(bytes: &[u8]) -> Json {
    match (serde_json::from_slice(bytes), std::str::from_utf8(bytes)) {
        (Ok(json), _) => json,
        (_, Ok(text)) => Json::from(text),
        _ => Json::from(hex::encode(bytes)),
    }
}

/// What follows the hits of a page.
pub fn page_summary(page: &Page, next: Option<&str>, elapsed: Duration) -> Json {
    json!({
        "documents": page.hits.len(),
        "count": page.count,
        "next": next,
        "elapsed_seconds": elapsed.as_secs_f64(),
    })
}

/// The values of a field and their counts.
pub fn facet_to_json(counts: &FacetCounts) -> Json {
    let value = |(value, count): &(Value, u64)| json!({ "value": to_json(value), "count": count });
    json!({
        "field": counts.field,
        "values": counts.values.iter().map(value).collect::<Json>(),
        "distinct": counts.distinct,
        "missing": counts.missing,
    })
}

/// Keeps the largest groups, largest first; groups of one size stay in their order.
pub fn keep_largest(groups: &mut Vec<Group>, top: usize) {
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups.truncate(top);
}

/// A group: its key, its count and its aggregates.
pub fn group_to_json(group: &Group, by: &GroupBy) -> Json {
    let value = |value: &Option<Value>| value.as_ref().map_or(Json::Null, to_json);
    let key: Map<String, Json> =
        by.fields.iter().cloned().zip(group.key.iter().map(value)).collect();
    let aggregate = |a: &Aggregate| {
        json!({
            "count": a.count,
            "min": value(&a.min),
            "max": value(&a.max),
            "sum": a.sum.map(number_to_json),
            "avg": a.avg,
        })
    };
    let aggregates: Map<String, Json> =
        by.aggregates.iter().cloned().zip(group.aggregates.iter().map(aggregate)).collect();
    json!({ "key": key, "count": group.count, "aggregates": aggregates })
}

/// A sum: text if it is an integer beyond 64 bits.
pub fn number_to_json(number: Number) -> Json {
    match number {
        Number::Int(v) => i64::try_from(v).map_or_else(|_| Json::from(v.to_string()), Json::from),
        Number::Float(v) => Json::from(v),
    }
}

/// How a query was executed.
pub fn explain_to_json(explain: &Explain) -> Json {
    json!({
        "plan": explain.plan,
        "hits": explain.hits,
        "matches": explain.matches,
        "partitions": explain.partitions,
        "partitions_pruned": explain.partitions_pruned,
        "docs_touched": explain.docs_touched,
        "list_entries_touched": explain.list_entries_touched,
        "touched_bytes": explain.bytes_touched,
        "elapsed_seconds": explain.time.as_secs_f64(),
    })
}
