//! Readers of rows: text, CSV, JSON lines, Parquet, Arrow and Avro.
//!
//! The rows of a text do not depend on the size of reads. Files of columns start from samples that
//! the writers make.

use crate::mutate::{self, Rng};
use crate::place;
use firndb_ingest::{
    BatchOptions, BatchReader, BatchWriter, Compression, CsvWriter, Dialect, Encoding, Format,
    Input, READER_THREAD, Ragged, RawValue, RecordOptions, RecordReader, Row, RowOptions, Rows,
    in_parser,
};
use std::io::Read;
use std::sync::{LazyLock, Once};

/// A reader that returns a limited number of bytes at a time.
struct Pieces(std::io::Cursor<Vec<u8>>, usize);

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

/// The dialect that four bytes select.
fn dialect(head: &[u8; 4]) -> Dialect {
    let has = |bit: u8| head[0] & 1 << bit != 0;
    let special = |bit: u8, byte: u8| has(bit).then_some(byte);
    const ENCODINGS: [&str; 8] =
        ["utf-8", "utf-16le", "utf-16be", "latin1", "shift_jis", "gbk", "iso-2022-jp", "big5"];
    let encoding = ENCODINGS[usize::from(head[1] % 8)];
    Dialect::default()
        .header(!has(0))
        .ragged(if has(1) { Ragged::Fill } else { Ragged::Error })
        .quote(if has(2) { None } else { Some(b'"') })
        .escape(special(3, b'\\'))
        .comment(special(4, b'#'))
        .delimiter(special(5, b';'))
        .encoding(if has(6) { Encoding::for_label(encoding.as_bytes()) } else { None })
        .skip_lines(u64::from(head[2] % 4))
        .max_row(if has(7) { 64 } else { 1 << 20 })
}

/// All rows as text, up to the error that ends the input.
fn rows(text: &[u8], piece: usize, options: &RowOptions) -> Vec<String> {
    let reader = Pieces(std::io::Cursor::new(text.to_vec()), piece);
    let mut rows = Rows::from_reader("rows", reader, options.clone());
    let mut all = Vec::new();
    loop {
        match rows.next_row() {
            Ok(Some(row)) => all.push(format!("{row:?}")),
            Ok(None) => return all,
            Err(error) => {
                all.push(error.to_string());
                return all;
            }
        }
    }
}

/// All records as text, up to the error that ends the input.
fn records(text: &[u8], piece: usize, options: &RecordOptions) -> Vec<String> {
    let reader = Pieces(std::io::Cursor::new(text.to_vec()), piece);
    let mut all = Vec::new();
    match RecordReader::from_reader("records", reader, options.clone()) {
        Ok(reader) => read(reader, &mut all),
        Err(error) => all.push(error.to_string()),
    }
    all
}

fn read(mut reader: RecordReader, all: &mut Vec<String>) {
    loop {
        match reader.next_batch() {
            Ok(Some(batch)) => {
                all.extend(batch.iter_expiring().map(|record| format!("{record:?}")));
                all.extend(batch.bad_rows().iter().cloned());
            }
            Ok(None) => return,
            Err(error) => return all.push(error.to_string()),
        }
    }
}

/// Reads a text in pieces of the size that the fourth byte selects, and as a whole.
fn texts(data: &[u8], format: Format, has_rows: bool) {
    let Some((head, text)) = data.split_first_chunk::<4>() else { return };
    let (dialect, piece) = (dialect(head), usize::from(head[3]).max(1));
    let options = RecordOptions::default()
        .format(format)
        .compression(Compression::None)
        .dialect(dialect.clone())
        .row_number(has_rows);
    assert_eq!(records(text, piece, &options), records(text, usize::MAX, &options));
    if has_rows {
        let options =
            RowOptions::default().format(format).compression(Compression::None).dialect(dialect);
        assert_eq!(rows(text, piece, &options), rows(text, usize::MAX, &options));
    }
}

pub fn text(data: &[u8]) {
    texts(data, Format::Text, false);
}

pub fn json_lines(data: &[u8]) {
    texts(data, Format::JsonLines, true);
    texts(data, Format::JsonLines, false);
}

/// CSV also comes back from its writer.
pub fn csv(data: &[u8]) {
    texts(data, Format::Csv, true);
    let Some((head, text)) = data.split_first_chunk::<4>() else { return };
    let options = RowOptions::default().format(Format::Csv).compression(Compression::None);
    let reader = std::io::Cursor::new(text.to_vec());
    let rows = Rows::from_reader("a.csv", reader, options.clone().dialect(dialect(head)));
    let rows = rows.map_while(|row| row.ok()).filter_map(|row| row.ok());
    let rows = rows.map(cells).collect::<Vec<_>>();
    let Some(width) = rows.first().map(Vec::len) else { return };
    let mut writer = CsvWriter::new(Vec::new(), "b.csv", b',');
    let names: Vec<String> = (0..width).map(|n| format!("column {n}")).collect();
    writer.header(&names).expect("the names differ");
    let written: Vec<_> = rows.into_iter().filter(|row| writer.row(row.clone()).is_ok()).collect();
    let text = writer.finish().expect("memory can be written");
    let again = Rows::from_reader("b.csv", std::io::Cursor::new(text), options);
    let again = again.map(|row| cells(row.expect("the text can be read").expect("a good row")));
    assert_eq!(again.collect::<Vec<_>>(), written);
}

fn cells(row: Row) -> Vec<Option<String>> {
    let cells = row.cells.into_iter().map(|(_, value)| match value {
        RawValue::Text(text) => Some(text),
        _ => None,
    });
    cells.collect()
}

pub fn parquet(data: &[u8]) {
    columns(data, Format::Parquet, "rows.parquet");
}

pub fn arrow(data: &[u8]) {
    columns(data, Format::Arrow, "rows.arrow");
}

pub fn avro(data: &[u8]) {
    columns(data, Format::Avro, "rows.avro");
}

/// Reads a file of columns as rows and as records.
fn columns(data: &[u8], format: Format, name: &str) {
    quiet_parsers();
    let input = Input::File(place::file(name, data));
    let options = RowOptions::default().format(format).compression(Compression::None);
    let rows = Rows::new([input.clone()], options);
    let good = rows.map_while(|row| row.ok()).filter(|row| row.is_ok()).count();
    let options =
        RecordOptions::default().format(format).compression(Compression::None).row_number(true);
    let mut all = Vec::new();
    if let Ok(reader) = RecordReader::new(std::slice::from_ref(&input), options) {
        read(reader, &mut all);
    }
    std::hint::black_box((good, all));
}

/// The readers return panics of the parsers of other crates as errors, which is not a failure.
fn quiet_parsers() {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let ending = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_reader = std::thread::current().name() == Some(READER_THREAD);
            if !is_reader && !in_parser() {
                ending(panic);
            }
        }));
    });
}

/// Rows with all types that the writers have, nulls, lists and nested objects.
const SAMPLE: &str = concat!(
    r#"{"b":true,"i":-7,"u":9223372036854775807,"f":0.5,"s":"text","#,
    r#""t":"2024-02-29T12:00:00Z","l":[1,2],"o":{"x":"y"}}"#,
    "\n",
    r#"{"b":false,"i":null,"u":0,"f":-1e300,"s":"","#,
    r#""t":"1970-01-01T00:00:00.000001Z","l":[],"o":{"x":null}}"#,
    "\n",
    r#"{"s":"another text, which is longer","l":[3]}"#,
);

/// A small file of each format of columns.
static SAMPLES: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    [Format::Parquet, Format::Arrow, Format::Avro].map(|format| {
        let rows = Rows::from_reader("a.jsonl", SAMPLE.as_bytes(), RowOptions::default());
        let reader = BatchReader::from_rows(rows, BatchOptions::default());
        let reader = reader.expect("the sample has a schema");
        let schema = reader.schema().clone();
        let mut writer = BatchWriter::new(Vec::new(), format, &schema).expect("a writer");
        for batch in reader {
            writer.write(&batch.expect("a batch")).expect("memory can be written");
        }
        writer.finish().expect("memory can be written")
    })
});

fn mutate(rng: &mut Rng, data: &mut [u8], size: usize, max_size: usize, sample: usize) -> usize {
    // An input without a file to start from becomes one.
    if size < 16 || rng.one_in(256) {
        return mutate::put(data, size, max_size, &SAMPLES[sample]);
    }
    if rng.one_in(4) {
        mutate::in_place(rng, &mut data[..size]);
        return size;
    }
    mutate::plain(rng, data, size, max_size)
}

pub fn mutate_parquet(rng: &mut Rng, data: &mut [u8], size: usize, max_size: usize) -> usize {
    mutate(rng, data, size, max_size, 0)
}

pub fn mutate_arrow(rng: &mut Rng, data: &mut [u8], size: usize, max_size: usize) -> usize {
    mutate(rng, data, size, max_size, 1)
}

pub fn mutate_avro(rng: &mut Rng, data: &mut [u8], size: usize, max_size: usize) -> usize {
    mutate(rng, data, size, max_size, 2)
}
