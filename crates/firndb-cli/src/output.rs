//! Output of the commands: text tables or JSON lines, both on standard output.

pub use firndb_ingest::value::{from_hex, to_json, to_text};
pub use hex::encode as hex;

use crate::escape::{Escaper, escaped_json};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentLineStyle, LineStyle};
use comfy_table::{Table, TableStyle, Width};
use console::Term;
use firndb::search::Number;
use firndb::{Error, ErrorKind, Result};
use serde_json::{Value as Json, json};
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Standard output, buffered. A terminal gets no control characters of values: see
/// [`escape`](crate::escape). [`is_closed_pipe`] recognizes the error of a closed pipe.
pub struct Out {
    stdout: BufWriter<Stdout>,
    /// If standard output is a terminal.
    escaper: Option<Escaper>,
}

impl Out {
    pub fn new() -> Out {
        let stdout = io::stdout();
        let escaper = stdout.is_terminal().then(Escaper::default);
        Out { stdout: BufWriter::with_capacity(1 << 16, stdout), escaper }
    }

    /// Prints one or more lines.
    pub fn line(&mut self, text: impl Display) -> Result<()> {
        writeln!(self, "{text}").map_err(stdout_error)
    }

    /// Prints a JSON value on its own line.
    pub fn json(&mut self, value: &Json) -> Result<()> {
        match self.escaper {
            Some(_) => self.line(escaped_json(value.to_string())),
            None => self.line(value),
        }
    }

    /// Prints bytes: unchanged, except on a terminal.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(stdout_error)
    }

    /// Flushes. Must be called at the end, to report errors of the last bytes.
    pub fn finish(mut self) -> Result<()> {
        if let Some(escaper) = &mut self.escaper {
            self.stdout.write_all(escaper.finish().as_bytes()).map_err(stdout_error)?;
        }
        self.stdout.flush().map_err(stdout_error)
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.escaper {
            Some(escaper) => {
                self.stdout.write_all(escaper.text(bytes).as_bytes())?;
                Ok(bytes.len())
            }
            None => self.stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// The end of the output of `mget`: a summary in JSON, and the error if keys are absent.
pub fn finish_mget(
    mut out: Out,
    store: &Path,
    asked: u64,
    absent: u64,
    json: bool,
) -> crate::failure::Result<()> {
    if json {
        out.json(&json!({ "summary": { "keys": asked, "absent": absent } }))?;
    }
    out.finish()?;
    if absent == 0 {
        return Ok(());
    }
    let message = format!("{} of {} not there", thousands(absent), plural(asked, "key"));
    Err(Error::new(ErrorKind::NotFound, message).in_file(store).into())
}

/// Reports what an export wrote, unless that was standard output.
pub fn report_export(
    path: &Path,
    what: &str,
    count: u64,
    file_bytes: Option<u64>,
    start: Instant,
    json: bool,
) -> crate::failure::Result<()> {
    let Some(file_bytes) = file_bytes else { return Ok(()) };
    let mut out = Out::new();
    if json {
        let seconds = start.elapsed().as_secs_f64();
        let mut object = json!({ "file_bytes": file_bytes, "elapsed_seconds": seconds });
        object[what] = Json::from(count);
        out.json(&object)?;
    } else {
        let noun = what.strip_suffix('s').unwrap_or(what);
        out.line(format!(
            "{}: {}, {}, written in {}",
            path.display(),
            plural(count, noun),
            size(file_bytes),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}

/// The name of standard output in error messages.
pub const STDOUT: &str = "standard output";

pub fn stdout_error(error: io::Error) -> Error {
    Error::io("write", Path::new(STDOUT), error)
}

/// The reader of the output has closed the pipe (`firn ... | head`); not a failure.
pub fn is_closed_pipe(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|e| e.downcast_ref::<io::Error>());
    source.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
        && error.file() == Some(Path::new(STDOUT))
}

/// Width of the terminal on standard output; `None` if it is a file or a pipe.
pub fn terminal_width() -> Option<usize> {
    let term = Term::stdout();
    term.is_term().then(|| usize::from(term.size().1))
}

const PLAIN: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none())
    .header_separator(LineStyle::none().fill('-').junction('-'))
    .content_lines(ContentLineStyle::none());

/// A text table: a header, a line, rows; columns of numbers are right-aligned.
pub struct Grid {
    headers: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Maximum number of characters per cell.
    limit: usize,
    /// Alignments and widths of the columns of the rows already taken.
    layout: Option<(Vec<CellAlignment>, Vec<u16>)>,
}

/// Rows that a grid of unbounded length holds at a time.
const PART: usize = 4096;

impl Grid {
    pub fn new(headers: impl IntoIterator<Item = impl Display>) -> Grid {
        let headers = headers.into_iter().map(|header| visible(&header.to_string(), 60)).collect();
        Grid { headers, rows: Vec::new(), limit: 60, layout: None }
    }

    /// Shows cells in full, whatever their length.
    pub fn untruncated(mut self) -> Grid {
        self.limit = usize::MAX;
        self
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|text| visible(&text, self.limit)).collect());
    }
}

impl Grid {
    /// Takes the text of the rows so far, once they are many, so that a long table is not held in
    /// memory. Later rows have no header and keep the column widths where they fit.
    pub fn part(&mut self) -> Option<String> {
        if self.rows.len() < PART {
            return None;
        }
        let (table, sides) = (self.table(), self.sides());
        let widths = table.column_max_content_widths();
        self.rows.clear();
        self.layout = Some((sides, widths));
        Some(lines_of(&table))
    }

    /// Whether nothing is left to print.
    pub fn is_done(&self) -> bool {
        self.layout.is_some() && self.rows.is_empty()
    }

    fn sides(&self) -> Vec<CellAlignment> {
        let side = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            match cells.all(|text| is_number(text)) {
                true => CellAlignment::Right,
                false => CellAlignment::Left,
            }
        };
        match &self.layout {
            Some((sides, _)) => sides.clone(),
            None => (0..self.headers.len()).map(side).collect(),
        }
    }

    fn table(&self) -> Table {
        let sides = self.sides();
        let align = |row: &Vec<String>| {
            let cells = row.iter().zip(&sides);
            cells.map(|(text, side)| Cell::new(text).set_alignment(*side)).collect::<Vec<Cell>>()
        };
        let mut table = Table::new();
        table.load_style(PLAIN);
        if self.layout.is_none() {
            table.set_header(align(&self.headers));
        }
        table.add_rows(self.rows.iter().map(align));
        if let Some((_, widths)) = &self.layout {
            for (column, width) in table.column_iter_mut().zip(widths) {
                let width = Width::Fixed(width.saturating_add(column.padding_width()));
                column.set_constraint(ColumnConstraint::LowerBoundary(width));
            }
        }
        table
    }
}

impl Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&lines_of(&self.table()))
    }
}

fn lines_of(table: &Table) -> String {
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_string()).collect();
    lines.join("\n")
}

/// Whether a cell is a number, with or without a unit, or marks a missing one.
fn is_number(text: &str) -> bool {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let digits = number.strip_prefix('-').unwrap_or(number);
    digits.chars().all(|c| c.is_ascii_digit() || c == ',' || c == '.')
        && unit.len() <= 3
        && unit.chars().all(|c| c.is_ascii_alphabetic() || c == '%')
}

/// Text for a cell: one line, no control characters, at most `limit` characters.
fn visible(text: &str, limit: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(80));
    for (i, c) in text.chars().enumerate() {
        if i == limit {
            shown.push_str("...");
            break;
        }
        match c {
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

pub fn number_to_text(number: Number) -> String {
    match number {
        Number::Int(v) => v.to_string(),
        Number::Float(v) => decimal(v),
    }
}

/// A number with at most two decimals.
pub fn decimal(v: f64) -> String {
    if v == v.trunc() && v.abs() < 1e15 { format!("{v:.0}") } else { format!("{v:.2}") }
}

/// A count with a comma between groups of three digits.
pub fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 flight`, `1,000 flights`.
pub fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}

/// A size in binary units: `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            let decimals = usize::from(unit != "B" && value < 100.0);
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// A duration in a suitable unit: `12 us`, `3.4 ms`, `1.20 s`.
pub fn time(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        m if m < 10.0 => format!("{m:.1} us"),
        m if m < 1e3 => format!("{m:.0} us"),
        m if m < 1e4 => format!("{:.2} ms", m / 1e3),
        m if m < 1e6 => format!("{:.1} ms", m / 1e3),
        m => format!("{:.2} s", m / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_for_reading() {
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(336776), "336,776");
        assert_eq!(plural(1, "row"), "1 row");
        assert_eq!((size(512), size(1536)), ("512 B".to_string(), "1.5 KiB".to_string()));
        assert_eq!(time(Duration::from_micros(1234)), "1.23 ms");
        assert_eq!((decimal(2.0), decimal(2.456)), ("2".to_string(), "2.46".to_string()));
    }

    #[test]
    fn cells_hold_one_line_without_control_characters() {
        assert_eq!(visible("a\nb\x1b[31m", 60), "a\\nb\\u{1b}[31m");
        assert_eq!(visible(&"x".repeat(100), 60).len(), 63);
    }

    #[test]
    fn numbers_are_distinguished_from_names() {
        assert!(["7", "-1,200", "2.5", "1.5 KiB", "12.0 %", "-", ""].into_iter().all(is_number));
        assert!(["9E", "2013-01", "N14", "1 2 3", "a"].into_iter().all(|text| !is_number(text)));
    }

    #[test]
    fn a_grid_right_aligns_numbers() {
        let mut grid = Grid::new(["name", "count"]);
        grid.row(["abc".to_string(), "7".to_string()]);
        grid.row(["d".to_string(), "12345".to_string()]);
        let lines: Vec<String> = grid.to_string().lines().map(str::to_string).collect();
        assert_eq!(lines[0], " name   count");
        assert_eq!(lines[2], " abc        7");
        assert_eq!(lines[3], " d      12345");
    }

    #[test]
    fn parts_of_a_grid_keep_the_column_widths() {
        let (mut grid, mut text, mut untruncated) =
            (Grid::new(["a", "b"]), String::new(), Vec::new());
        for i in 0..3 * PART {
            grid.row([format!("{:03}", i % 1000), "x".repeat(i % 7)]);
            untruncated
                .push(format!(" {:03}   {}", i % 1000, "x".repeat(i % 7)).trim_end().to_string());
            text.extend(grid.part().map(|part| part + "\n"));
        }
        assert!(grid.is_done());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["   a   b", "--------------"]);
        assert_eq!(lines[2..], untruncated);
    }
}
