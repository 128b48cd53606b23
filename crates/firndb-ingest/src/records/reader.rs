//! The records of several inputs, read and parsed in a thread.

use crate::format::Format;
use crate::guard::message;
use crate::input::{Input, Source, read_error};
use crate::parse::failure::Failure;
use crate::parse::text_input::TextInput;
use crate::records::ReadRecords;
use crate::records::batch::KeyValueBatch;
use crate::records::columnar::ColumnarRecords;
use crate::records::delimited::DelimitedRecords;
use crate::records::json_lines::JsonLineRecords;
use crate::records::layout::Layout;
use crate::records::objects::ObjectRecords;
use crate::records::options::RecordOptions;
use crate::records::text::TextRecords;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use firndb::{Error, ErrorKind, Result};
use std::fmt;
use std::io::{BufRead, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Batches that wait for the caller at most.
const QUEUE: usize = 4;

/// Name of the threads of [`RecordReader`]s. Panics of parsers in them are caught and returned as
/// errors; a panic hook can use the name to stay silent.
pub const READER_THREAD: &str = "firn-reading";

enum Message {
    /// The Avro schema of the values, empty if they are bytes. The first message.
    Schema(String),
    Batch(KeyValueBatch),
    /// Columns that no row had. The last message.
    Absent(Vec<String>),
    Failed(Error),
}

/// Reads the records of inputs in a thread of its own, so that parsing and the work of the caller
/// overlap. Memory: a few batches of 256 KiB, and the rows from which types are inferred (10,000
/// rows or 16 MiB). Dropping the reader ends the thread at its next batch.
///
/// ```
/// use firndb_ingest::{RecordOptions, RecordReader};
///
/// let csv = &b"id,name,price\n7,seven,1.5\n8,,2\n"[..];
/// let mut reader = RecordReader::from_reader("a.csv", csv, RecordOptions::default().key("id"))?;
/// assert!(reader.schema().contains("price"));
/// let mut keys = Vec::new();
/// while let Some(batch) = reader.next_batch()? {
///     assert!(batch.bad_rows().is_empty());
///     keys.extend(batch.iter().map(|(_, key, _)| key.to_vec()));
/// }
/// assert_eq!(keys, [b"7", b"8"]);
/// # Ok::<(), firndb::Error>(())
/// ```
pub struct RecordReader {
    receiver: Receiver<Message>,
    cancel: Arc<AtomicBool>,
    schema: String,
    absent: Vec<String>,
}

impl RecordReader {
    /// Starts to read `inputs`, and returns once the schema of the values is known.
    ///
    /// # Errors
    ///
    /// `NotFound` or `Io` if an input cannot be read; `Corrupt` if its compression is damaged, or
    /// it is a damaged Parquet, Arrow or Avro file; `InvalidArgument` if it is of another format,
    /// has a type or a feature that is not supported, or its columns do not fit the options;
    /// `Cancelled`.
    pub fn new(inputs: &[Input], options: RecordOptions) -> Result<RecordReader> {
        RecordReader::start(inputs.iter().cloned().map(Source::Input).collect(), options)
    }

    /// Starts to read a reader. `name` is used in messages, and its extension determines the
    /// format. Parquet needs a file.
    ///
    /// # Errors
    ///
    /// As [`RecordReader::new`].
    pub fn from_reader(
        name: impl Into<PathBuf>,
        reader: impl Read + Send + 'static,
        options: RecordOptions,
    ) -> Result<RecordReader> {
        let source = Source::Reader { name: name.into(), reader: Box::new(reader) };
        RecordReader::start(vec![source], options)
    }

    /// Starts to read record batches, which all have the schema `schema`. The thread of the reader
    /// calls and drops the iterator. The records are those of an Arrow IPC file with the same
    /// batches. `name` is used in messages. The progress counts rows instead of bytes.
    ///
    /// ```
    /// use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    /// use firndb_ingest::{RecordOptions, RecordReader};
    /// use std::sync::Arc;
    ///
    /// let ids: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
    /// let names: ArrayRef = Arc::new(StringArray::from(vec!["seven", "eight"]));
    /// let batch = RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap();
    /// let (schema, batches) = (batch.schema(), [Ok(batch)].into_iter());
    /// let options = RecordOptions::default().key("id");
    /// let mut reader = RecordReader::from_batches("names", schema, batches, options)?;
    /// let batch = reader.next_batch()?.unwrap();
    /// let records: Vec<_> = batch.iter().map(|(_, key, value)| (key, value)).collect();
    /// assert_eq!(records, [(&b"7"[..], &b"seven"[..]), (&b"8"[..], &b"eight"[..])]);
    /// # Ok::<(), firndb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`RecordReader::new`]; `InvalidArgument` with the message of an error of the iterator.
    pub fn from_batches(
        name: impl Into<String>,
        schema: SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
        options: RecordOptions,
    ) -> Result<RecordReader> {
        let batches = Box::new(batches);
        RecordReader::start(vec![Source::Batches { name: name.into(), schema, batches }], options)
    }

    fn start(sources: Vec<Source>, options: RecordOptions) -> Result<RecordReader> {
        let (sender, receiver) = sync_channel(QUEUE);
        let cancel = options.cancel.clone();
        let mut worker = Worker { options, sender, layout: None, name: String::new() };
        let thread = std::thread::Builder::new().name(READER_THREAD.to_string()).spawn(move || {
            // Parsers of other crates can panic on damaged files.
            let result = catch_unwind(AssertUnwindSafe(|| worker.run(sources)));
            if let Err(e) = result.unwrap_or_else(|panic| {
                let failure = Failure::of_panic(&message(&*panic));
                Err(failure.into_error(&worker.name, "it cannot be read"))
            }) {
                // The caller may have dropped the receiver.
                let _ = worker.sender.send(Message::Failed(e));
            }
        });
        thread.map_err(|e| Error::new(ErrorKind::Failed, format!("cannot start a thread: {e}")))?;
        let mut reader =
            RecordReader { receiver, cancel, schema: String::new(), absent: Vec::new() };
        match reader.receive()? {
            Some(Message::Schema(schema)) => reader.schema = schema,
            _ => return Err(stopped()),
        }
        Ok(reader)
    }

    /// The Avro schema of the values as JSON text; empty if values are bytes.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Columns of the value that [`RecordOptions::values`] names and no row had. Known after the
    /// last batch.
    pub fn absent_columns(&self) -> &[String] {
        &self.absent
    }

    /// The next batch; `None` after the last.
    ///
    /// # Errors
    ///
    /// As [`RecordReader::new`].
    pub fn next_batch(&mut self) -> Result<Option<KeyValueBatch>> {
        match self.receive()? {
            Some(Message::Batch(batch)) => Ok(Some(batch)),
            Some(Message::Absent(absent)) => {
                self.absent = absent;
                Ok(None)
            }
            Some(_) => Err(stopped()),
            None => Ok(None),
        }
    }

    fn receive(&mut self) -> Result<Option<Message>> {
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, "reading was cancelled"));
            }
            // The thread may be blocked by a slow input. Cancelling must not wait for it.
            match self.receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(Message::Failed(e)) => return Err(e),
                Ok(message) => return Ok(Some(message)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}

impl fmt::Debug for RecordReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordReader").field("schema", &self.schema).finish_non_exhaustive()
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Failed, "the reading thread stopped")
}

/// The state of the reading thread.
struct Worker {
    options: RecordOptions,
    sender: SyncSender<Message>,
    layout: Option<Layout>,
    /// Name of the current input.
    name: String,
}

impl Worker {
    fn run(&mut self, sources: Vec<Source>) -> Result<()> {
        let mut without_rows: Option<Layout> = None;
        let mut absent: Option<Vec<String>> = None;
        let mut rows = 0;
        for (number, source) in sources.into_iter().enumerate() {
            self.name = source.name();
            let mut records = self.open(number, source)?;
            if self.layout.is_none()
                && let Some(layout) = records.infer_layout(&self.options)?
            {
                // A header alone does not show the types of the rows of the next input.
                if layout.has_no_rows {
                    without_rows = without_rows.or(Some(layout));
                    continue;
                }
                self.send(Message::Schema(layout.schema()));
                self.layout = Some(layout);
            }
            // An input without a layout has no records.
            let Some(layout) = &self.layout else { continue };
            records.set_layout(layout, &self.options)?;
            let mut more = true;
            while more {
                let mut batch = KeyValueBatch::after(rows);
                more = records.fill(&mut batch)?;
                rows = batch.rows();
                if !self.send(Message::Batch(batch)) {
                    return Ok(());
                }
            }
            let lacking = records.absent_columns();
            absent = Some(match absent {
                Some(names) => names.into_iter().filter(|name| lacking.contains(name)).collect(),
                None => lacking,
            });
        }
        if self.layout.is_none() {
            let schema = without_rows.map(|layout| layout.schema()).unwrap_or_default();
            self.send(Message::Schema(schema));
        }
        self.send(Message::Absent(absent.unwrap_or_default()));
        Ok(())
    }

    /// False if the caller dropped the reader.
    fn send(&self, message: Message) -> bool {
        self.sender.send(message).is_ok()
    }

    fn open(&self, number: usize, source: Source) -> Result<Box<dyn ReadRecords>> {
        let (name, options) = (source.name(), &self.options);
        let mut source = match source {
            Source::Batches { schema, batches, .. } => {
                let (id, progress) = ((number, name), &options.progress);
                return Ok(Box::new(ColumnarRecords::batches(schema, batches, id, progress)));
            }
            source => source,
        };
        let mut reader = source.open(options.compression, &options.progress)?;
        let head = reader.fill_buf().map_err(|e| read_error(&name, e))?;
        let is_object = options.json_values && head.trim_ascii_start().starts_with(b"{");
        let has_columns = !options.keys.is_empty() || options.dialect.is_delimited() || is_object;
        let format = options.format.detect(source.path(), head, has_columns);
        let is_guess = Format::Auto.detect(source.path(), &[], false) == Format::Text;
        let is_guess = is_guess && options.format == Format::Auto && has_columns;
        if options.require_text && format != Format::Text {
            let form = format.name();
            return Err(Error::invalid(format!(
                "{name}: -s divides keys from values in text, and this is {form}; leave it out, or \
                 say --format text (--delimiter divides columns of CSV)"
            )));
        }
        let id = (number, name);
        Ok(match format {
            format if format.has_types() => {
                let file = source.file();
                Box::new(ColumnarRecords::open(format, file, reader, id, &options.progress)?)
            }
            format => {
                let is_text = matches!(format, Format::Text | Format::Auto);
                let mut input = TextInput::new(reader, &id.1, &options.dialect, is_text)?;
                let format = match is_guess {
                    true => {
                        let head = input.fill_buf();
                        let head = head.map_err(|e| read_error(&id.1, e))?;
                        Format::of_rows(options.dialect.first_row(head))
                    }
                    false => format,
                };
                open_text(input, id, format, options)?
            }
        })
    }
}

/// Opens an input of text, CSV, TSV or JSON lines.
fn open_text(
    input: TextInput,
    id: (usize, String),
    format: Format,
    options: &RecordOptions,
) -> Result<Box<dyn ReadRecords>> {
    Ok(match format {
        Format::Csv => Box::new(DelimitedRecords::new(input, id, b',', options)?),
        Format::Tsv => Box::new(DelimitedRecords::new(input, id, b'\t', options)?),
        Format::JsonLines if options.are_objects() => {
            Box::new(ObjectRecords::new(input, id, options))
        }
        Format::JsonLines => Box::new(JsonLineRecords::new(input, id, options)),
        _ => Box::new(TextRecords::new(input, id, options)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::options::ValueColumn;
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use arrow_ipc::writer::StreamWriter;
    use std::sync::Mutex;

    fn batches() -> Vec<RecordBatch> {
        let batch = |first: i64, rows: i64| {
            let ids = (first..first + rows).map(|id| (id % 7 != 3).then_some(id));
            let names = (first..first + rows).map(|id| (id % 5 != 0).then(|| format!("n{id}")));
            let ids: ArrayRef = Arc::new(ids.collect::<Int64Array>());
            let names: ArrayRef = Arc::new(names.collect::<StringArray>());
            let twice: ArrayRef =
                Arc::new(Int64Array::from_iter_values(first * 2..first * 2 + rows));
            RecordBatch::try_from_iter_with_nullable([
                ("id", ids, true),
                ("name", names, true),
                ("twice", twice, false),
            ])
            .unwrap()
        };
        vec![batch(0, 3000), batch(3000, 0), batch(3000, 100)]
    }

    /// The schema, and all records and bad rows.
    fn read(mut reader: RecordReader) -> (String, Vec<String>) {
        let (schema, mut rows) = (reader.schema().to_string(), Vec::new());
        while let Some(batch) = reader.next_batch().unwrap() {
            let records = batch.iter().map(|record| format!("{record:?}"));
            rows.extend(records.chain(batch.bad_rows().iter().cloned()));
        }
        (schema, rows)
    }

    #[test]
    fn batches_are_read_as_an_arrow_file_is() {
        let mut file = Vec::new();
        let mut writer = StreamWriter::try_new(&mut file, &batches()[0].schema()).unwrap();
        batches().iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        drop(writer);
        let name = [ValueColumn::new("name")];
        let options = RecordOptions::default().key("id");
        for options in [options.clone(), options.clone().values(name), options.record(true)] {
            let file = std::io::Cursor::new(file.clone());
            let of_file = RecordReader::from_reader("a.arrows", file, options.clone());
            let given = batches().into_iter().map(Ok);
            let schema = batches()[0].schema();
            let given = RecordReader::from_batches("a.arrows", schema, given, options);
            assert_eq!(read(given.unwrap()), read(of_file.unwrap()));
        }
    }

    #[test]
    fn the_progress_of_batches_counts_rows_and_an_error_ends_them() {
        let rows = Arc::new(Mutex::new(0));
        let counted = rows.clone();
        let progress = crate::Progress::new(move |more| *counted.lock().unwrap() += more);
        let options = RecordOptions::default().key("twice").progress(progress);
        let error = ArrowError::ExternalError("the source failed".into());
        let given = batches().into_iter().map(Ok).chain([Err(error)]);
        let schema = batches()[0].schema();
        let mut reader = RecordReader::from_batches("x", schema, given, options).unwrap();
        let error = loop {
            match reader.next_batch() {
                Ok(batch) => assert!(batch.is_some()),
                Err(e) => break e,
            }
        };
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("the source failed"), "{error}");
        assert_eq!(*rows.lock().unwrap(), 3100);
    }
}
