//! Arrow columns to keys and values: the Avro type of a column, encoders of its values, and
//! [`RowDecoder`], which decodes rows into columns.
//!
//! ```
//! use arrow_array::{Array, Int64Array};
//! use arrow_schema::{DataType, Field};
//! use firndb_arrow::column::{avro_type, encoder};
//!
//! let field = Field::new("n", DataType::Int64, false);
//! let ty = avro_type(&field, "Row", &mut vec!["Row".to_string()])?;
//! assert_eq!(ty.to_json().to_string(), "\"long\"");
//! let column = Int64Array::from(vec![7, -1]);
//! let encode = encoder(&column, field.is_nullable())?;
//! let mut bytes = Vec::new();
//! encode(1, &mut bytes)?;
//! assert_eq!(bytes, [1]);
//! # Ok::<(), String>(())
//! ```

mod decode;
mod encode;
mod types;

pub use decode::RowDecoder;
pub use encode::{encoder, raw_encoder};
pub use types::{avro_type, check_names};

/// The error is the reason why a type or a value cannot be encoded.
pub type Result<T> = std::result::Result<T, String>;

/// Appends the value of a row of a column to a buffer.
pub type Encoder<'a> = Box<dyn Fn(usize, &mut Vec<u8>) -> Result<()> + 'a>;
