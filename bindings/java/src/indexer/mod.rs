//! Indexes and their feeds.

pub mod feed;
pub mod index;
mod slot;
