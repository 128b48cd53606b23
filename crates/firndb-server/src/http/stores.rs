//! The list of stores, and facts about one.

use super::Context;
use super::problem::Problem;
use super::reply::{Reply, json};
use crate::stores::{Entry, Kind, Source};
use firndb::search::{Field, OrderBy, PartitionInfo};
use hyper::StatusCode;
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// All stores.
pub async fn list(context: &Context) -> Reply {
    let all = context.app.stores.all();
    let stores: Vec<Json> = all.iter().map(|entry| summary(entry)).collect();
    Ok(json(StatusCode::OK, &json!({ "stores": stores })))
}

/// The name and the kind of a store.
pub fn summary(entry: &Entry) -> Json {
    json!({ "name": entry.name, "kind": entry.kind() })
}

/// Facts about a store.
pub async fn show(context: &Context, kind: Kind, store: &str) -> Reply {
    let entry = find(context, kind, store)?;
    let facts = context.app.work(move |_| {
        let mut facts = summary(&entry);
        match (&entry.source, kind) {
            (Source::Log(store), _) => {
                facts["records"] = store.len().into();
                facts["stats"] = serde_json::to_value(store.stats()).unwrap_or_default();
            }
            (_, Kind::Collection) => {
                let reader = entry.collection()?;
                let partitions = reader.partitions();
                facts["documents"] = reader.len().into();
                facts["partitions"] = partitions.len().into();
                facts["partition_list"] = partitions.iter().map(partition).collect();
                facts["schema"] = reader.schema().to_toml().into();
                facts["fields"] = reader.schema().fields().iter().map(field).collect();
                facts["order"] = reader.schema().order().iter().map(order).collect();
                facts["dynamic"] = reader.schema().is_dynamic().into();
            }
            _ => {
                let handle = entry.table()?;
                let table = handle.get_ref()?;
                facts["records"] = table.len().into();
                facts["value_schema"] = table.value_schema()?.into();
            }
        }
        Ok(facts)
    });
    Ok(json(StatusCode::OK, &facts.await?))
}

/// A partition of a collection.
fn partition(partition: &PartitionInfo) -> Json {
    let PartitionInfo { name, documents, bytes, .. } = partition;
    json!({ "name": name, "documents": documents, "bytes": bytes })
}

/// A sort key of a collection's document order.
fn order(key: &OrderBy) -> Json {
    json!({ "field": key.field, "desc": key.descending })
}

/// A field of a collection's schema.
fn field(field: &Field) -> Json {
    json!({
        "name": field.name,
        "type": field.ty.name(),
        "filterable": field.roles.filterable,
        "sortable": field.roles.sortable,
        "stored": field.roles.stored,
        "multi": field.multi,
        "nullable": field.nullable,
    })
}

/// The store of a name, if it is of the kind in the path.
pub fn find(context: &Context, kind: Kind, store: &str) -> Result<Arc<Entry>, Problem> {
    let entry = context.app.stores.entry(store)?;
    match kind {
        Kind::Log => entry.log().map(|_| ())?,
        Kind::Table => entry.table().map(|_| ())?,
        Kind::Collection => entry.collection().map(|_| ())?,
    }
    Ok(entry)
}
