//! How text inputs are written, from a dictionary of options.

use firndb::{Error, Result};
use firndb_ingest::{Dialect, Ragged, parse_delimiter, parse_encoding, parse_quote, parse_special};
use pyo3::prelude::*;

/// The options of `firndb._dialect`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct DialectOptions {
    delimiter: Option<String>,
    quote: Option<String>,
    escape: Option<String>,
    comment: Option<String>,
    header: bool,
    skip_lines: u64,
    ragged: String,
    encoding: Option<String>,
    max_row: usize,
}

impl DialectOptions {
    /// The dialect; an error names the argument.
    pub fn dialect(&self) -> Result<Dialect> {
        let special = |text: &Option<String>| text.as_deref().map(parse_special).transpose();
        let wrong = |name: &str, reason: String| Error::invalid(format!("{name}: {reason}"));
        let delimiter = self.delimiter.as_deref().map(parse_delimiter).transpose();
        let quote = self.quote.as_deref().map_or(Ok(None), parse_quote);
        let encoding = self.encoding.as_deref().map(parse_encoding).transpose();
        let ragged = match self.ragged.as_str() {
            "error" => Ragged::Error,
            "fill" => Ragged::Fill,
            other => return Err(wrong("ragged", format!("`{other}` is not error or fill"))),
        };
        Ok(Dialect::default()
            .delimiter(delimiter.map_err(|reason| wrong("delimiter", reason))?)
            .quote(quote.map_err(|reason| wrong("quote", reason))?)
            .escape(special(&self.escape).map_err(|reason| wrong("escape", reason))?)
            .comment(special(&self.comment).map_err(|reason| wrong("comment", reason))?)
            .header(self.header)
            .skip_lines(self.skip_lines)
            .ragged(ragged)
            .encoding(encoding.map_err(|reason| wrong("encoding", reason))?)
            .max_row(self.max_row))
    }
}
