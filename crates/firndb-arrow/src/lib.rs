//! Tables, logs and search hits of FirnDB to and from Arrow record batches.
//!
//! - [`avro`]: the encoding of table values of several columns.
//! - [`mod@column`]: Arrow columns to keys and values of tables and logs.
//! - [`document`]: documents and search hits to and from record batches, with their schemas.
//! - [`record`]: records of tables and logs to and from record batches.

pub mod avro;
pub mod column;
pub mod document;
pub mod json_number;
pub mod record;
