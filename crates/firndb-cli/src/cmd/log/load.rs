//! `firn log load`: puts records from files.

use super::{StoreOptions, Writing, open_or_create, unescape};
use crate::cmd::dialect::DialectArgs;
use crate::cmd::load::{
    self as rows, BadRows, READING, RecordFormat, advance, progress_bar, read_records,
};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::output::{Out, from_hex, plural, size, thousands, time};
use clap::ValueEnum;
use firndb::log::{Expiry, LogStore, MAX_KEY, MAX_VALUE, WriteOptions};
use firndb::{Error, ErrorKind};
use firndb_arrow::avro::Decoder;
use firndb_ingest::{
    DataFiles, Format, Input, NO_DIGITS, RecordOptions, ValueColumn, expand, origin_name,
};
use indicatif::ProgressBar;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Put records from text, CSV, JSON lines, Parquet, Arrow or Avro.
///
/// For example: firn log load users users.csv.gz --key id
///
/// Records put before an error stay. When the command succeeds, all of them are durable. A row
/// without a key is a bad row. Exports record expiry times (`expires_at`): a record that has
/// expired is not put, and an older value of its key is removed.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store; it is created if it is missing.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// Files, directories of files, or `-` for standard input; gzip and zstd are decompressed.
    #[arg(default_value = "-", value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Format of the records; auto goes by the file's name, then by its first bytes.
    #[arg(help_heading = READING, long, value_enum, default_value_t)]
    format: RecordFormat,
    /// The column that is the key [default: `key`, or `key_hex` in JSON lines]. The key of several
    /// columns is their values with the character U+001F between them.
    #[arg(help_heading = READING, short, long, value_delimiter = ',', value_name = "COLUMN,...")]
    key: Vec<String>,
    /// Use the number of a row as its key, from 1 and over all inputs.
    #[arg(help_heading = READING, long, conflicts_with = "key")]
    row_number: bool,
    /// The columns that are the value [default: `value` or `value_hex` in JSON lines without --key,
    /// else all but the key]. One column is stored unchanged, several become a JSON object.
    #[arg(
        help_heading = READING,
        long, value_delimiter = ',', value_name = "COLUMN,...", value_parser = ValueColumn::parse
    )]
    value: Vec<ValueColumn>,
    /// Make a JSON object of a single column too.
    #[arg(help_heading = READING, long)]
    record: bool,
    /// Separator of key and value in text; \t, \n, \0, \\ and \xHH are understood.
    #[arg(help_heading = READING)]
    #[arg(short, long, default_value = "\\t", value_name = "TEXT", value_parser = separator)]
    separator: std::vec::Vec<u8>,
    #[command(flatten)]
    dialect: DialectArgs,
    /// Keys and values are in hexadecimal digits, two per byte.
    #[arg(help_heading = READING, long)]
    hex: bool,
    /// What to do about a row that cannot be used.
    #[arg(help_heading = READING, long, value_enum, default_value_t)]
    on_error: OnError,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    store: StoreOptions,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Stop. Earlier batches of rows stay in the store.
    #[default]
    Stop,
    /// Skip the row, and report how many were skipped.
    Skip,
}

fn separator(text: &str) -> std::result::Result<Vec<u8>, String> {
    match unescape(text)? {
        bytes if bytes.is_empty() => Err("a separator has at least one byte".to_string()),
        bytes => Ok(bytes),
    }
}

/// Progress of a load.
struct Loading<'a> {
    args: &'a Args,
    /// `None` until the first put, if there was no store.
    store: Option<LogStore>,
    bar: ProgressBar,
    bad_rows: BadRows,
    rows: u64,
    /// Keys that the store did not have.
    new: u64,
    /// Keys that the store had, from before or from an earlier row.
    replaced: u64,
    /// Rows that had expired.
    expired: u64,
    bytes: u64,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let inputs = expand(&args.inputs, DataFiles::Records)?;
    let sizes: Option<Vec<u64>> = inputs.iter().map(|input| input.size()).collect();
    // The store is created after the first record was read: a mistake in the command leaves none.
    let is_there = !crate::target::is_free(&args.dir)?;
    let mut loading = Loading {
        args,
        store: is_there.then(|| open_or_create(&args.dir, &args.store)).transpose()?,
        bar: progress_bar(sizes.map(|sizes| sizes.iter().sum())),
        bad_rows: BadRows::new(match args.on_error {
            OnError::Stop => rows::OnError::Stop,
            OnError::Skip => rows::OnError::Skip,
        }),
        rows: 0,
        new: 0,
        replaced: 0,
        expired: 0,
        bytes: 0,
    };
    interrupt::says("nothing was put");
    let step = interrupt::step();
    let loaded = inputs.iter().try_for_each(|input| loading.input(input));
    loading.bar.finish_and_clear();
    let closed = loading.store.take().map(LogStore::close);
    drop(step);
    if closed.is_some() {
        interrupt::says(format!("the first {} are in the store", loading.put()));
    }
    loaded.map_err(|error| {
        let note = match closed {
            Some(_) => format!("{} before the error are in the store", loading.put()),
            None => "nothing was put, and no store was created".to_string(),
        };
        Failure::from(error).noting(note)
    })?;
    match closed {
        Some(closed) => closed?,
        // An input without rows creates an empty store; an input of bad rows alone creates none.
        None if loading.rows == 0 => open_or_create(&args.dir, &args.store)?.close()?,
        None => eprintln!("note: nothing was put, and no store was created"),
    }
    loading.bad_rows.print(loading.rows);
    Ok(loading.report(start, json)?)
}

/// Records between two updates of the bar's message.
const MESSAGE_RECORDS: u64 = 1 << 14;

impl Loading<'_> {
    fn records(&self) -> u64 {
        self.new + self.replaced
    }

    /// `3 records`.
    fn put(&self) -> String {
        plural(self.records(), "record")
    }

    fn report(&self, start: Instant, json: bool) -> firndb::Result<()> {
        let mut out = Out::new();
        let seconds = start.elapsed().as_secs_f64();
        if json {
            out.json(&json!({
                "rows": self.rows,
                "records": self.records(),
                "new": self.new,
                "replaced": self.replaced,
                "expired": self.expired,
                "skipped": self.bad_rows.skipped,
                "data_bytes": self.bytes,
                "elapsed_seconds": seconds,
            }))?;
            return out.finish();
        }
        let others = [(self.expired, "expired"), (self.bad_rows.skipped, "skipped")];
        let others = others.into_iter().filter(|(count, _)| *count > 0);
        let others: String =
            others.map(|(count, what)| format!(", {} {what}", thousands(count))).collect();
        out.line(format!(
            "{}: {} read, {} put ({} new, {} replaced){others}, {}, in {} ({} per second)",
            self.args.dir.display(),
            plural(self.rows, "row"),
            self.put(),
            thousands(self.new),
            thousands(self.replaced),
            size(self.bytes),
            time(start.elapsed()),
            thousands((self.records() as f64 / seconds.max(1e-9)) as u64)
        ))?;
        out.finish()
    }

    /// The store; created if it is missing.
    fn store(&mut self) -> firndb::Result<&LogStore> {
        let store = match self.store.take() {
            Some(store) => store,
            None => open_or_create(&self.args.dir, &self.args.store)?,
        };
        Ok(self.store.insert(store))
    }

    fn input(&mut self, input: &Input) -> firndb::Result<()> {
        let args = self.args;
        let format = Format::from(args.format);
        let dialect = args.dialect.dialect();
        let named = format.detect(input.path(), &[], dialect.is_delimited());
        let needs_key = !matches!(named, Format::Text | Format::JsonLines);
        let mut options = RecordOptions::default()
            .format(format)
            .separator(args.separator.clone())
            .dialect(dialect)
            .keys(args.key.iter().cloned())
            .row_number(args.row_number)
            .values(args.value.clone())
            .record(args.record)
            .json_values(true)
            .progress(advance(&self.bar))
            .cancel(interrupt::flag());
        if needs_key && args.key.is_empty() && !args.row_number {
            options = options.key("key");
        }
        // One reader per input: each has its own columns.
        let mut reader = read_records(std::slice::from_ref(input), options)?;
        let decoder = match reader.schema() {
            "" => None,
            schema => Some(Decoder::new(schema).map_err(Error::invalid)?),
        };
        let names = [input.name()];
        while let Some(batch) = reader.next_batch()? {
            for bad in batch.bad_rows() {
                self.rows += 1;
                self.bad_rows.take(bad)?;
            }
            for (origin, key, value, expires) in batch.iter_expiring() {
                self.rows += 1;
                if let Err(reason) = self.record(key, value, expires, decoder.as_ref())? {
                    let position = origin_name(origin, &names);
                    self.bad_rows.take(format!("{position}: {reason}"))?;
                }
            }
            if let (true, Some(store)) = (args.writing.sync, &self.store) {
                store.sync()?;
            }
            if self.store.is_some() {
                interrupt::says(format!("the first {} are in the store", self.put()));
            }
        }
        Ok(())
    }

    /// Puts one record. The inner error marks the row as bad.
    fn record(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires: Option<u64>,
        decoder: Option<&Decoder>,
    ) -> firndb::Result<std::result::Result<(), String>> {
        let (unhexed, object);
        let (mut key, mut value) = (key, value);
        if self.args.hex {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            // The empty key is written `0x`: an empty field means that the key is missing.
            let digits = if key == NO_DIGITS { &b""[..] } else { key };
            unhexed = match (from_hex(&text(digits)), from_hex(&text(value))) {
                (Ok(key), Ok(value)) => (key, value),
                (Err(e), _) | (_, Err(e)) => return Ok(Err(e.message().to_string())),
            };
            (key, value) = (&unhexed.0, &unhexed.1);
        }
        if let Some(decoder) = decoder {
            object = match decoder.json(value) {
                Ok(json) => json.to_string(),
                Err(reason) => return Ok(Err(reason)),
            };
            value = object.as_bytes();
        }
        let put = self.put_or_expire(key, value, expires);
        match put {
            Err(e) if e.kind() == ErrorKind::InvalidArgument => {
                return Ok(Err(e.message().to_string()));
            }
            put => put?,
        }
        let records = self.records();
        if records > 0 && records.is_multiple_of(MESSAGE_RECORDS) {
            let rate = records as f64 / self.bar.elapsed().as_secs_f64().max(1e-9);
            let (records, rate) = (thousands(records), thousands(rate as u64));
            self.bar.set_message(format!("{records} records, {rate} per second"));
        }
        Ok(Ok(()))
    }

    /// Puts one record. An expired record is not stored; it still replaces an earlier value of its
    /// key, which is then gone.
    fn put_or_expire(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires: Option<u64>,
    ) -> firndb::Result<()> {
        // Durable in batches: the log syncs many records at once.
        let options = match (expires, self.args.writing.ttl) {
            (Some(at), _) => WriteOptions::new().expiry(Expiry::At(at)),
            (None, Some(ttl)) => WriteOptions::new().ttl(ttl),
            (None, None) => WriteOptions::new(),
        };
        if key.len() > MAX_KEY || value.len() > MAX_VALUE {
            return Err(Error::invalid(format!(
                "a key of {} bytes and a value of {} bytes; keys have at most {MAX_KEY}, values \
                 {MAX_VALUE}",
                key.len(),
                value.len()
            )));
        }
        let is_over = expires.is_some_and(|at| at <= now());
        let store = self.store()?;
        if is_over {
            store.delete(key)?;
            self.expired += 1;
            return Ok(());
        }
        let is_there = match store.contains(key) {
            // The put replaces a damaged record.
            Err(e) if e.kind() == ErrorKind::Corrupt => true,
            is_there => is_there?,
        };
        store.put_with(key, value, options)?;
        match is_there {
            true => self.replaced += 1,
            false => self.new += 1,
        }
        self.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }
}

/// Milliseconds since 1970, by the clock that the store uses.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}
