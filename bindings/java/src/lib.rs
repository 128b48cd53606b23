//! The native part of the Java library `io.firndb`.
//!
//! It converts between Java and the public API of FirnDB, and has no logic of its own. What is
//! natural in Java (options, iterators, streams, futures) is written in Java, in `src/main/java`.
//!
//! - Every native method is in the table of `native`, and runs inside one wrapper, which turns
//!   errors and panics into exceptions.
//! - Java refers to an open object by a `handle`: a number that is looked up for each call. A
//!   call after, or during, a close is an exception and never touches freed memory.
//! - Bytes are copied at the boundary (`convert`): Java code never sees a map of a file, and the
//!   library never keeps a reference to memory of the JVM.
//! - No thread of the library enters the JVM. Java code runs only inside calls that take a
//!   callback, on the thread of the caller.

mod approximate;
mod building;
mod catalog;
mod convert;
mod error;
mod handle;
mod indexer;
mod log;
mod lookup;
mod native;
mod search;
mod sharded;
mod table;
