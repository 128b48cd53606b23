//! The command line of FirnDB.

fn main() {}
