//! Tests of the table.

mod basic;
