//! Receives the records of a build.

use crate::build::run::Job;
use crate::build::target::check_table;
use crate::table::build::Spec;
use firndb::table::{
    ApproximateBuilder, ApproximateOptions, BuildOptions, Compression, Duplicates, KeyFilter,
    Order, Progress, TableBuilder,
};
use firndb::{Error, Result};
use std::ops::ControlFlow;
use std::path::Path;

/// Collects the records of a table of either kind.
pub enum Sink {
    Exact(Box<TableBuilder>),
    Approximate(Box<ApproximateBuilder>),
}

/// Records in a table, and those that were left out because their key occurred before.
#[derive(Clone, Copy)]
pub struct Built {
    pub records: u64,
    pub duplicates: u64,
}

impl Sink {
    /// Starts the build of a table whose values have this schema.
    pub fn create(path: &Path, spec: &Spec, schema: &str) -> Result<Sink> {
        let Some(widths) = spec.approximate else {
            let builder = TableBuilder::create_with(path, exact_options(spec, schema)?)?;
            return Ok(Sink::Exact(Box::new(builder)));
        };
        if !schema.is_empty() {
            return Err(Error::invalid(
                "values of an approximate table are bytes of one width, not rows: name one column \
                 with value=",
            ));
        }
        let builder = ApproximateBuilder::create_with(path, approximate_options(spec, widths)?)?;
        Ok(Sink::Approximate(Box::new(builder)))
    }

    pub fn name_origins(&mut self, name: impl Fn(u64) -> String + Sync + Send + 'static) {
        match self {
            Sink::Exact(builder) => builder.name_origins(name),
            Sink::Approximate(builder) => builder.name_origins(name),
        }
    }

    pub fn add_from(&mut self, origin: u64, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Sink::Exact(builder) => builder.add_from(origin, key, value),
            Sink::Approximate(builder) => builder.add_from(origin, key, value),
        }
    }

    /// Writes the table, unless the job is cancelled or a file appeared under the path meanwhile.
    pub fn finish(self, path: &Path, spec: &Spec, job: &Job) -> Result<Built> {
        check_table(path, spec.overwrite)?;
        let builder = match self {
            Sink::Approximate(builder) => {
                let report = builder.finish()?;
                return Ok(Built { records: report.records, duplicates: report.duplicates });
            }
            Sink::Exact(builder) => builder,
        };
        let mut taken = Ok(());
        let built = builder.finish_with(|Progress { done, total, .. }| {
            job.writing.set(done, total);
            taken = check_table(path, spec.overwrite);
            match taken.is_err() || job.is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        taken?;
        built.map(|report| Built { records: report.records, duplicates: report.duplicates })
    }
}

fn exact_options(spec: &Spec, schema: &str) -> Result<BuildOptions> {
    let level = spec.level.unwrap_or(3);
    let compression = match spec.compression.as_deref() {
        None | Some("none") => Compression::None,
        Some("record") => Compression::Records { level },
        Some("block") => Compression::Blocks { level },
        Some(other) => return Err(unknown("compression", other, "'none', 'record' and 'block'")),
    };
    let filter = match spec.filter {
        0 => KeyFilter::None,
        8 => KeyFilter::Bits8,
        16 => KeyFilter::Bits16,
        bits => {
            let message = format!("filter is {bits}; it is None, 8 or 16 bits per key");
            return Err(Error::invalid(message));
        }
    };
    let order = match spec.order.as_str() {
        "hash" => Order::Hash,
        "key" => Order::Key,
        other => return Err(unknown("order", other, "'hash' and 'key'")),
    };
    let mut options = BuildOptions::new()
        .order(order)
        .compression(compression)
        .filter(filter)
        .duplicates(duplicates(spec)?)
        .metadata(spec.metadata.clone())
        .value_schema(schema);
    if let Some(bytes) = spec.block_size {
        options = options.block_size(bytes);
    }
    if let Some(bytes) = spec.memory_bytes {
        options = options.memory_limit(bytes);
    }
    if let Some(dir) = &spec.temp_dir {
        options = options.temp_dir(dir);
    }
    if let Some(threads) = spec.threads {
        options = options.threads(threads);
    }
    Ok(options)
}

fn approximate_options(spec: &Spec, (width, bits): (usize, u32)) -> Result<ApproximateOptions> {
    let mut options = ApproximateOptions::new()
        .value_width(width)
        .fingerprint_bits(bits)
        .duplicates(duplicates(spec)?)
        .metadata(spec.metadata.clone());
    if let Some(bytes) = spec.memory_bytes {
        options = options.memory_limit(bytes);
    }
    if let Some(dir) = &spec.temp_dir {
        options = options.temp_dir(dir);
    }
    if let Some(threads) = spec.threads {
        options = options.threads(threads);
    }
    Ok(options)
}

fn duplicates(spec: &Spec) -> Result<Duplicates> {
    match spec.duplicates.as_str() {
        "error" => Ok(Duplicates::Error),
        "first" => Ok(Duplicates::First),
        "last" => Ok(Duplicates::Last),
        other => Err(unknown("duplicates", other, "'error', 'first' and 'last'")),
    }
}

/// The error of an option that has none of its names.
pub fn unknown(option: &str, value: &str, known: &str) -> Error {
    Error::invalid(format!("{option} is '{value}'; it is one of {known}"))
}
