//! Parsers of formats, and their protection against damaged inputs.

pub(crate) mod columnar;
pub(crate) mod csv;
pub(crate) mod ipc;
pub(crate) mod json_lines;
