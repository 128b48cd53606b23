//! Records: keys and values as bytes, for tables and logs.
//!
//! ```text
//! Source -> text         key, separator, value
//!         | delimited    CSV and TSV
//!         | json_lines   JSON lines
//!         | objects      JSON lines for a store without a schema
//!         | columnar     Parquet and Arrow IPC
//!        -> KeyValueBatch
//! ```
//!
//! A value of one column is its bytes; several columns are a record in Avro's binary encoding,
//! whose schema is known before the first batch (`layout`). A [`RecordReader`] reads and parses in
//! a thread of its own.

mod batch;
mod cells;
mod columnar;
mod delimited;
mod json_lines;
mod key;
mod layout;
mod objects;
mod options;
mod reader;
mod text;

pub use batch::{KeyValueBatch, origin, origin_name};
pub use key::KEY_SEPARATOR;
pub use objects::EXPIRES_AT;
pub use options::{ColumnType, RecordOptions, ValueColumn};
pub use reader::{READER_THREAD, RecordReader};

use layout::Layout;

/// The records of one input.
trait ReadRecords {
    /// The layout of the values of this input by itself, from its first rows; `None` if it has no
    /// rows. Called for each input until one has a layout.
    fn infer_layout(&mut self, options: &RecordOptions) -> firndb::Result<Option<Layout>>;

    /// Sets the layout that all inputs have. `InvalidArgument` if this input cannot have it.
    fn set_layout(&mut self, layout: &Layout, options: &RecordOptions) -> firndb::Result<()>;

    /// Adds records until the batch is full; false at the end of the input. `Err` means that the
    /// input cannot be read any further.
    fn fill(&mut self, batch: &mut KeyValueBatch) -> firndb::Result<bool>;

    /// Columns of the value that no row had, in formats whose rows may lack columns.
    fn absent_columns(&self) -> Vec<String> {
        Vec::new()
    }
}
