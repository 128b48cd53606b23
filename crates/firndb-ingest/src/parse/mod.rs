//! Parsers of formats, and what protects them from damaged inputs.

pub(crate) mod columnar;
pub(crate) mod csv;
pub(crate) mod ipc;
pub(crate) mod json_lines;
