//! Arrow data in and out, through the PyCapsule interface: no package of Python is needed, and
//! pyarrow, pandas, polars and duckdb all speak it.
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

pub mod capsule;
pub mod keys;
pub mod scalars;
pub mod stream;
pub mod values;
