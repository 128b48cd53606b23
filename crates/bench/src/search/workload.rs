//! Writes a data set and its queries once; every engine reads the same files.

use super::cars::Market;
use super::table1;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::search::{Car, Pair, Query, Workload};
use indicatif::ProgressBar;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Increment it when the generator changes, so that data sets are written again.
const VERSION: u32 = 1;
const DATA_SEED: u64 = 42;
const QUERY_SEED: u64 = 7;

/// A data set on disk.
pub struct Dataset {
    /// The workload.
    pub workload: Workload,
    /// Number of rows.
    pub size: u64,
    /// The directory of the data set and of what engines build from it.
    pub dir: PathBuf,
}

impl Dataset {
    /// The data set of `size` rows and `per_kind` queries of each kind below `root`; written if it
    /// is missing. The name of its directory encodes all parameters.
    pub fn prepare(root: &Path, workload: Workload, size: u64, per_kind: usize) -> Result<Dataset> {
        let name = format!("{}-{size}-s{DATA_SEED}-v{VERSION}", workload.name());
        let dataset = Dataset { workload, size, dir: root.join(name) };
        fs::create_dir_all(&dataset.dir)?;
        let queries = dataset.queries(per_kind);
        if !queries.exists() {
            write_queries(&queries, &make_queries(workload, size, per_kind))?;
        }
        if !dataset.data().exists() {
            publish(&dataset.data(), |out| write_rows(out, workload, size))?;
        }
        Ok(dataset)
    }

    /// The rows.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data.tsv")
    }

    /// The queries.
    pub fn queries(&self, per_kind: usize) -> PathBuf {
        self.dir.join(format!("queries-{per_kind}-s{QUERY_SEED}.tsv"))
    }
}

fn make_queries(workload: Workload, size: u64, per_kind: usize) -> Vec<Query> {
    match workload {
        Workload::Cars => Market::new(DATA_SEED).queries(size, per_kind, QUERY_SEED),
        Workload::Table1 => table1::queries(per_kind, QUERY_SEED),
    }
}

fn write_queries(path: &Path, queries: &[Query]) -> Result<()> {
    publish(path, |out| {
        queries.iter().try_for_each(|query| writeln!(out, "{query}"))?;
        Ok(())
    })
}

/// Writes a temporary file and renames it, so that a file of the final name is complete.
fn publish(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&temporary)?);
    write(&mut out)?;
    out.flush()?;
    Ok(fs::rename(temporary, path)?)
}

fn write_rows(out: &mut impl Write, workload: Workload, size: u64) -> Result<()> {
    let bar = ProgressBar::new(size).with_message(workload.name());
    match workload {
        Workload::Cars => {
            let market = Market::new(DATA_SEED);
            let mut payload = String::new();
            writeln!(out, "{}", Car::HEADER)?;
            for id in 0..size {
                let offer = market.offer(id);
                write_car(out, &market.row(id, &offer, &mut payload))?;
                bar.inc(1);
            }
        }
        Workload::Table1 => {
            writeln!(out, "{}", Pair::HEADER)?;
            for id in 0..size {
                let row = table1::row(id);
                writeln!(out, "{id}\t{}\t{}", row.f, row.g)?;
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn write_car(out: &mut impl Write, car: &Car<'_>) -> Result<()> {
    let Car { id, region, mark, model, year, price, mileage, date, lat, lon, .. } = car;
    let Car { body_type, color, tags, payload, .. } = car;
    write!(out, "{id}\t{region}\t{mark}\t{model}\t{year}\t{price}\t{mileage}\t{date}\t{lat}\t")?;
    writeln!(out, "{lon}\t{body_type}\t{color}\t{tags}\t{payload}")?;
    Ok(())
}
