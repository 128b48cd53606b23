//! `firn search query`: prints matching documents in an order, one page at a time.

use super::{fields_as_json, open, query_of, readable};
use crate::failure::Result;
use crate::output::{Grid, Out, hex, plural, terminal_width, thousands, time, to_text};
use firndb::Error;
use firndb::search::{Hit, Page, PageToken, Query, Reader};
use serde_json::{Value as Json, json};
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
    let fields = shown_fields(args, &reader, &query)?;
    let start = Instant::now();
    let page = reader.search(&query)?;
    let elapsed = start.elapsed();
    let next = next_token(&reader, &query, &page)?;
    let mut out = Out::new();
    if json {
        let partitions = reader.partitions();
        for hit in &page.hits {
            let partition = partitions.get(hit.partition as usize).map(|p| p.name.as_str());
            let values = fields_as_json(&reader, *hit, &fields)?;
            let mut line = json!({ "partition": partition, "doc": hit.doc, "fields": values });
            if args.payload {
                line["payload"] = payload_as_json(&reader.payload(*hit)?);
            }
            out.json(&line)?;
        }
        out.json(&json!({ "summary": {
            "documents": page.hits.len(),
            "count": page.count,
            "next": next,
            "elapsed_seconds": elapsed.as_secs_f64(),
        } }))?;
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
    let mut query = query_of(&args.query.join(" "), reader.schema())?;
    query.limit = if args.all { None } else { args.limit.or(query.limit).or(Some(PAGE)) };
    query.count = args.count;
    if let Some(token) = &args.after {
        query.skip = 0;
        query.after = Some(PageToken::parse(token)?);
    }
    Ok(query)
}

/// The fields to show: the requested ones, else all, those of the query's order first.
fn shown_fields(args: &Args, reader: &Reader, query: &Query) -> Result<Vec<String>> {
    let all = readable(reader.schema());
    if let Some(fields) = &args.fields {
        if let Some(wrong) = fields.iter().find(|f| !all.contains(&f.as_str())) {
            let reason = match reader.schema().field(wrong) {
                Some(_) => format!("field `{wrong}` cannot be read back: it is not stored"),
                None => format!("there is no field `{wrong}`"),
            };
            let names = all.join(", ");
            return Err(Error::invalid(format!("{reason}; fields to show are {names}")).into());
        }
        return Ok(fields.clone());
    }
    let mut fields: Vec<String> = query.order.iter().map(|key| key.field.clone()).collect();
    for name in all {
        if !fields.iter().any(|f| f == name) {
            fields.push(name.to_string());
        }
    }
    Ok(fields)
}

/// The token of the next page; `None` if this page is the last.
fn next_token(reader: &Reader, query: &Query, page: &Page) -> Result<Option<String>> {
    let full = query.limit.is_some_and(|limit| page.hits.len() as u64 == limit);
    match page.hits.last() {
        Some(hit) if full => Ok(Some(reader.page_token(query, *hit)?.to_string())),
        _ => Ok(None),
    }
}

/// The payload as JSON: JSON unchanged, other text as a string, other bytes in hexadecimal.
fn payload_as_json(bytes: &[u8]) -> Json {
    match (serde_json::from_slice(bytes), std::str::from_utf8(bytes)) {
        (Ok(json), _) => json,
        (_, Ok(text)) => Json::from(text),
        _ => Json::from(hex(bytes)),
    }
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
