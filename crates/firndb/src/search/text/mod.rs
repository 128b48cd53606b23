//! The text forms: queries, schemas and page tokens, and the diagnostics of their errors.

pub(crate) mod diagnostics;
pub(crate) mod lexer;
pub(crate) mod page_token;
pub(crate) mod parse;
pub(crate) mod schema_toml;
