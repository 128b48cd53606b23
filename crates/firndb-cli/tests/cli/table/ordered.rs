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
    assert_eq!(keys("--from key-3 --to key-2"), "");
    assert_eq!(keys("--to key-1 --prefix key-09 --reverse --limit 2"), "key-099\nkey-098\n");
    assert_eq!(keys("--prefix key-49 --limit 0"), "");
    let list = |args: &str| sandbox.firn(&format!("table list t {args}")).ok().out;
    assert_eq!(list("--from key-498"), "key-498\nkey-499\n");
    assert_eq!(list("--hex --prefix 6b65792d3039 --reverse --limit 1"), "key-099\n");
    sandbox.firn("table list t --hex --prefix 6b6").fails(2, "hex");
    let json = sandbox.firn("table scan t --prefix key-01 --reverse --limit 1 --json").ok().json();
    assert_eq!(json, [serde_json::json!({ "key": "key-019", "value": "value of 19" })]);
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
    for wanted in ["--prefix key-49", "--from key-1", "--to key-2", "--reverse"] {
        sandbox.firn(&format!("table scan hashed {wanted}")).fails(2, "--order key");
        sandbox.firn(&format!("table list hashed {wanted}")).fails(2, "--order key");
    }
    assert_eq!(sandbox.firn("table scan hashed").ok().out.lines().count(), 500);
    sandbox.firn("table build -i plain.txt -o a -a --order key").fails(2, "cannot be used with");
}

#[test]
fn binary_keys_have_their_order() {
    let sandbox = Sandbox::new();
    sandbox.write("keys.txt", b"\xff\xff 1\n\xff 2\n\x80 3\n\x7f 4\n\xff\x00 5\na 6\n");
    sandbox.firn("table build keys.txt -o t --order key --metadata binary").ok();
    let values = |args: &str| -> String {
        let rows = sandbox.firn(&format!("table scan t {args} --json")).ok().json();
        rows.iter().map(|row| row["value"].as_str().unwrap()).collect()
    };
    assert_eq!(values(""), "643251");
    assert_eq!(values("--hex --prefix ff"), "251");
    assert_eq!(values("--hex --prefix ff --reverse"), "152");
    assert_eq!(values("--hex --from 7f --to ff00"), "432");
    assert_eq!(values("--hex --from ff00"), "51");
    assert_eq!(values("--to b"), "6");
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
