//! `firn search stats`: shows the size of a collection, its fields and their contents.

use super::open;
use crate::failure::Result;
use crate::output::{Grid, Out, plural, size, thousands, to_json, to_text};
use firndb::search::{Facet, Field, Filter, Reader, Value};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// Show size, schema and fields of a collection.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the collection, or a partition file.
    dir: PathBuf,
}

/// Statistics of a field; `None` where its roles do not provide them.
struct FieldStats {
    distinct: Option<u64>,
    missing: Option<u64>,
    min: Option<Value>,
    max: Option<Value>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let reader = open(&args.dir)?;
    let bytes: u64 = reader.partitions().iter().map(|p| p.bytes).sum();
    let partitions = reader.partitions().len() as u64;
    let fields = reader.schema().fields();
    let stats = fields.iter().map(|field| field_stats(&reader, field));
    let stats = stats.collect::<firndb::Result<Vec<FieldStats>>>()?;
    let mut out = Out::new();
    if json {
        let fields: Json = fields.iter().zip(&stats).map(|(f, s)| as_json(f, s)).collect();
        out.json(&json!({
            "kind": "collection", "documents": reader.len(), "partitions": partitions,
            "file_bytes": bytes, "fields": fields,
        }))?;
        return Ok(out.finish()?);
    }
    let documents = plural(reader.len(), "document");
    out.line(format!("{documents} in {}, {}", plural(partitions, "partition"), size(bytes)))?;
    let mut grid =
        Grid::new(["field", "type", "roles", "distinct", "missing", "smallest", "largest"]);
    let number = |n: Option<u64>| n.map_or("-".to_string(), thousands);
    let value = |v: &Option<Value>| v.as_ref().map_or("-".to_string(), to_text);
    for (field, stats) in fields.iter().zip(&stats) {
        grid.row([
            field.name.clone(),
            format!("{}{}", field.ty.name(), if field.multi { "[]" } else { "" }),
            roles(field).join(", "),
            number(stats.distinct),
            number(stats.missing),
            value(&stats.min),
            value(&stats.max),
        ]);
    }
    out.line(grid)?;
    Ok(out.finish()?)
}

fn field_stats(reader: &Reader, field: &Field) -> firndb::Result<FieldStats> {
    let mut stats = FieldStats { distinct: None, missing: None, min: None, max: None };
    if field.roles.filterable {
        let facet = Facet::new(field.name.clone()).top(0);
        let counts = reader.facets(&Filter::All, &[facet])?;
        stats.distinct = counts.first().map(|c| c.distinct);
        stats.missing = counts.first().map(|c| c.missing);
    }
    if field.roles.sortable {
        let aggregate = reader.aggregate(&Filter::All, &field.name)?;
        stats.missing = Some(reader.len() - aggregate.count);
        (stats.min, stats.max) = (aggregate.min, aggregate.max);
    }
    Ok(stats)
}

/// The roles of a field, named as in schemas.
fn roles(field: &Field) -> Vec<&'static str> {
    let roles = field.roles;
    let named =
        [(roles.filterable, "filterable"), (roles.sortable, "sortable"), (roles.stored, "stored")];
    if named.iter().all(|(has, _)| *has) {
        return vec!["full"];
    }
    named.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect()
}

fn as_json(field: &Field, stats: &FieldStats) -> Json {
    json!({
        "name": field.name,
        "type": field.ty.name(),
        "roles": roles(field),
        "multi": field.multi,
        "nullable": field.nullable,
        "distinct": stats.distinct,
        "missing": stats.missing,
        "min": stats.min.as_ref().map(to_json),
        "max": stats.max.as_ref().map(to_json),
    })
}
