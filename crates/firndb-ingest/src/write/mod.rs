//! Writers of the formats that the readers read.

mod avro;
mod batches;
mod delimited;
mod file;
mod records;
mod rows;

pub use batches::BatchWriter;
pub use delimited::CsvWriter;
pub use file::OutputFile;
pub use records::{NO_DIGITS, RecordFormat, RecordWriter, RecordWriterOptions};
pub use rows::RowWriter;
