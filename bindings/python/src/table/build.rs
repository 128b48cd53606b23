//! `build_table`.

use crate::build::bad_rows::BadRows;
use crate::build::dialect::DialectOptions;
use crate::build::run::{Job, Reporters, interruptible};
use crate::build::target::check_table;
use crate::error::Result;
use crate::gil::detached;
use crate::table::dicts::DictRows;
use crate::table::sink::{Built, Sink, unknown};
use crate::table::store::Table;
use crate::table::{files, objects};
use firndb::Error;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};

/// The options of a build, from a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Spec {
    pub keys: Vec<String>,
    pub row_number: bool,
    pub values: Vec<String>,
    pub format: Option<String>,
    pub separator: Option<Vec<u8>>,
    pub dialect: DialectOptions,
    pub record: bool,
    pub duplicates: String,
    pub on_error: String,
    pub order: String,
    pub block_size: Option<usize>,
    pub compression: Option<String>,
    pub level: Option<i32>,
    /// Bits per key; 0 for none.
    pub filter: u32,
    pub memory_bytes: Option<usize>,
    pub temp_dir: Option<PathBuf>,
    pub threads: Option<usize>,
    pub metadata: Vec<u8>,
    pub overwrite: bool,
    /// Bytes of a value, and bits of a fingerprint.
    pub approximate: Option<(usize, u32)>,
}

impl Spec {
    fn bad_rows(&self) -> firndb::Result<BadRows> {
        match self.on_error.as_str() {
            "stop" => Ok(BadRows::new(false)),
            "skip" => Ok(BadRows::new(true)),
            other => Err(unknown("on_error", other, "'stop' and 'skip'")),
        }
    }

    /// Finds errors that would otherwise surface only after everything was read.
    fn check(&self, path: &Path) -> firndb::Result<()> {
        check_table(path, self.overwrite)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        for dir in std::iter::once(parent).chain(self.temp_dir.as_deref()) {
            let meta = dir.metadata().map_err(|e| Error::io("use the directory", dir, e))?;
            if !meta.is_dir() {
                return Err(Error::invalid("this is not a directory").in_file(dir));
            }
        }
        Ok(())
    }
}

/// A build that has begun: what its sources need.
pub struct Build<'a> {
    pub path: &'a Path,
    pub spec: &'a Spec,
    pub job: &'a Job,
}

/// What a build did.
pub struct Report {
    pub built: Built,
    pub rows: u64,
    pub bad_rows: BadRows,
    /// Columns of the value that no row had.
    pub absent: Vec<String>,
}

/// Builds a table from a source of this kind:
///
/// - `files`: a list of paths
/// - `arrow`: an object with Arrow capsules
/// - `table`: a table, sharded or not
/// - `log`: a log store, or a snapshot of it
/// - `pairs`: an iterator of keys and values
/// - `dicts`: an iterator of dictionaries
///
/// Returns what it did as a dictionary.
#[pyfunction]
#[pyo3(signature = (kind, source, path, options, reading = None, writing = None))]
pub fn build_table<'py>(
    py: Python<'py>,
    kind: &str,
    source: &Bound<'py, PyAny>,
    path: PathBuf,
    options: Spec,
    reading: Option<Py<PyAny>>,
    writing: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    let (spec, job) = (options, Job::default());
    let build = Build { path: &path, spec: &spec, job: &job };
    let bad_rows = spec.bad_rows()?;
    detached(py, || spec.check(&path))?;
    let reporters = Reporters::new(reading, writing);
    let report = match kind {
        "files" => {
            let paths: Vec<PathBuf> = source.extract()?;
            interruptible(py, &job, &reporters, || files::from_files(&build, &paths, bad_rows))?
        }
        "arrow" => files::from_arrow(py, &build, source, &reporters, bad_rows)?,
        "table" => {
            let table = source.cast::<Table>().map_err(PyErr::from)?.get().handle()?;
            let from = || objects::from_table(&build, &table, bad_rows);
            interruptible(py, &job, &reporters, from)?
        }
        "log" => {
            let (records, len) = objects::log_records(py, source)?;
            let from = || objects::from_log(&build, records, len, bad_rows);
            interruptible(py, &job, &reporters, from)?
        }
        "pairs" => objects::from_pairs(py, &build, source, &reporters, bad_rows)?,
        "dicts" => DictRows::build(py, &build, source, &reporters, bad_rows)?,
        _ => return Err(PyTypeError::new_err("unknown kind of source").into()),
    };
    let answer = PyDict::new(py);
    answer.set_item("records", report.built.records)?;
    answer.set_item("duplicates", report.built.duplicates)?;
    answer.set_item("rows", report.rows)?;
    answer.set_item("skipped", report.bad_rows.skipped)?;
    answer.set_item("reasons", report.bad_rows.reasons)?;
    answer.set_item("absent", report.absent)?;
    Ok(answer)
}

impl Build<'_> {
    /// Starts to collect records whose values have this schema.
    pub fn sink(&self, schema: &str) -> firndb::Result<Sink> {
        Sink::create(self.path, self.spec, schema)
    }

    /// Writes the table.
    pub fn finish(&self, sink: Sink) -> firndb::Result<Built> {
        sink.finish(self.path, self.spec, self.job)
    }
}
