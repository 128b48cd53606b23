//! All records of all inputs, read and parsed in a thread of its own.

use super::columnar::ColumnarRecords;
use super::delimited::DelimitedRecords;
use super::lines::LineRecords;
use super::objects::ObjectRecords;
use super::shape::{Asked, Shape};
use super::text::TextRecords;
use super::{Batch, Format, Records};
use crate::ingest::source::Input;
use encoding_rs::Encoding;
use firndb::{Error, ErrorKind, Result};
use indicatif::ProgressBar;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Once};
use std::time::Duration;

/// What is wanted of the inputs.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub format: Format,
    /// Stands between key and value in text.
    pub separator: Vec<u8>,
    /// Somebody chose it, so that there must be text to divide.
    pub separator_chosen: bool,
    /// Divides columns of CSV and TSV; `None` if nobody chose.
    pub delimiter: Option<u8>,
    /// Encoding of text, CSV and TSV; `None` takes bytes as they are.
    pub encoding: Option<&'static Encoding>,
    /// The column that is the key.
    pub key: Option<String>,
    /// The columns that are the value; all others if there are none.
    pub values: Vec<Asked>,
    /// Make a record of a single column too.
    pub record: bool,
    /// JSON lines go to a store without a schema: see `objects.rs`.
    pub objects: bool,
}

/// Batches that may wait to be taken.
const WAITING: usize = 4;

/// Name of the reading thread.
const THREAD: &str = "firn-reading";

static QUIET: Once = Once::new();

/// Panics of the reading thread are errors about the file at hand, and are reported as such.
fn be_quiet() {
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(THREAD) {
            usual(panic);
        }
    }));
}

enum Message {
    /// The Avro schema of the values, empty if they are bytes. Comes first.
    Schema(String),
    Batch(Batch),
    /// Columns that no row had. Comes last.
    Absent(Vec<String>),
    Failed(Error),
}

/// The records of several inputs. Dropping it ends the thread at its next batch.
pub struct Feed {
    receiver: Receiver<Message>,
    stop: Arc<AtomicBool>,
    /// The schema of the values; empty if they are bytes.
    pub schema: String,
    /// Columns of the value that were asked for, and that no row had. Known at the end.
    pub absent: Vec<String>,
}

impl Feed {
    /// Begins to read. Returns when the schema of the values is known. Once `stop` is set, every
    /// call is `Cancelled`.
    pub fn start(
        inputs: &[Input],
        wanted: &Arc<Wanted>,
        progress: &ProgressBar,
        stop: &Arc<AtomicBool>,
    ) -> Result<Feed> {
        let (sender, receiver) = sync_channel(WAITING);
        let mut reading = Reading {
            inputs: inputs.to_vec(),
            wanted: wanted.clone(),
            progress: progress.clone(),
            sender,
            shape: None,
            input: 0,
        };
        QUIET.call_once(be_quiet);
        let thread = std::thread::Builder::new().name(THREAD.to_string()).spawn(move || {
            // Parsers of other crates may give up on damaged files in their own way.
            let result = catch_unwind(AssertUnwindSafe(|| reading.run()));
            if let Err(e) = result.unwrap_or_else(|panic| Err(reading.gave_up(&*panic))) {
                // If nobody listens, the command has failed already.
                let _ = reading.sender.send(Message::Failed(e));
            }
        });
        thread.map_err(|e| Error::new(ErrorKind::Failed, format!("cannot start a thread: {e}")))?;
        let mut feed =
            Feed { receiver, stop: stop.clone(), schema: String::new(), absent: Vec::new() };
        match feed.receive()? {
            Some(Message::Schema(schema)) => feed.schema = schema,
            _ => return Err(stopped()),
        }
        Ok(feed)
    }

    /// The next batch; `None` after the last.
    pub fn next(&mut self) -> Result<Option<Batch>> {
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
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, "interrupted: nothing was written"));
            }
            // The thread may wait for a slow input, and a user must not wait with it.
            match self.receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(Message::Failed(e)) => return Err(e),
                Ok(message) => return Ok(Some(message)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Failed, "the reading thread stopped")
}

/// The reading thread.
struct Reading {
    inputs: Vec<Input>,
    wanted: Arc<Wanted>,
    progress: ProgressBar,
    sender: SyncSender<Message>,
    shape: Option<Shape>,
    /// Number of the input at hand.
    input: usize,
}

impl Reading {
    fn run(&mut self) -> Result<()> {
        let mut blind: Option<Shape> = None;
        let mut absent: Option<Vec<String>> = None;
        for (number, input) in self.inputs.clone().iter().enumerate() {
            self.input = number;
            let mut records = self.open(number, input)?;
            if self.shape.is_none()
                && let Some(shape) = records.shape(&self.wanted)?
            {
                // A header alone does not say of what types the rows of the next input are.
                if shape.blind {
                    blind = blind.or(Some(shape));
                    continue;
                }
                self.send(Message::Schema(shape.schema()));
                self.shape = Some(shape);
            }
            // Without a shape there are no records.
            let Some(shape) = &self.shape else { continue };
            records.follow(shape, &self.wanted)?;
            let mut more = true;
            while more {
                let mut batch = Batch::default();
                more = records.fill(&mut batch)?;
                if !self.send(Message::Batch(batch)) {
                    return Ok(());
                }
            }
            let lacking = records.absent();
            absent = Some(match absent {
                Some(names) => names.into_iter().filter(|name| lacking.contains(name)).collect(),
                None => lacking,
            });
        }
        if self.shape.is_none() {
            let schema = blind.map(|shape| shape.schema()).unwrap_or_default();
            self.send(Message::Schema(schema));
        }
        self.send(Message::Absent(absent.unwrap_or_default()));
        Ok(())
    }

    fn gave_up(&self, panic: &(dyn Any + Send)) -> Error {
        let name = self.inputs.get(self.input).map(Input::name).unwrap_or_default();
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let why = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason");
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        Error::invalid(format!("{name}: the file is damaged; its reader gave up: {why}"))
    }

    /// False if nobody listens any more.
    fn send(&self, message: Message) -> bool {
        self.sender.send(message).is_ok()
    }

    fn open(&self, number: usize, input: &Input) -> Result<Box<dyn Records>> {
        let (name, wanted) = (input.name(), &*self.wanted);
        let mut reader = input.open(&self.progress)?;
        let head = reader.fill_buf().map_err(|e| Error::io("read", name.as_ref(), e))?;
        let is_object = wanted.objects && head.trim_ascii_start().starts_with(b"{");
        let has_columns = wanted.key.is_some() || wanted.delimiter.is_some() || is_object;
        let format = wanted.format.of(input, head, has_columns);
        if wanted.separator_chosen && format != Format::Text {
            let form = format!("{format:?}").to_lowercase();
            return Err(Error::invalid(format!(
                "{name}: -s divides keys from values in text, and this is {form}; leave it out, or \
                 say --format text (--delimiter divides columns of CSV)"
            )));
        }
        let (place, encoding) = ((number, name), wanted.encoding);
        Ok(match format {
            Format::Csv => Box::new(DelimitedRecords::new(reader, place, b',', wanted)?),
            Format::Tsv => Box::new(DelimitedRecords::new(reader, place, b'\t', wanted)?),
            Format::Parquet => Box::new(ColumnarRecords::parquet(input, place, &self.progress)?),
            Format::Arrow => Box::new(ColumnarRecords::ipc(input, reader, place, &self.progress)?),
            Format::Jsonl if wanted.objects => Box::new(ObjectRecords::new(reader, place, wanted)),
            Format::Jsonl => Box::new(LineRecords::new(reader, place)),
            _ => Box::new(TextRecords::new(reader, place, &wanted.separator, encoding)),
        })
    }
}
