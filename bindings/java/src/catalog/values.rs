//! Results of catalogs, packed.

use crate::convert::{Pack, long};
use firndb::catalog::{Diff, Published, ReaderStats, Staged, Version};
use std::collections::BTreeMap;

/// A length that does not exist.
const ABSENT: i64 = -1;

/// `Version`, in the order of its components. 0 is no number.
pub fn pack_version(packed: &mut Pack, version: &Version) {
    packed.text(&version.name);
    packed.long(long(version.number));
    packed.text(&version.id);
    packed.long(long(version.parent.unwrap_or(0)));
    pack_optional(packed, version.parent_id.as_deref());
    packed.long(long(version.restores.unwrap_or(0)));
    packed.long(version.time);
    packed.text(version.kind.name());
    pack_optional(packed, version.schema.as_deref());
    pack_statistics(packed, &version.statistics);
    packed.int(count(version.labels.len()));
    for (name, text) in &version.labels {
        packed.text(name);
        packed.text(text);
    }
    packed.int(count(version.files.len()));
    for file in &version.files {
        packed.text(&file.name);
        packed.long(long(file.bytes));
        packed.text(&file.content);
        packed.text(&file.blake3);
        packed.long(long(file.since));
    }
}

/// `Catalog.Published`.
pub fn pack_published(packed: &mut Pack, published: &Published) {
    pack_version(packed, &published.version);
    for number in [published.files_sent, published.bytes_sent, published.files_repaired] {
        packed.long(long(number));
    }
}

/// What a `Staged` contains besides its text.
pub fn pack_staged(packed: &mut Pack, staged: &Staged) {
    packed.text(staged.name());
    packed.text(staged.object());
    packed.text(staged.file_name());
    packed.long(long(staged.bytes()));
    packed.text(staged.blake3());
    packed.text(staged.kind().name());
    pack_optional(packed, staged.schema());
    pack_statistics(packed, staged.statistics());
}

/// `Catalog.Diff`.
pub fn pack_diff(packed: &mut Pack, diff: &Diff) {
    packed.int(count(diff.changes.len()));
    for change in &diff.changes {
        packed.text(&change.name);
        packed.long(change.before.map_or(ABSENT, long));
        packed.long(change.after.map_or(ABSENT, long));
    }
    for number in [diff.files_kept, diff.bytes_kept, diff.bytes_new] {
        packed.long(long(number));
    }
}

/// `CatalogReader.Stats`, in the order of its components.
pub fn pack_stats(packed: &mut Pack, stats: &ReaderStats) {
    for number in [stats.version, stats.newest, stats.swaps] {
        packed.long(long(number));
    }
    packed.long(stats.switched);
    for seconds in [stats.open_seconds, stats.warm_seconds] {
        packed.long((seconds * 1e9) as i64);
    }
    for number in [stats.files, stats.bytes, stats.failures] {
        packed.long(long(number));
    }
    pack_optional(packed, stats.last_error.as_deref());
}

fn pack_statistics(packed: &mut Pack, statistics: &BTreeMap<String, u64>) {
    packed.int(count(statistics.len()));
    for (name, number) in statistics {
        packed.text(name);
        packed.long(long(*number));
    }
}

/// Adds whether there is a text, and the text.
fn pack_optional(packed: &mut Pack, text: Option<&str>) {
    packed.byte(u8::from(text.is_some()));
    text.iter().for_each(|text| packed.text(text));
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
