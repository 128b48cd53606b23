//! Tests of tables in key order. `model.rs` compares random tables with a map. `builds.rs` has
//! builds that write while records are added: power loss, failing calls, records out of order.
//! `large.rs` has builds of more records than decide about the layout, and their memory. `reads.rs`
//! counts reads and tries extreme records. Damaged files are in `../corrupt.rs` and `../forged.rs`.

mod builds;
mod large;
mod model;
mod reads;

use super::*;
use crate::table::Order;

/// Options of tables in key order.
fn ordered() -> BuildOptions {
    BuildOptions::new().order(Order::Key)
}
