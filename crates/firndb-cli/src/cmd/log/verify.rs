//! Reads and checks every record of a store.

use super::open_to_read;
use crate::failure::Result;
use crate::output::{Out, plural, size, time};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// Verifies a store and reports what was checked.
pub fn verify(dir: &Path, json: bool) -> Result<()> {
    let start = Instant::now();
    let store = open_to_read(dir)?;
    let (checked, keys) = (store.verify()?, store.len());
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "files": checked.files,
            "file_bytes": checked.bytes,
            "keys": keys,
            "records": checked.records,
            "elapsed_seconds": start.elapsed().as_secs_f64(),
        }))?;
    } else {
        let (file, order) = match store.is_ordered() {
            true => ("file", " and the order of the keys"),
            false => ("segment", ""),
        };
        out.line(format!(
            "{}: {}, {} in {}, {}{order} checked in {}, all well",
            dir.display(),
            plural(keys, "key"),
            plural(checked.records, "record"),
            plural(checked.files, file),
            size(checked.bytes),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}
