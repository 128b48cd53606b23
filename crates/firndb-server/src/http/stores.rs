//! The list of stores, and facts about one.

use super::Context;
use super::problem::Problem;
use super::reply::{Reply, json};
use crate::stores::{Entry, Kind, Source};
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
                facts["documents"] = reader.len().into();
                facts["partitions"] = reader.partitions().len().into();
                facts["schema"] = reader.schema().to_toml().into();
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
