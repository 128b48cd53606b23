//! Options that say how text inputs are written, shared by all commands that read files.

use super::load::{READING, parse_bytes};
use clap::ValueEnum;
use firndb_ingest::{
    Dialect, Encoding, Ragged, parse_delimiter, parse_encoding, parse_quote, parse_special,
};

/// How text inputs are written. docs/cli.md lists these options.
#[derive(clap::Args)]
pub struct DialectArgs {
    /// Column separator of CSV and TSV, for example ';' or '\t' (default: by the format).
    #[arg(help_heading = READING, long, value_name = "CHAR", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// Quote of CSV and TSV; none: quotes are data. A quote within a quoted value is doubled.
    #[arg(help_heading = READING, long, default_value = "\"", value_name = "CHAR|none")]
    #[arg(value_parser = Quote::parse)]
    quote: Quote,
    /// Escape of CSV and TSV, for example '\': the quote, delimiter or newline after it is data.
    #[arg(help_heading = READING, long, value_name = "CHAR", value_parser = parse_special)]
    escape: Option<u8>,
    /// Skip lines of CSV and TSV that begin with this character, for example '#'.
    #[arg(help_heading = READING, long, value_name = "CHAR", value_parser = parse_special)]
    comment: Option<u8>,
    /// CSV and TSV have no header line; the columns are column1, column2, and so on.
    #[arg(help_heading = READING, long)]
    no_header: bool,
    /// Skip this number of lines before the header of CSV and TSV.
    #[arg(help_heading = READING, long, default_value_t = 0, value_name = "N")]
    skip_lines: u64,
    /// What to do about a row of CSV or TSV with too few values.
    #[arg(help_heading = READING, long, value_enum, default_value_t)]
    ragged: RaggedArg,
    /// Encoding of text, CSV, TSV and JSON lines, by its name on the web (latin1, utf-16le, gbk,
    /// ...); they are converted to UTF-8. By default bytes are taken unchanged, but CSV, TSV and
    /// JSON lines with a byte order mark of UTF-16 are converted.
    #[arg(help_heading = READING, short, long, value_name = "NAME", value_parser = parse_encoding)]
    encoding: Option<&'static Encoding>,
    /// Maximum size of a row of any format, for example 1G; a longer row ends the command.
    #[arg(help_heading = READING, long, default_value = "256M", value_name = "SIZE")]
    #[arg(value_parser = parse_bytes)]
    max_row: usize,
}

/// A quote, or none.
#[derive(Clone, Copy)]
struct Quote(Option<u8>);

impl Quote {
    fn parse(text: &str) -> std::result::Result<Quote, String> {
        parse_quote(text).map(Quote)
    }
}

/// What to do about rows with too few values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RaggedArg {
    /// It is a bad row.
    #[default]
    Error,
    /// Its last columns have no value.
    Fill,
}

impl DialectArgs {
    pub fn dialect(&self) -> Dialect {
        Dialect::default()
            .delimiter(self.delimiter)
            .quote(self.quote.0)
            .escape(self.escape)
            .comment(self.comment)
            .header(!self.no_header)
            .skip_lines(self.skip_lines)
            .ragged(match self.ragged {
                RaggedArg::Error => Ragged::Error,
                RaggedArg::Fill => Ragged::Fill,
            })
            .encoding(self.encoding)
            .max_row(self.max_row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        dialect: DialectArgs,
    }

    #[test]
    fn the_options_have_the_defaults_of_the_library() {
        let command = Command::try_parse_from(["firn"]).unwrap();
        assert_eq!(command.dialect.dialect(), Dialect::default());
    }
}
