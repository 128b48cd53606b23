//! `firn search facets`: counts the most frequent values of fields among matching documents.

use super::{QueryFile, filter_of, open};
use crate::failure::Result;
use crate::output::{Grid, Out, plural, thousands, to_text};
use firndb::search::{Facet, FacetCounts};
use firndb_ingest::results::facet_to_json;
use std::path::PathBuf;

/// Count the values of fields among the documents that satisfy a condition.
///
/// For example: firn search facets flights "dep_delay > 60" --by carrier,dest --top 5
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
    /// The fields whose values are counted.
    #[arg(long, value_delimiter = ',', required = true, value_name = "A,B")]
    by: Vec<String>,
    /// Maximum number of values shown for each field.
    #[arg(long, default_value_t = 10, value_name = "N")]
    top: usize,
    /// Count each field without the condition's terms on that field: the counts of alternative
    /// choices.
    #[arg(long)]
    disjunctive: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let reader = open(&args.dir)?;
    let filter = filter_of(&args.from.text(&args.filter)?, reader.schema())?;
    let facet = |field: &String| {
        let mut facet = Facet::new(field).top(args.top);
        facet.disjunctive = args.disjunctive;
        facet
    };
    let facets: Vec<Facet> = args.by.iter().map(facet).collect();
    let mut out = Out::new();
    for (i, counts) in reader.facets(&filter, &facets)?.iter().enumerate() {
        if json {
            out.json(&facet_to_json(counts))?;
        } else {
            out.line(format!("{}{}", if i == 0 { "" } else { "\n" }, as_table(counts)))?;
            out.line(summary(counts))?;
        }
    }
    Ok(out.finish()?)
}

/// The values of a field and their counts.
pub fn as_table(counts: &FacetCounts) -> Grid {
    let mut grid = Grid::new([counts.field.as_str(), "documents"]);
    for (value, count) in &counts.values {
        grid.row([to_text(value), thousands(*count)]);
    }
    grid
}

fn summary(counts: &FacetCounts) -> String {
    let shown = counts.values.len() as u64;
    let more = counts.distinct.saturating_sub(shown);
    let more = if more > 0 { format!("{} more values; ", thousands(more)) } else { String::new() };
    format!("({more}{} without a value)", plural(counts.missing, "document"))
}
