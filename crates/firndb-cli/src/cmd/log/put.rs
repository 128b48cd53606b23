//! `firn log put`: sets the value of a key.

use super::{KeyForm, Writing, open_or_create, put_bytes, shown_key};
use crate::failure::Result;
use crate::output::{Out, from_hex, size};
use firndb::Error;
use serde_json::{Map, Value as Json};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Set the value of a key: firn log put users alice 'Alice Liddell'
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store; it is made if it is not there.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// The key, unless --file has it, and the value, unless --value-file has it.
    #[arg(value_name = "KEY VALUE", num_args = 0..=2)]
    words: Vec<OsString>,
    #[command(flatten)]
    form: KeyForm,
    /// The value is given in hexadecimal digits, two a byte.
    #[arg(long)]
    value_hex: bool,
    /// The value is what this file holds, byte by byte; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "value_hex")]
    value_file: Option<PathBuf>,
    #[command(flatten)]
    writing: Writing,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let (key, value) = args.record()?;
    let store = open_or_create(&args.dir)?;
    store.put_with(&key, &value, args.writing.options())?;
    store.close()?;
    let mut out = Out::new();
    if json {
        let mut object = Map::new();
        put_bytes(&mut object, "key", &key);
        object.insert("bytes".to_string(), Json::from(value.len()));
        out.json(&Json::Object(object))?;
    } else {
        out.line(format!("Put {} at {}.", size(value.len() as u64), shown_key(&key)))?;
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
                let message = format!("`{word}` is a second value beside that of --value-file");
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
        match words.next() {
            None => Ok((key, value)),
            Some(word) => {
                let message = format!("`{}` is one word too many", word.to_string_lossy());
                Err(Error::invalid(message))
            }
        }
    }
}
