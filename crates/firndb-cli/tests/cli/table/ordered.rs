//! Tables in key order: ranges and prefixes in both directions, and freezing a log store into one.

use crate::Sandbox;

#[test]
fn ranges_of_a_table_in_key_order_are_printed() {
    let sandbox = Sandbox::new();
    let text: String = (0..500).rev().map(|i| format!("key-{i:03} value of {i}\n")).collect();
    sandbox.write("plain.txt", &text);
    sandbox.firn("table build -i plain.txt -o t --order key --filter 8").ok();
    let keys = |args: &str| sandbox.firn(&format!("table scan t --keys-only {args}")).ok().out;
    assert_eq!(keys("--prefix key-49 --limit 2"), "key-490\nkey-491\n");
    assert_eq!(keys("--prefix key-49 --limit 2 --reverse"), "key-499\nkey-498\n");
    assert_eq!(keys("--from key-1225 --to key-125"), "key-123\nkey-124\n");
    assert_eq!(keys("--reverse --limit 1"), "key-499\n");
    assert_eq!(keys("--hex --to 6b65792d303032"), "key-000\nkey-001\n");
    assert_eq!(keys("--prefix other"), "");
    assert_eq!(keys("--limit 1"), "key-000\n");
    assert_eq!(sandbox.firn("table get t key-017").ok().out, "value of 17\n");
    let stats = sandbox.firn("table stats t --json").ok().json();
    assert_eq!(stats[0]["order"], "key");
    sandbox.firn("table verify t").ok();
    // The input in key order gives the same bytes.
    let sorted: String = text.lines().rev().map(|line| format!("{line}\n")).collect();
    sandbox.write("sorted.txt", &sorted);
    sandbox.firn("table build -i sorted.txt -o again --order key --filter 8").ok();
    let bytes = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    assert!(bytes("t") == bytes("again"));

    sandbox.firn("table build -i plain.txt -o hashed").ok();
    sandbox.firn("table scan hashed --prefix key-49").fails(2, "--order key");
}

#[test]
fn a_log_store_is_frozen_in_key_order() {
    let sandbox = Sandbox::new();
    for key in ["pear", "apple", "quince"] {
        sandbox.firn(&format!("log put s {key} of-{key}")).ok();
    }
    sandbox.firn("log freeze s -o frozen --order key").ok();
    let out = sandbox.firn("table scan frozen --from b --keys-only").ok().out;
    assert_eq!(out, "pear\nquince\n");
}
