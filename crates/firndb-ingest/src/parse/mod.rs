//! Parsers of formats, and their protection against damaged inputs.

pub(crate) mod avro;
pub(crate) mod batch_rows;
pub(crate) mod columnar;
pub(crate) mod csv;
#[cfg(test)]
mod damage_tests;
pub(crate) mod dialect;
pub(crate) mod failure;
pub(crate) mod ipc;
mod ipc_schema;
#[cfg(test)]
mod ipc_tests;
pub(crate) mod json_lines;
mod parquet_file;
mod parquet_pages;
mod parquet_schema;
#[cfg(test)]
mod parquet_tests;
pub(crate) mod text_input;
