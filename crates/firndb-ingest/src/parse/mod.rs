//! Parsers of formats, and their protection against damaged inputs.

pub(crate) mod avro;
pub(crate) mod batch_rows;
pub(crate) mod columnar;
pub(crate) mod csv;
pub(crate) mod ipc;
pub(crate) mod json_lines;
