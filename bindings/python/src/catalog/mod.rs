//! Catalogs and their readers.

pub mod store;
pub mod generation;
pub mod interrupt;
pub mod origin;
pub mod reader;
pub mod values;
