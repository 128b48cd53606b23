//! Runs each scenario in every interleaving of its threads, and checks that each failpoint is
//! detected.

use firndb_model::log::scenarios::{FAILPOINTS, SCENARIOS, explore};

#[test]
fn readers_see_present_entries_in_every_interleaving() {
    for (name, _) in SCENARIOS {
        let start = std::time::Instant::now();
        let orders = explore(name, None).unwrap_or_else(|what| panic!("{name}: {what}"));
        println!("model: {name}: orders={orders} wrong=0, {:.1} s", start.elapsed().as_secs_f64());
        assert!(orders > 100, "{name}: {orders} orders");
    }
}

#[test]
fn failpoints_are_detected() {
    for (failpoint, name) in FAILPOINTS {
        match explore(name, Some(failpoint)) {
            Ok(orders) => panic!("{failpoint} went unnoticed in {orders} orders of: {name}"),
            Err(what) => println!("{failpoint}: {what}"),
        }
    }
}
