//! Tables, logs and search hits of FirnDB to and from Arrow record batches.
//!
//! - [`avro`]: the encoding of table values of several columns.
//! - [`column`]: Arrow columns to keys and values.

pub mod avro;
pub mod column;
pub mod json_number;
