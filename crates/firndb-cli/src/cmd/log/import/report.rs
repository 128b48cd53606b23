//! What `firn log import` reports of a directory: why it is refused, or what is missing.

use super::super::{put_bytes, shown_key};
use crate::output::{plural, thousands};
use firndb::Error;
use firndb_import::halodb::{Cause, Dropped, FileKind, KeyList, Lost, Report, Shutdown};
use serde_json::{Map, Value as Json, json};
use std::time::Instant;

/// Maximum number of notes of one kind printed.
const NOTES_MAX: usize = 20;
/// Maximum number of keys named in a message.
const KEYS_MAX: usize = 5;

/// Why the directory is refused, unless the command accepts missing records.
pub fn refusal(found: &Report) -> Option<Error> {
    if !found.is_incomplete() {
        return None;
    }
    let mut reasons = Vec::new();
    let is_torn = |dropped: &&Dropped| dropped.cause == Cause::Torn;
    let first = found.dropped.iter().find(|dropped| !is_torn(dropped));
    // A torn tail is named as the reason only if there is no other one.
    let first = first.or(found.dropped.first().filter(|_| found.lost.is_empty()));
    if let Some(first) = first {
        let more = match found.dropped.iter().filter(|dropped| !is_torn(dropped)).count() {
            0 | 1 => String::new(),
            count => format!(" ({} more like this)", plural(count as u64 - 1, "place")),
        };
        reasons.push(format!("{}{more}", cause(first, found.state.shutdown)));
    }
    reasons.extend(found.lost.iter().take(3).map(lost));
    if found.lost.len() > 3 {
        let all = plural(found.lost_keys(), "key");
        let files = found.lost.len();
        reasons.push(format!("and so on: in all, the newest records of {all} in {files} files"));
    }
    let message = format!(
        "{}. Nothing was imported. Use an undamaged copy of the directory, if there is one; \
         --on-error skip imports the rest, without keys whose newest record is lost",
        reasons.join("; ")
    );
    let error = Error::corrupt(message);
    Some(match (first, found.lost.first()) {
        (Some(first), _) => error.at(first.offset).in_file(&first.path),
        (None, Some(lost)) => error.in_file(&lost.data),
        (None, None) => error,
    })
}

fn cause(dropped: &Dropped, shutdown: Shutdown) -> String {
    let bytes = plural(dropped.bytes, "byte");
    let entry = match dropped.kind {
        FileKind::Tombstones => "tombstone",
        FileKind::Index => "index entry",
        _ => "record",
    };
    match dropped.cause {
        Cause::LongKey => format!("the {entry} has a key longer than 64 KiB"),
        Cause::Torn => format!("{bytes} are not an intact {entry}, and nothing else is there"),
        Cause::Truncated => {
            let why = match shutdown {
                Shutdown::Clean => ", though META says that HaloDB closed the directory",
                Shutdown::Crashed => ", and this is not the file that HaloDB wrote last",
                Shutdown::MetaDamaged => ", and META is damaged, so a crash cannot be assumed",
                _ => ", and there is no META that records a crash",
            };
            format!("the file is cut off: its last {bytes} are not an intact {entry}{why}")
        }
        _ => format!("{bytes} are not an intact {entry}: the checksum or a length is wrong"),
    }
}

fn lost(lost: &Lost) -> String {
    let is_are = if lost.keys.count == 1 { "is" } else { "are" };
    let index = lost.index.file_name().unwrap_or_default().display();
    let data = lost.data.file_name().unwrap_or_default().display();
    let place = match lost.has_data {
        true => format!("{data} does not hold them"),
        false => format!("{data} is missing"),
    };
    format!(
        "{} that {index} lists {is_are} lost: {place}, and no file has newer ones of {}",
        plural(lost.keys.count, "record"),
        names(&lost.keys)
    )
}

/// Some of the keys, and the number of the others.
fn names(keys: &KeyList) -> String {
    let named: Vec<String> = keys.sample.iter().take(KEYS_MAX).map(|key| shown_key(key)).collect();
    match keys.count - named.len() as u64 {
        0 => named.join(", "),
        more => format!("{} and {} more", named.join(", "), thousands(more)),
    }
}

/// Notes for the user after a finished import.
pub fn notes(found: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    match found.state.shutdown {
        Shutdown::Crashed => notes.push("HaloDB did not close this directory".to_string()),
        Shutdown::MetaDamaged => notes.push("META is damaged; it was not used".to_string()),
        _ => {}
    }
    if found.state.is_meta_altered {
        notes.push("the checksum of META is wrong; HaloDB does not check it".to_string());
    }
    let dropped = found.dropped.iter().map(|dropped| {
        format!(
            "{}: {} at byte {} {}",
            dropped.path.display(),
            plural(dropped.bytes, "byte"),
            dropped.offset,
            match dropped.cause {
                Cause::Torn => "were a write that a crash interrupted, and were dropped",
                Cause::Truncated => "were cut off, and were left out",
                Cause::LongKey => "have a key longer than 64 KiB, and were left out",
                _ => "are damaged, and were left out",
            }
        )
    });
    some(&mut notes, dropped, found.dropped.len());
    let damage = found.index_damage.iter().map(|dropped| {
        let (path, bytes) = (dropped.path.display(), plural(dropped.bytes, "byte"));
        format!("{path}: {bytes} at byte {} are damaged, and were not used", dropped.offset)
    });
    some(&mut notes, damage, found.index_damage.len());
    if found.torn.count > 0 {
        notes.push(format!(
            "index files list {} in what the crash interrupted; older versions, if there are any, \
             were imported of {}",
            plural(found.torn.count, "record"),
            names(&found.torn)
        ));
    }
    let keys = found.lost.iter().flat_map(|lost| &lost.keys.sample);
    let keys = keys.map(|key| {
        format!("{} was not imported: its newest record is damaged or missing", shown_key(key))
    });
    some(&mut notes, keys, found.lost_keys() as usize);
    for lost in &found.lost {
        let count = plural(lost.keys.count, "record");
        notes.push(format!("{}: {count} lost", lost.data.display()));
    }
    let is_unknown = |d: &&Dropped| d.cause != Cause::Torn && d.listed == 0;
    let unknown = found.dropped.iter().filter(is_unknown).count();
    if unknown > 0 {
        notes.push(format!(
            "at {} of these places it is unknown which keys were there; of these keys older \
             versions may have been imported",
            thousands(unknown as u64)
        ));
    }
    notes
}

/// Adds the first notes of a kind, and the number of the others.
fn some(notes: &mut Vec<String>, all: impl Iterator<Item = String>, count: usize) {
    notes.extend(all.take(NOTES_MAX));
    if count > NOTES_MAX {
        notes.push(format!("and {} more like this", thousands((count - NOTES_MAX) as u64)));
    }
}

/// The findings as JSON.
pub fn as_json(found: &Report, start: Instant) -> Json {
    let dropped = found.dropped.iter().map(|dropped| {
        json!({
            "file": dropped.path.display().to_string(),
            "offset": dropped.offset,
            "dropped_bytes": dropped.bytes,
            "torn": dropped.cause == Cause::Torn,
        })
    });
    let key = |key: &Vec<u8>| {
        let mut object = Map::new();
        put_bytes(&mut object, "key", key);
        Json::Object(object)
    };
    let missing = found.lost.iter().map(|lost| {
        json!({
            "file": lost.data.display().to_string(),
            "index": lost.index.display().to_string(),
            "is_there": lost.has_data,
            "records": lost.keys.count,
        })
    });
    let lost = found.lost.iter().flat_map(|lost| &lost.keys.sample).map(key);
    json!({
        "keys": found.live,
        "deleted": found.deleted,
        "records": found.records,
        "tombstones": found.tombstones,
        "files": found.files,
        "read_bytes": found.bytes,
        "unclean": found.state.shutdown == Shutdown::Crashed,
        "dropped": dropped.collect::<Vec<Json>>(),
        "torn_records": found.torn.count,
        "lost_keys": found.lost_keys(),
        "lost": lost.collect::<Vec<Json>>(),
        "missing": missing.collect::<Vec<Json>>(),
        "elapsed_seconds": start.elapsed().as_secs_f64(),
    })
}
