//! All rows of all inputs, one after the other, with a look ahead for the inference of a schema.

use super::csv::CsvRows;
use super::jsonl::JsonRows;
use super::source::{Format, Input, format_by_content};
use super::{ReadRows, RowResult};
use firndb::{Error, Result};
use indicatif::ProgressBar;
use std::collections::VecDeque;
use std::rc::Rc;

/// The rows of several inputs. Only one input is open at a time.
pub struct Rows {
    inputs: VecDeque<Input>,
    format: Format,
    delimiter: Option<u8>,
    progress: ProgressBar,
    open: Option<Box<dyn ReadRows>>,
    ahead: VecDeque<RowResult>,
}

impl Rows {
    /// Rows of `inputs` in their order, each in its own format if `format` is `Auto`.
    pub fn new(inputs: Vec<Input>, format: Format, progress: ProgressBar) -> Rows {
        let (inputs, ahead) = (inputs.into(), VecDeque::new());
        Rows { inputs, format, delimiter: None, progress, open: None, ahead }
    }

    /// Columns of CSV and TSV are divided by this.
    pub fn delimiter(mut self, delimiter: Option<u8>) -> Rows {
        self.delimiter = delimiter;
        self
    }

    /// The next row; `None` after the last one of the last input.
    pub fn next(&mut self) -> Result<Option<RowResult>> {
        match self.ahead.pop_front() {
            Some(row) => Ok(Some(row)),
            None => self.read(),
        }
    }

    /// Looks at the next `count` rows without taking them. The flag says that these are all rows.
    pub fn look_ahead(&mut self, count: usize) -> Result<(&VecDeque<RowResult>, bool)> {
        while self.ahead.len() <= count {
            match self.read()? {
                Some(row) => self.ahead.push_back(row),
                None => return Ok((&self.ahead, true)),
            }
        }
        Ok((&self.ahead, false))
    }

    fn read(&mut self) -> Result<Option<RowResult>> {
        loop {
            if let Some(open) = &mut self.open {
                match open.next_row()? {
                    Some(row) => return Ok(Some(row)),
                    None => self.open = None,
                }
            }
            match self.inputs.pop_front() {
                Some(input) => self.open = Some(self.open_input(&input)?),
                None => return Ok(None),
            }
        }
    }

    fn open_input(&self, input: &Input) -> Result<Box<dyn ReadRows>> {
        let name: Rc<str> = input.name().into();
        let mut reader = input.open(&self.progress)?;
        let mut format = self.format;
        if format == Format::Auto {
            format = input.format_by_name();
        }
        let head = reader.fill_buf().map_err(|e| Error::io("read", name.as_ref().as_ref(), e))?;
        if head.starts_with(b"PAR1") || head.starts_with(b"ARROW1") {
            return Err(Error::invalid(format!(
                "{name}: collections are built from CSV, TSV and JSON lines; `firn table build` \
                 reads Parquet and Arrow"
            )));
        }
        if format == Format::Auto {
            format = format_by_content(head);
        }
        Ok(match format {
            Format::Jsonl => Box::new(JsonRows::new(reader, name)),
            Format::Tsv => Box::new(CsvRows::new(reader, name, b'\t', self.delimiter)?),
            _ => Box::new(CsvRows::new(reader, name, b',', self.delimiter)?),
        })
    }
}
