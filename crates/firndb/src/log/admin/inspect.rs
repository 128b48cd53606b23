//! What `firn inspect` and `firn verify` show of a store and of a segment.

use crate::bytes::inspection::{InspectedItem, Inspection};
use crate::log::format::names::segment_number;
use crate::log::format::segment_head::{MAGIC, SegmentHeader, version};
use crate::log::open::store::LogStore;
use crate::{Result, disk};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Whether this is the directory of a store.
pub(crate) fn is_store(path: &Path) -> bool {
    let names = disk::os().list(path).unwrap_or_default();
    names.iter().any(|name| segment_number(name).is_some())
}

/// Whether this is the name of a segment.
pub(crate) fn is_segment(path: &Path) -> bool {
    path.file_name().and_then(|name| segment_number(name.to_str()?)).is_some()
}

/// Whether these are the first bytes of a segment.
pub(crate) fn begins_segment(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Opens a store for reading, next to a process that may write to it.
pub(crate) fn open_to_read(dir: &Path) -> Result<LogStore> {
    LogStore::open_read_only(dir)
}

/// Describes a store.
pub(crate) fn describe(dir: &Path) -> Result<Inspection> {
    let store = open_to_read(dir)?;
    let stats = store.stats();
    let fact = |name: &str, value: u64| (name.to_string(), value.to_string());
    let items = store.shared().segments().into_iter().map(|segment| InspectedItem {
        name: format!("segment {}", segment.number),
        bytes: segment.capacity(),
        facts: vec![
            fact("used bytes", segment.end()),
            fact("live bytes", segment.live.load(Ordering::Relaxed)),
        ],
    });
    let mut facts = vec![
        ("store".to_string(), format!("{:016x}", store.shared().dir.store)),
        fact("keys", stats.keys),
        fact("live bytes", stats.live_bytes),
        ("ordered".to_string(), yes_or_no(stats.is_ordered)),
    ];
    if stats.is_ordered {
        facts.push(fact("key runs", stats.key_runs));
        facts.push(fact("bytes of key runs", stats.key_run_bytes));
    }
    Ok(Inspection {
        kind: "log store".to_string(),
        version: version(stats.is_ordered),
        bytes: stats.disk_bytes,
        facts,
        items: items.collect(),
        ..Inspection::default()
    })
}

fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_string()
}

/// Describes a segment file by its header.
pub(crate) fn describe_segment(path: &Path) -> Result<Inspection> {
    let bytes = disk::os().map(path)?;
    let header = SegmentHeader::decode(&bytes).map_err(|e| e.in_file(path))?;
    let fact = |name: &str, value: String| (name.to_string(), value);
    Ok(Inspection {
        kind: "log segment".to_string(),
        version: version(header.is_ordered),
        bytes: bytes.len() as u64,
        facts: vec![
            fact("store", format!("{:016x}", header.store)),
            fact("segment", header.number.to_string()),
            fact("ordered", yes_or_no(header.is_ordered)),
            fact("records begin at multiples of", (1u64 << header.alignment_log2).to_string()),
        ],
        ..Inspection::default()
    })
}
