//! Every order of turns of the threads of each scenario; and bugs on purpose, each of which must be
//! noticed.

use firndb_model::log::scenarios::{FAILPOINTS, SCENARIOS, explore};

#[test]
fn readers_beside_the_writer_see_what_is_there_in_every_order() {
    for (name, _) in SCENARIOS {
        let start = std::time::Instant::now();
        let orders = explore(name, None).unwrap_or_else(|what| panic!("{name}: {what}"));
        println!("model: {name}: orders={orders} wrong=0, {:.1} s", start.elapsed().as_secs_f64());
        assert!(orders > 100, "{name}: {orders} orders");
    }
}

#[test]
fn bugs_on_purpose_are_noticed() {
    for (bug, name) in FAILPOINTS {
        match explore(name, Some(bug)) {
            Ok(orders) => panic!("{bug} went unnoticed in {orders} orders of: {name}"),
            Err(what) => println!("{bug}: {what}"),
        }
    }
}
