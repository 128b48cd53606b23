//! Parsers of text formats.

pub(crate) mod csv;
pub(crate) mod json_lines;
