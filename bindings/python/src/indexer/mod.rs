//! Indexers and their feeds.

pub mod document;
pub mod feed;
pub mod index;
pub mod slot;
