//! Keys of a command line: in arguments, in a file byte by byte, or many in a file of lines.

use crate::output::{Out, from_hex};
use firndb::{Error, Result};
use firndb_ingest::{Input, NO_DIGITS, Progress, read_error};
use std::ffi::OsStr;
use std::io::{BufRead, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::table::unescape;

/// How keys are given.
#[derive(clap::Args)]
pub struct KeyForm {
    /// Keys are given in hexadecimal digits, two per byte.
    #[arg(long)]
    hex: bool,
    /// The key is the content of this file, byte by byte.
    #[arg(long, value_name = "FILE", conflicts_with = "hex")]
    file: Option<PathBuf>,
}

impl KeyForm {
    /// Parses the key in an argument.
    pub fn key(&self, text: &OsStr) -> Result<Vec<u8>> {
        match self.hex {
            true => from_hex(&text.to_string_lossy()),
            false => Ok(text.as_bytes().to_vec()),
        }
    }

    /// Reads the key from the file, if one is named.
    pub fn of_file(&self) -> Option<Result<Vec<u8>>> {
        let path = self.file.as_ref()?;
        Some(std::fs::read(path).map_err(|e| Error::io("read", path, e)))
    }

    /// The one key of a command.
    pub fn one(&self, text: Option<&OsStr>) -> Result<Vec<u8>> {
        match (text, self.of_file()) {
            (_, Some(key)) => key,
            (Some(text), None) => self.key(text),
            (None, None) => Err(Error::invalid("name a key")),
        }
    }
}

/// Many keys.
#[derive(clap::Args)]
pub struct KeyLines {
    /// A file with one key per line, or `-` for standard input; .gz and .zst are decompressed.
    /// Empty lines are skipped.
    #[arg(default_value = "-", value_name = "KEYS")]
    keys: PathBuf,
    /// The keys are given in hexadecimal digits, two per byte; the empty key is `0x`.
    #[arg(long)]
    hex: bool,
    /// Separator of key and value; \t, \n, \0, \\ and \xHH are understood.
    #[arg(short, long, default_value = "\\t", value_name = "TEXT", value_parser = unescape)]
    separator: std::vec::Vec<u8>,
}

/// Maximum number of bytes of a line.
const MAX_LINE: u64 = 1 << 20;

/// Keys looked up per batch.
const AT_ONCE: usize = 4096;

impl KeyLines {
    /// Passes batches of keys to `take`.
    pub fn each(&self, mut take: impl FnMut(&[Vec<u8>]) -> Result<()>) -> Result<()> {
        let input = match self.keys.as_os_str() {
            name if name == "-" => Input::Stdin,
            _ => Input::File(self.keys.clone()),
        };
        let mut lines = input.open(&Progress::default())?;
        let mut read_lines = 0_u64;
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            keys.clear();
            while keys.len() < AT_ONCE {
                let mut line = Vec::new();
                let read = lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
                let read = read.map_err(|e| read_error(&input.name(), e))?;
                if read == 0 {
                    break;
                }
                read_lines += 1;
                if read as u64 == MAX_LINE {
                    let place = format!("{}:{read_lines}", input.name());
                    let message = "the line is longer than 1 MiB, and a key has at most 64 KiB";
                    return Err(Error::invalid(format!("{place}: {message}")));
                }
                let text = line.strip_suffix(b"\n").unwrap_or(&line);
                let text = text.strip_suffix(b"\r").unwrap_or(text);
                if text.is_empty() {
                    continue;
                }
                keys.push(match self.hex {
                    true if text == NO_DIGITS => Vec::new(),
                    true => from_hex(&String::from_utf8_lossy(text)).map_err(|e| {
                        Error::invalid(format!("{}:{read_lines}: {}", input.name(), e.message()))
                    })?,
                    false => text.to_vec(),
                });
            }
            if keys.is_empty() {
                return Ok(());
            }
            take(&keys)?;
        }
    }

    /// Prints a key and its value as text; an absent key stands alone.
    pub fn print(&self, out: &mut Out, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        out.bytes(key)?;
        if let Some(value) = value {
            out.bytes(&self.separator)?;
            out.bytes(value)?;
        }
        out.line("")
    }
}
