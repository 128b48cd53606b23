//! The text forms that users see, and how they are parsed.
//!
//! `lexer` splits query text into tokens, `parse/` is the recursive-descent parser of queries,
//! filters and orders. `schema_toml` reads and writes schemas as TOML, `page_token` reads and
//! writes page tokens. `diagnostics` suggests corrections and shows where in the text an error is.
//! All of them produce or consume the plain data of `model/`.

pub(crate) mod diagnostics;
pub(crate) mod lexer;
pub(crate) mod page_token;
pub(crate) mod parse;
pub(crate) mod schema_toml;
