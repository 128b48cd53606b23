//! `firn search build`: builds a collection from files. Publishes all rows in one change, or none.

use super::load::{Chosen, Load, LoadArgs, Report};
use crate::failure::Result;
use crate::interrupt;
use crate::kinds::explain;
use crate::output::{Out, plural, size, time};
use firndb::indexer::partition_name;
use firndb::search::{Collection, Document, Reader};
use firndb::{Error, ErrorKind};
use firndb_ingest::{Parts, Row};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Build a collection from CSV, TSV, JSON lines, Parquet, Arrow or Avro.
///
/// For example: firn search build flights.csv.gz -o flights --partition-by month
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    load: LoadArgs,
    /// Directory of the collection: a new one, unless --add, --update or --replace is given.
    #[arg(short, long, required_unless_present = "infer", value_name = "DIR")]
    output: Option<PathBuf>,
    /// Put all documents into one partition of this name. What exceeds --memory goes to further
    /// partitions NAME.2, NAME.3, ..., which are replaced and removed with NAME; `firn search
    /// merge` joins them.
    #[arg(long, default_value = "main", value_name = "NAME")]
    partition: String,
    /// Make a partition of each value of this field.
    #[arg(long, conflicts_with = "partition", value_name = "FIELD")]
    partition_by: Option<String>,
    /// Print the schema that all rows fit (TOML); without -o build nothing. With -o and standard
    /// input, the first 100,000 rows decide.
    #[arg(long, conflicts_with = "schema")]
    infer: bool,
    /// Add partitions to an existing collection; their names must be new.
    #[arg(long, group = "existing")]
    add: bool,
    /// Add partitions to an existing collection, in place of those that have the same names and of
    /// what did not fit into these.
    #[arg(long, group = "existing")]
    update: bool,
    /// Put the new partitions in place of everything that the collection has.
    #[arg(long, group = "existing")]
    replace: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    interrupt::says(match args.output.as_deref().is_some_and(Path::exists) {
        true => "the directory is unchanged",
        false => "no collection was made",
    });
    let existing = match &args.output {
        Some(dir) => find_existing(dir, args.add || args.update || args.replace)?,
        None => None,
    };
    let schema = existing.as_ref().filter(|_| !args.replace && !args.infer);
    let schema = schema.map(|collection| collection.reader().schema().clone());
    let schema = schema.filter(|schema| !schema.fields().is_empty());
    let schema = match args.infer && args.can_read_twice() {
        true => Some(Load::infer_all(&args.load.rows)?),
        false => schema,
    };
    let mut load = Load::new(&args.load.rows)?;
    let mut chosen = load.schema(&args.load, schema.as_ref())?;
    chosen.inferred |= args.infer;
    if args.infer {
        let mut out = Out::new();
        out.line(chosen.schema.to_toml().trim_end())?;
        out.finish()?;
    }
    let Some(dir) = &args.output else { return Ok(()) };
    let parts = Parts::new(&chosen.schema, args.load.rows.memory, dir);
    // Before the folder exists: its name is random, so no other process has it.
    let _temporary = interrupt::temporary(parts.folder());
    let (parts, report) = fill(args, parts, load, &chosen)?;
    let reader = publish(args, dir, existing, parts)?;
    if !args.infer {
        print(dir, &reader, &report, start, json)?;
    }
    Ok(())
}

impl Args {
    /// Whether the rows can be read for the schema, and then again to build: nothing is built, or
    /// no input is standard input.
    fn can_read_twice(&self) -> bool {
        let mut inputs = self.load.rows.inputs.iter();
        self.output.is_none() || inputs.all(|path| path.as_os_str() != "-")
    }
}

/// Opens the collection in `dir`; `None` if there is none. An error if there is one and the
/// arguments do not allow changing it, or if `dir` cannot hold a collection.
fn find_existing(dir: &Path, may_change: bool) -> Result<Option<Collection>> {
    let collection = match Collection::open(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            Collection::check_free(dir).map_err(|e| explain(e, dir, &[]))?;
            return Ok(None);
        }
        opened => opened?,
    };
    if may_change {
        collection.check_changeable()?; // Fails before any row is read.
    } else {
        let message = "there is a collection already; use --add for new partitions, --update to \
                       replace those of the same names, --replace to replace them all";
        return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir).into());
    }
    Ok(Some(collection))
}

/// Reads all rows into partitions.
fn fill(args: &Args, mut parts: Parts, load: Load, chosen: &Chosen) -> Result<(Parts, Report)> {
    if let Some(field) = &args.partition_by
        && chosen.schema.field(field).is_none()
        && !chosen.schema.is_dynamic()
    {
        let names: Vec<&str> = chosen.schema.fields().iter().map(|f| f.name.as_str()).collect();
        let message = format!("there is no field `{field}`; fields are {}", names.join(", "));
        return Err(Error::invalid(message).into());
    }
    let mut sink =
        |_: u64, _: &Row, document: &Document| parts.add(&partition_of(args, document), document);
    let report = load.run(chosen, &mut sink)?;
    Ok((parts, report))
}

/// The partition that a document belongs to.
fn partition_of(args: &Args, document: &Document) -> String {
    let Some(field) = &args.partition_by else { return args.partition.clone() };
    partition_name(document.fields().find(|(name, _)| name == field).map(|(_, value)| value))
}

/// Publishes the partitions in one change. On failure a collection that this command created is
/// removed, but no file of another program in its directory.
fn publish(args: &Args, dir: &Path, existing: Option<Collection>, parts: Parts) -> Result<Reader> {
    if let Some(collection) = existing {
        let _step = interrupt::step();
        return Ok(change(args, &collection, parts)?);
    }
    let dir_existed = dir.exists();
    let _step = interrupt::step();
    let created = Collection::create(dir)?;
    let result = change(args, &created, parts);
    // Reports the first error; what cannot be removed does no harm.
    if result.is_err() && created.withdraw().is_ok_and(|was_new| was_new && !dir_existed) {
        let _ = std::fs::remove_dir(dir);
    }
    Ok(result?)
}

fn change(args: &Args, collection: &Collection, parts: Parts) -> firndb::Result<Reader> {
    let mut change = collection.change()?;
    if args.add {
        parts.check_new(&change.names()).map_err(|e| {
            let message = format!("{}, or --update", e.message());
            Error::new(e.kind(), message)
        })?;
    }
    if args.replace {
        change.clear();
    }
    parts.put_all(&mut change, interrupt::check)?;
    let reader = change.commit()?;
    interrupt::says("the collection is complete");
    Ok(reader)
}

fn print(dir: &Path, reader: &Reader, report: &Report, start: Instant, json: bool) -> Result<()> {
    let partitions = reader.partitions();
    let bytes: u64 = partitions.iter().map(|p| p.bytes).sum();
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "documents": reader.len(),
            "partitions": partitions.len(),
            "file_bytes": bytes,
            "rows": report.rows,
            "skipped": report.skipped,
            "elapsed_seconds": start.elapsed().as_secs_f64(),
        }))?;
    } else {
        out.line(format!(
            "{}: {} in {}, {}, built in {}",
            dir.display(),
            plural(reader.len(), "document"),
            plural(partitions.len() as u64, "partition"),
            size(bytes),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}
