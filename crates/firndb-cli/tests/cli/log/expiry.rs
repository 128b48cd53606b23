//! Expiry on the command line: records are shown, dumped, loaded again, frozen.

use super::{Sandbox, content};
use serde_json::{Value as Json, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Long enough for the slowest machine.
const LATER: u64 = 4_102_444_800_000;

/// The expiry times of the records of a store, by key, as `scan` prints them.
fn times(sandbox: &Sandbox, store: &str) -> Vec<(String, Option<u64>)> {
    let records = sandbox.firn(&format!("log scan {store} --json")).ok().json();
    let time = |r: &Json| (r["key"].as_str().unwrap().to_string(), r["expires_at"].as_u64());
    let mut times: Vec<_> = records.iter().map(time).collect();
    times.sort();
    times
}

/// A store `s` of one record without expiry and several with.
fn expiring() -> Sandbox {
    let sandbox = Sandbox::new();
    let line = |key: &str, time: &str| {
        format!("{{\"key\":\"{key}\",\"value\":\"v\",\"expires_at\":{time}}}\n")
    };
    let times = [LATER.to_string(), u64::MAX.to_string(), "null".to_string()];
    let lines: String = ["a", "b", "c"].iter().zip(&times).map(|(key, t)| line(key, t)).collect();
    sandbox.firn_with("log load s", lines.as_bytes()).ok();
    sandbox
}

fn all() -> Vec<(String, Option<u64>)> {
    [("a", Some(LATER)), ("b", Some(u64::MAX)), ("c", None)].map(|(k, t)| (k.into(), t)).to_vec()
}

#[test]
fn expiry_times_are_printed() {
    let sandbox = Sandbox::new();
    let before = now();
    let run = sandbox.firn("log put s k v --ttl 7d --sync").ok();
    assert!(run.out.starts_with("Put 1 B at `k`, which expires at 20"), "{}", run.out);
    let week = Duration::from_secs(7 * 86_400).as_millis() as u64;
    let time = sandbox.firn("log get s k --json").ok().json()[0]["expires_at"].as_u64().unwrap();
    assert!((before + week..=now() + week).contains(&time), "{time}");
    let put = sandbox.firn("log put s k v --ttl 12h --json").ok().json()[0].clone();
    assert_eq!(put["expires_at"], sandbox.firn("log get s k --json").ok().json()[0]["expires_at"]);
    assert_eq!(sandbox.firn("log put s k v").ok().out, "Put 1 B at `k`.\n");
    let json = sandbox.firn("log get s k --json").ok().json();
    assert_eq!(json[0], json!({ "key": "k", "found": true, "value": "v" }));
    // The largest expiry time, and none at all.
    let large = format!("log put s k v --ttl {}ms", u64::MAX);
    assert!(sandbox.firn(&large).ok().out.contains("which expires at"));
    assert_eq!(times(&sandbox, "s"), [("k".to_string(), Some(u64::MAX))]);
    sandbox.firn("log put s k v --ttl 0s").ok();
    sandbox.firn("log get s k").fails(3, "there is no key");
}

#[test]
fn a_loaded_dump_keeps_expiry_times() {
    let sandbox = expiring();
    assert_eq!(times(&sandbox, "s"), all());
    for (n, options) in ["", "--hex", "-o d.jsonl", "-o d.jsonl.zst --hex"].iter().enumerate() {
        let dump = sandbox.firn(&format!("log dump s {options}")).ok();
        assert_eq!(dump.err, "");
        match options.contains("-o") {
            true => sandbox.firn(&format!("log load t{n} {}", &options[3..].replace("--hex", ""))),
            false => sandbox.firn_with(&format!("log load t{n}"), dump.out.as_bytes()),
        }
        .ok();
        assert_eq!(times(&sandbox, &format!("t{n}")), all(), "{options}");
    }
    // After a compaction, a backup and a repair.
    sandbox.firn("log compact s --threshold 0").ok();
    sandbox.firn("log backup s -o b").ok();
    sandbox.firn("log repair b -o r").ok();
    for store in ["s", "b", "r"] {
        assert_eq!(times(&sandbox, store), all(), "{store}");
    }
    // --ttl applies to records that have no time of their own.
    let dump = sandbox.firn("log dump s").ok().out;
    sandbox.firn_with("log load u --ttl 7d", dump.as_bytes()).ok();
    let of_u = times(&sandbox, "u");
    assert_eq!(of_u[..2], all()[..2]);
    assert!(of_u[2].1.is_some_and(|time| time < LATER));
}

#[test]
fn short_lived_records_expire_in_the_loaded_copy_too() {
    let sandbox = Sandbox::new();
    sandbox.firn("log put s session token --ttl 1500ms").ok();
    let dump = sandbox.firn("log dump s").ok();
    let dumped = now();
    sandbox.firn_with("log load s2", dump.out.as_bytes()).ok();
    std::thread::sleep(Duration::from_millis(1600));
    sandbox.firn("log get s session").fails(3, "session");
    sandbox.firn("log get s2 session").fails(3, "session");
    let time = dump.json()[0]["expires_at"].as_u64().unwrap();
    assert!(time <= dumped + 1500);
}

#[test]
fn formats_without_expiry_lose_no_time_silently() {
    let sandbox = expiring();
    for form in ["--format text", "--format csv", "--format text --hex", "-o d.csv", "-o d.txt"] {
        let run = sandbox.firn(&format!("log dump s {form}")).fails(2, "--without-expiry");
        assert!(run.err.contains("the record of `a` expires"), "{}", run.err);
    }
    assert!(!sandbox.path("d.csv").exists());
    for form in ["--format text", "--format csv", ""] {
        let run = sandbox.firn(&format!("log dump s --without-expiry {form}")).ok();
        assert!(run.err.contains("the expiry times of 2 records were not written"), "{}", run.err);
        assert!(!run.out.contains("expires_at"), "{}", run.out);
    }
    let json = sandbox.firn("log dump s -o d.csv --without-expiry --json").ok();
    assert_eq!((json.json()[0]["without_expiry"].as_u64(), json.err.as_str()), (Some(2), ""));
    let run = sandbox.firn("log dump s -o d.csv --without-expiry --force").ok();
    assert!(run.err.contains("loaded again, they do not expire"), "{}", run.err);
    sandbox.firn("log load t d.csv").ok();
    assert_eq!(content(&sandbox, "t"), content(&sandbox, "s"));
    assert!(times(&sandbox, "t").iter().all(|(_, time)| time.is_none()));
}

#[test]
fn expired_records_are_counted_and_not_stored() {
    let sandbox = Sandbox::new();
    let lines = format!(
        "{{\"key\":\"a\",\"value\":\"1\"}}\n\
         {{\"key\":\"a\",\"value\":\"2\",\"expires_at\":{}}}\n\
         {{\"key\":\"b\",\"value\":\"3\",\"expires_at\":0}}\n\
         {{\"key\":\"c\",\"value\":\"4\",\"expires_at\":{LATER}}}\n\
         {{\"key\":\"d\",\"value\":\"5\",\"expires_at\":-7}}\n",
        now()
    );
    let json = sandbox.firn_with("log load s --json", lines.as_bytes()).ok().json()[0].clone();
    let counts = ["rows", "records", "new", "replaced", "expired"].map(|name| json[name].as_u64());
    assert_eq!(counts, [5, 2, 2, 0, 3].map(Some));
    // The last row of a key wins: if it has expired, an older value does not come back.
    assert_eq!(times(&sandbox, "s"), [("c".to_string(), Some(LATER))]);
    let run = sandbox.firn_with("log load s", lines.as_bytes()).ok();
    let expected = "s: 5 rows read, 2 records put (1 new, 1 replaced), 3 expired, ";
    assert!(run.out.starts_with(expected), "{}", run.out);
    for time in ["\"soon\"", "1.5", "true", "18446744073709551616"] {
        let line = format!("{{\"key\":\"x\",\"value\":\"1\",\"expires_at\":{time}}}\n");
        sandbox.firn_with("log load s", line.as_bytes()).fails(2, "is not a time");
    }
}

#[test]
fn a_user_column_named_expires_at_is_data() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,expires_at\n1,0\n2,soon\n");
    sandbox.write(
        "a.jsonl",
        "{\"id\":3,\"expires_at\":0}\n{\"key\":4,\"id\":4,\"expires_at\":\"x\"}\n",
    );
    sandbox.firn("log load s a.csv a.jsonl --key id").ok();
    for (key, value) in [("1", "0"), ("2", "soon"), ("3", "{\"expires_at\":0}")] {
        assert_eq!(sandbox.firn(&format!("log get s {key}")).ok().out, format!("{value}\n"));
    }
    assert_eq!(sandbox.firn("log get s 4").ok().out, "{\"key\":4,\"expires_at\":\"x\"}\n");
    sandbox.write("b.csv", "key,value,expires_at\nk,v,0\n");
    sandbox.firn("log load s b.csv").ok();
    assert_eq!(sandbox.firn("log get s k").ok().out, "{\"value\":\"v\",\"expires_at\":0}\n");
    assert!(times(&sandbox, "s").iter().all(|(_, time)| time.is_none()));
}

#[test]
fn freeze_skips_expired_records_and_counts_expiring_ones() {
    let sandbox = expiring();
    for key in ["x", "y"] {
        sandbox.firn(&format!("log put s {key} v --ttl 0s")).ok();
    }
    let json = sandbox.firn("log freeze s -o t.firn --json").ok().json()[0].clone();
    let counts = ["records", "expired", "without_expiry"].map(|name| json[name].as_u64());
    assert_eq!(counts, [3, 2, 2].map(Some));
    assert_eq!(sandbox.firn("table scan t.firn").ok().out.lines().count(), 3);
    let run = sandbox.firn("log freeze s -o u.firn").ok();
    let notes = "3 records (2 expired records left out, 2 without the time to expire at), ";
    assert!(run.out.contains(notes), "{}", run.out);
    let json = sandbox.firn("log dump s -o d.jsonl --json").ok().json()[0].clone();
    assert_eq!((json["records"].as_u64(), json["expired"].as_u64()), (Some(3), Some(2)));
    let run = sandbox.firn("log dump s -o e.jsonl").ok();
    assert!(run.out.contains("3 records (2 expired), "), "{}", run.out);
    // Nothing is reported if no record expires.
    sandbox.firn("log put plain k v").ok();
    let run = sandbox.firn("log freeze plain -o v.firn").ok();
    assert!(run.out.contains(": 1 record, "), "{}", run.out);
}
