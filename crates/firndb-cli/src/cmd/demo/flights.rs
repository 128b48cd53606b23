//! Turns rows of the flights file into documents: schema, tags, partitions, and the correction of a
//! month.

use crate::cmd::load::advance;
use firndb::search::{
    Collection, Document, Field, PartitionBuilder, Payload, Reader, Roles, Schema, Type, Value,
};
use firndb::{Error, Result};
use firndb_ingest::{Format, RawValue, Row, RowOptions, Rows, Typer, TyperOptions};
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::path::Path;

/// The month that the demo replaces at its end.
pub const CORRECTED_MONTH: i64 = 7;
/// The carrier whose delays are corrected.
pub const CORRECTED_CARRIER: &str = "EV";
/// Minutes by which its reported delays are assumed to be too high.
pub const CORRECTION: i64 = 10;

/// Thirteen searchable fields, and seven that can only be read back.
pub fn schema() -> Result<Schema> {
    let filterable = Roles::FILTERABLE.with(Roles::STORED);
    let number = |name: &str, roles| Field::new(name, Type::I64, roles);
    let schema = Schema::new([
        number("year", Roles::STORED),
        number("month", Roles::FULL),
        number("day", Roles::FULL),
        number("dep_time", Roles::FULL).nullable(),
        number("sched_dep_time", Roles::STORED),
        number("dep_delay", Roles::FULL).nullable(),
        number("arr_time", Roles::STORED).nullable(),
        number("sched_arr_time", Roles::STORED),
        number("arr_delay", Roles::FULL).nullable(),
        Field::new("carrier", Type::String, Roles::FULL),
        number("flight", Roles::STORED),
        Field::new("tailnum", Type::String, filterable).nullable(),
        Field::new("origin", Type::String, filterable),
        Field::new("dest", Type::String, Roles::FULL),
        number("air_time", Roles::STORED).nullable(),
        number("distance", Roles::FULL),
        number("hour", Roles::FULL),
        number("minute", Roles::STORED),
        Field::new("time_hour", Type::Timestamp, Roles::FULL),
        Field::new("tags", Type::String, filterable).multi(),
    ])?;
    Ok(schema.payload(Payload::Zstd { level: 3, dictionary: false }))
}

/// Reads `csv` into one partition per month, publishes them as the collection `dir`, and returns
/// the rows of the month that will be corrected.
pub fn build(csv: &Path, dir: &Path, bar: &ProgressBar) -> Result<(Collection, Vec<Row>)> {
    let schema = schema()?;
    let mut typer = Typer::new(&schema, TyperOptions::default().null_texts(["NA"]));
    let options = RowOptions::default().format(Format::Csv).progress(advance(bar));
    let mut rows = Rows::from_path(csv, options);
    let mut builders: BTreeMap<String, PartitionBuilder> = BTreeMap::new();
    let mut kept = Vec::new();
    while let Some(row) = rows.next_row()? {
        let row = row.map_err(|bad| Error::invalid(bad.to_string()))?;
        let document = document(&mut typer, &row)?;
        let (year, month) = (integer(&document, "year"), integer(&document, "month"));
        let (year, month) = (year.unwrap_or_default(), month.unwrap_or_default());
        builders
            .entry(format!("{year:04}-{month:02}"))
            .or_insert_with(|| PartitionBuilder::new(schema.clone()))
            .add(&document)?;
        if month == CORRECTED_MONTH {
            kept.push(row);
        }
    }
    let collection = Collection::create(dir)?;
    let mut change = collection.change()?;
    for (name, builder) in builders {
        bar.set_message(format!("writing {name}"));
        change.put(&name, builder)?;
    }
    change.commit()?;
    Ok((collection, kept))
}

/// Replaces a month by its rows with the carrier's delays corrected.
pub fn replace(collection: &Collection, name: &str, rows: &mut [Row]) -> Result<Reader> {
    let schema = schema()?;
    let mut typer = Typer::new(&schema, TyperOptions::default().null_texts(["NA"]));
    let mut builder = PartitionBuilder::new(schema.clone());
    for row in rows {
        correct(row);
        builder.add(&document(&mut typer, row)?)?;
    }
    let mut change = collection.change()?;
    change.put(name, builder)?;
    change.commit()
}

/// Subtracts the correction from both delays of a flight of the carrier.
fn correct(row: &mut Row) {
    let is = |(column, raw): &(_, RawValue)| {
        let column: &std::sync::Arc<str> = column;
        &**column == "carrier" && *raw == RawValue::Text(CORRECTED_CARRIER.to_string())
    };
    if !row.cells.iter().any(is) {
        return;
    }
    for (column, raw) in &mut row.cells {
        if let RawValue::Text(text) = raw
            && matches!(&**column, "dep_delay" | "arr_delay")
            && let Ok(delay) = text.parse::<i64>()
        {
            *text = (delay - CORRECTION).to_string();
        }
    }
}

/// The document of a row, with its tags.
pub fn document(typer: &mut Typer, row: &Row) -> Result<Document> {
    let mut document = typer.document(row).map_err(|bad| Error::invalid(bad.to_string()))?;
    for tag in tags(&document) {
        document.push("tags", tag);
    }
    Ok(document)
}

fn tags(flight: &Document) -> Vec<&'static str> {
    let mut tags = Vec::new();
    let number = |name| integer(flight, name).unwrap_or_default();
    match integer(flight, "dep_delay") {
        None => tags.push("cancelled"),
        Some(delay) if delay < 0 => tags.push("early"),
        Some(delay) => {
            // The source's statistics count a flight as late from fifteen minutes on.
            if delay >= 15 {
                tags.push("late");
            }
            if delay >= 120 {
                tags.push("very late");
            }
        }
    }
    if number("distance") >= 2000 {
        tags.push("long haul");
    }
    if number("hour") >= 21 {
        tags.push("red eye");
    }
    if is_weekend(number("year"), number("month"), number("day")) {
        tags.push("weekend");
    }
    tags
}

/// Whether a date of the Gregorian calendar is a Saturday or a Sunday (Sakamoto's rule).
fn is_weekend(year: i64, month: i64, day: i64) -> bool {
    const SHIFT: [i64; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
    let Some(shift) = usize::try_from(month - 1).ok().and_then(|m| SHIFT.get(m)) else {
        return false;
    };
    let year = if month < 3 { year - 1 } else { year };
    let weekday = (year + year / 4 - year / 100 + year / 400 + shift + day) % 7;
    weekday == 0 || weekday == 6
}

fn integer(document: &Document, name: &str) -> Option<i64> {
    document.fields().find_map(|(field, value)| match value {
        Value::I64(v) if field == name => Some(*v),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weekends_of_2013_are_known() {
        assert!(!is_weekend(2013, 1, 4) && is_weekend(2013, 1, 5) && is_weekend(2013, 1, 6));
        assert!(!is_weekend(2013, 1, 7) && is_weekend(2013, 12, 28) && !is_weekend(2013, 12, 31));
    }

    #[test]
    fn a_flight_gets_its_tags() {
        let flight = Document::new()
            .set("year", 2013)
            .set("month", 7)
            .set("day", 6)
            .set("hour", 22)
            .set("distance", 2475)
            .set("dep_delay", 150);
        assert_eq!(tags(&flight), ["late", "very late", "long haul", "red eye", "weekend"]);
        assert_eq!(tags(&Document::new().set("dep_delay", -3)), ["early"]);
        assert_eq!(tags(&Document::new()), ["cancelled"]);
    }
}
