//! `firn search group`: groups documents by one or two fields and aggregates others.

use super::{QueryFile, filter_of, open};
use crate::failure::Result;
use crate::output::{Grid, Out, decimal, number_to_text, plural, thousands, to_text};
use firndb::search::{Group, GroupBy, Value};
use firndb_ingest::results::{group_to_json, keep_largest};
use std::path::PathBuf;

/// Group documents by one or two fields and aggregate others.
///
/// For example: firn search group flights "carrier = 'UA'" --by month --agg dep_delay
#[derive(clap::Args)]
#[command(after_help = super::CONDITIONS)]
pub struct Args {
    /// Directory of the collection, or a partition file.
    dir: PathBuf,
    /// The condition. Empty: all documents.
    #[arg(allow_negative_numbers = true)]
    filter: Vec<String>,
    #[command(flatten)]
    from: QueryFile,
    /// One or two fields to group by.
    #[arg(long, value_delimiter = ',', required = true, value_name = "A[,B]")]
    by: Vec<String>,
    /// Fields to aggregate: average, minimum, maximum and sum of each.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    agg: Vec<String>,
    /// Show only the N largest groups, largest first.
    #[arg(long, value_name = "N")]
    top: Option<usize>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let reader = open(&args.dir)?;
    let filter = filter_of(&args.from.text(&args.filter)?, reader.schema())?;
    let by = GroupBy::new(args.by.clone()).aggregates(args.agg.clone());
    let mut groups = reader.group_by(&filter, &by)?;
    let all = groups.len() as u64;
    if let Some(top) = args.top {
        keep_largest(&mut groups, top);
    }
    let mut out = Out::new();
    if json {
        for group in &groups {
            out.json(&group_to_json(group, &by))?;
        }
    } else {
        out.line(as_table(&groups, &by))?;
        out.line(plural(all, "group"))?;
    }
    Ok(out.finish()?)
}

/// One row per group: keys, count, aggregates.
pub fn as_table(groups: &[Group], by: &GroupBy) -> Grid {
    let mut headers = by.fields.clone();
    headers.push("documents".to_string());
    for field in &by.aggregates {
        headers.extend(["avg", "min", "max", "sum"].map(|what| format!("{what} {field}")));
    }
    let mut grid = Grid::new(headers);
    let text = |value: &Option<Value>| value.as_ref().map_or("-".to_string(), to_text);
    for group in groups {
        let mut row: Vec<String> = group.key.iter().map(text).collect();
        row.push(thousands(group.count));
        for aggregate in &group.aggregates {
            row.push(aggregate.avg.map_or("-".to_string(), decimal));
            row.push(text(&aggregate.min));
            row.push(text(&aggregate.max));
            row.push(aggregate.sum.map_or("-".to_string(), number_to_text));
        }
        grid.row(row);
    }
    grid
}
