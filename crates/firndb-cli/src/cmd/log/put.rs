//! `firn log put`: sets the value of a key.

use super::{StoreOptions, Writing, open_or_create, put_bytes, put_expiry, shown_key};
use crate::cmd::keys::KeyForm;
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, from_hex, size};
use firndb::Error;
use firndb::log::{MAX_KEY, MAX_VALUE};
use firndb::search::timestamp_to_text;
use serde_json::{Map, Value as Json};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Set the value of a key; creates the store if it is missing.
///
/// For example: firn log put users alice 'Alice Liddell'
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store; it is created if it is missing.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// The key, unless --file has it, and the value, unless --value-file has it.
    #[arg(value_name = "KEY VALUE", num_args = 0..=2)]
    words: Vec<OsString>,
    #[command(flatten)]
    form: KeyForm,
    /// The value is given in hexadecimal digits, two per byte.
    #[arg(long)]
    value_hex: bool,
    /// The value is the content of this file, byte by byte; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "value_hex")]
    value_file: Option<PathBuf>,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    store: StoreOptions,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let (key, value) = args.record()?;
    interrupt::says("nothing was put");
    let step = interrupt::step();
    let store = open_or_create(&args.dir, &args.store)?;
    store.put_with(&key, &value, args.writing.options())?;
    interrupt::says("the record is in the store");
    // A record that expires at once has no expiry time to show.
    let expiry = store.expiry(&key)?.unwrap_or_default();
    store.close()?;
    drop(step);
    let mut out = Out::new();
    if json {
        let mut object = Map::new();
        put_bytes(&mut object, "key", &key);
        object.insert("value_bytes".to_string(), Json::from(value.len()));
        put_expiry(&mut object, expiry);
        out.json(&Json::Object(object))?;
    } else {
        let until = expiry.millis().map_or(String::new(), |time| {
            let micros = i64::try_from(time).unwrap_or(i64::MAX).saturating_mul(1000);
            format!(", which expires at {}", timestamp_to_text(micros))
        });
        out.line(format!("Put {} at {}{until}.", size(value.len() as u64), shown_key(&key)))?;
    }
    Ok(out.finish()?)
}

impl Args {
    fn record(&self) -> firndb::Result<(Vec<u8>, Vec<u8>)> {
        let mut words = self.words.iter();
        let key = match self.form.of_file() {
            Some(key) => key?,
            None => {
                let no_key = || Error::invalid("name a key, or a file of one with --file");
                self.form.key(words.next().ok_or_else(no_key)?)?
            }
        };
        let value = match (&self.value_file, words.next()) {
            (Some(_), Some(word)) => {
                let word = word.to_string_lossy();
                let message =
                    format!("`{word}` is a second value, in addition to that of --value-file");
                return Err(Error::invalid(message));
            }
            (Some(path), None) if path.as_os_str() == "-" => {
                let mut value = Vec::new();
                let read = std::io::stdin().lock().read_to_end(&mut value);
                read.map_err(|e| Error::io("read", "standard input".as_ref(), e))?;
                value
            }
            (Some(path), None) => std::fs::read(path).map_err(|e| Error::io("read", path, e))?,
            (None, Some(word)) if self.value_hex => from_hex(&word.to_string_lossy())?,
            (None, Some(word)) => word.as_bytes().to_vec(),
            (None, None) => {
                return Err(Error::invalid("name a value, or a file of one with --value-file"));
            }
        };
        if let Some(word) = words.next() {
            let message = format!("`{}` is one word too many", word.to_string_lossy());
            return Err(Error::invalid(message));
        }
        // Checked first: found later, it would leave an empty new store.
        let too_long = |what: &str, bytes: usize, most: usize| {
            Err(Error::invalid(format!("a {what} of {bytes} bytes; at most {most}")))
        };
        match (key.len(), value.len()) {
            (bytes, _) if bytes > MAX_KEY => too_long("key", bytes, MAX_KEY),
            (_, bytes) if bytes > MAX_VALUE => too_long("value", bytes, MAX_VALUE),
            _ => Ok((key, value)),
        }
    }
}
