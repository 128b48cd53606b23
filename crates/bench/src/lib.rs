//! Benchmarks of FirnDB against its peers ([`search`], [`table`], [`log`] and [`ordered`]), and of
//! the Indexer ([`index`]), for which there is no peer. [`scale`] measures one log store of any
//! size. [`serve`] and [`bindings`] measure the server and the packages for other languages.
//!
//! Engines are child processes that speak the protocol of `firndb-bench-protocol`: FirnDB's stores,
//! a floor of bare arrays, and the programs below `peers/` (found and built by [`peers`], driven
//! through [`child`]). Answers are compared before any time is reported. The pages
//! `docs/benchmarks-*.md` are what this program prints, with notes on the run added.

pub mod bindings;
pub mod bound;
pub mod chart;
pub mod child;
pub mod fio;
pub mod index;
pub mod log;
pub mod machine;
pub mod ordered;
pub mod outputs;
pub mod page;
pub mod peers;
pub mod scale;
pub mod search;
pub mod serve;
pub mod table;
pub mod units;
