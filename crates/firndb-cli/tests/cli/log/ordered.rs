//! Ordered stores: scans in the order of keys.

use crate::Sandbox;

/// An ordered store `s` and another one `u` with the keys a1, a2, b1, b2 and c1.
fn stores() -> Sandbox {
    let sandbox = Sandbox::new();
    for key in ["b2", "a1", "c1", "a2", "b1"] {
        sandbox.firn(&format!("log put s {key} v-{key} --ordered")).ok();
        sandbox.firn(&format!("log put u {key} v-{key}")).ok();
    }
    sandbox
}

fn keys(sandbox: &Sandbox, command: &str) -> Vec<String> {
    sandbox.firn(command).ok().out.lines().map(str::to_string).collect()
}

#[test]
fn keys_come_in_order() {
    let sandbox = stores();
    assert_eq!(keys(&sandbox, "log list s"), ["a1", "a2", "b1", "b2", "c1"]);
    assert_eq!(keys(&sandbox, "log list s --reverse --limit 2"), ["c1", "b2"]);
    assert_eq!(keys(&sandbox, "log list s --prefix b"), ["b1", "b2"]);
    assert_eq!(keys(&sandbox, "log list s --from a2 --to b2"), ["a2", "b1"]);
    assert_eq!(keys(&sandbox, "log list s --from b2 --to a2"), [""; 0]);
    assert_eq!(keys(&sandbox, "log list s --hex --prefix 62 --reverse"), ["6232", "6231"]);
    let scanned = sandbox.firn("log scan s --from b --reverse --limit 1").ok().out;
    assert_eq!(scanned, "c1\tv-c1\n");
    sandbox.firn("log put s b1 again").ok();
    sandbox.firn("log delete s a2").ok();
    assert_eq!(sandbox.firn("log scan s --to b2").ok().out, "a1\tv-a1\nb1\tagain\n");
}

#[test]
fn other_stores_have_prefixes_and_no_order() {
    let sandbox = stores();
    let mut found = keys(&sandbox, "log list u --prefix b");
    found.sort_unstable();
    assert_eq!(found, ["b1", "b2"]);
    assert_eq!(keys(&sandbox, "log list u --prefix 61 --hex").len(), 2);
    for option in ["--from a2", "--to b2", "--reverse", "--prefix b --reverse"] {
        sandbox.firn(&format!("log scan u {option}")).fails(2, "need an ordered store");
        sandbox.firn(&format!("log list u {option}")).fails(2, "firn log load --ordered");
    }
    sandbox.firn("log put u k v --ordered").fails(2, "ordered");
    assert_eq!(keys(&sandbox, "log list u").len(), 5, "nothing was written");
}

#[test]
fn lines_are_loaded_into_an_ordered_store() {
    let sandbox = Sandbox::new();
    let lines: String = (0..2000).map(|n| format!("{}\t{n}\n", n * 7919 % 10_007)).collect();
    sandbox.write("lines.txt", lines);
    sandbox.firn("log load s lines.txt --ordered --segment-size 16K").ok();
    let found = keys(&sandbox, "log list s");
    assert_eq!(found.len(), 2000);
    assert!(found.is_sorted());
    sandbox.firn("log verify s").ok();
    sandbox.firn("log compact s --threshold 0").ok();
    assert_eq!(keys(&sandbox, "log list s"), found);
    // Every copy of the store is ordered.
    for copy in [
        "log backup s -o backup",
        "log restore backup -o restored",
        "log repair s -o repaired",
        "log export s -o s.jsonl",
        "log load loaded s.jsonl --ordered",
        "log freeze s -o s.firn --order key",
    ] {
        sandbox.firn(copy).ok();
    }
    let reversed: Vec<String> = found.iter().rev().cloned().collect();
    for copy in ["log list backup", "log list restored", "log list repaired", "log list loaded"] {
        assert_eq!(keys(&sandbox, &format!("{copy} --reverse")), reversed, "{copy}");
    }
    assert_eq!(keys(&sandbox, "table scan s.firn --reverse --keys-only"), reversed);
    assert_eq!(sandbox.firn("log stats restored --json").ok().json()[0]["ordered"], true);
}
