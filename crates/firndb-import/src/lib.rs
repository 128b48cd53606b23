//! Reads the stores of other engines, so that their data can be imported into FirnDB.
//!
//! A store is read in two steps: opening it checks every byte and reports what is damaged or lost,
//! so that the caller can decide before anything is written; then the live records are iterated.
//! The directory of the other engine is never written to.
//!
//! ```no_run
//! use firndb::log::LogStore;
//! use firndb_import::halodb::HaloDb;
//!
//! let halodb = HaloDb::open("/var/lib/users")?;
//! let report = halodb.report();
//! if report.is_incomplete() {
//!     eprintln!("{} keys are lost", report.lost_keys());
//! }
//! let store = LogStore::open(std::path::Path::new("users"))?;
//! let mut records = halodb.records();
//! while let Some((key, value)) = records.next_record()? {
//!     store.put(key, value)?;
//! }
//! store.close()?;
//! # Ok::<(), firndb::Error>(())
//! ```

pub mod halodb;
