//! `firn search query`: prints matching documents in an order, one page at a time.

use super::{QueryFile, open, query_of};
use crate::failure::Result;
use crate::output::{Grid, Out, plural, terminal_width, thousands, time, to_text};
use firndb::search::{Hit, Page, PageToken, Query, Reader};
use firndb_ingest::results::{HitReader, next_token, page_summary, shown_fields};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Default page size, unless the query or the command line gives one.
const PAGE: u64 = 10;

/// Find documents.
///
/// For example: firn search query flights "carrier = 'UA' order by dep_delay desc limit 5"
#[derive(clap::Args)]
#[command(after_help = super::CONDITIONS)]
pub struct Args {
    /// Directory of the collection, or a partition file.
    dir: PathBuf,
    /// The query: [CONDITION] [order by FIELD [desc], ...] [skip N] [limit N]. Empty: all
    /// documents.
    #[arg(allow_negative_numbers = true)]
    query: Vec<String>,
    #[command(flatten)]
    from: QueryFile,
    /// Show only these fields.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    fields: Option<Vec<String>>,
    /// Show the payload too; without --fields only the payload.
    #[arg(long)]
    payload: bool,
    /// Also count all documents that satisfy the condition.
    #[arg(long)]
    count: bool,
    /// Maximum number of documents (default 10, or the query's own limit).
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Return all documents.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Continue after the page that gave this token (`skip` is ignored).
    #[arg(long, value_name = "TOKEN")]
    after: Option<String>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let reader = open(&args.dir)?;
    let query = build_query(args, &reader)?;
    let fields = shown_fields(reader.schema(), &query.order, args.fields.as_deref())?;
    let start = Instant::now();
    let page = reader.search(&query)?;
    let elapsed = start.elapsed();
    let next = next_token(&reader, &query, &page)?;
    let mut out = Out::new();
    if json {
        let mut hits = HitReader::new(&reader, &fields, args.payload)?;
        for hit in &page.hits {
            out.json(&hits.read(*hit)?)?;
        }
        out.json(&json!({ "summary": page_summary(&page, next.as_deref(), elapsed) }))?;
        return Ok(out.finish()?);
    }
    if args.payload && args.fields.is_none() {
        for hit in &page.hits {
            out.bytes(&reader.payload(*hit)?)?;
            out.line("")?;
        }
        return Ok(out.finish()?);
    }
    let hidden = print_table(&mut out, args, &reader, &page, &fields)?;
    if hidden > 0 {
        out.line(format!("({hidden} more fields; choose with --fields)"))?;
    }
    let of = page.count.map(|count| format!(" of {}", thousands(count))).unwrap_or_default();
    let shown = page.hits.len() as u64;
    out.line(format!("{}{of} in {}", plural(shown, "document"), time(elapsed)))?;
    if let Some(next) = next {
        out.line(format!("next page: --after {next}"))?;
    }
    Ok(out.finish()?)
}

fn build_query(args: &Args, reader: &Reader) -> Result<Query> {
    let mut query = query_of(&args.from.text(&args.query)?, reader.schema())?;
    query.limit = if args.all { None } else { args.limit.or(query.limit).or(Some(PAGE)) };
    query.count = args.count;
    if let Some(token) = &args.after {
        query.skip = 0;
        query.after = Some(PageToken::parse(token)?);
    }
    Ok(query)
}

/// Prints the page and returns how many fields did not fit on the terminal.
fn print_table(
    out: &mut Out,
    args: &Args,
    reader: &Reader,
    page: &Page,
    fields: &[String],
) -> Result<usize> {
    let mut headers = fields.to_vec();
    if args.payload {
        headers.push("payload".to_string());
    }
    let row_of = |hit: &Hit| -> firndb::Result<Vec<String>> {
        let mut row = Vec::with_capacity(headers.len());
        for field in fields {
            let values = reader.values(*hit, field)?;
            row.push(values.iter().map(to_text).collect::<Vec<String>>().join(", "));
        }
        if args.payload {
            row.push(String::from_utf8_lossy(&reader.payload(*hit)?).into_owned());
        }
        Ok(row)
    };
    // The first rows decide how many columns fit; only these rows are kept in memory.
    let (first, rest) = page.hits.split_at(page.hits.len().min(100));
    let rows = first.iter().map(row_of).collect::<firndb::Result<Vec<Vec<String>>>>()?;
    // Requested fields are shown whatever the width of the terminal.
    let width = terminal_width().filter(|_| args.fields.is_none());
    let shown = width.map_or(headers.len(), |width| columns_that_fit(&headers, &rows, width));
    if shown > 0 {
        let mut grid = Grid::new(&headers[..shown]);
        for row in rows.into_iter().map(Ok).chain(rest.iter().map(row_of)) {
            grid.row(row?.into_iter().take(shown));
            if let Some(part) = grid.part() {
                out.line(part)?;
            }
        }
        if !grid.is_done() {
            out.line(grid)?;
        }
    }
    Ok(headers.len() - shown)
}

fn columns_that_fit(headers: &[String], rows: &[Vec<String>], width: usize) -> usize {
    let mut used = 0;
    for (i, header) in headers.iter().enumerate() {
        let cells = rows.iter().map(|row| row[i].chars().count().min(63)).max().unwrap_or(0);
        // One column of padding on either side, and one between.
        used += cells.max(header.chars().count()) + 3;
        if used > width {
            return i.max(1);
        }
    }
    headers.len()
}
