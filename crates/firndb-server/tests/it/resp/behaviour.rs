//! What differs from other servers with this protocol on purpose, or went wrong in them.

use super::{Raw, address, command, start, two_logs};
use crate::support::{Dir, TestServer};
use firndb::log::LogStore;
use firndb::table::{BuildOptions, TableBuilder};
use firndb_server::config::{Config, TableOptions, Tls, TokenSource};
use std::collections::BTreeSet;
use std::time::Duration;

fn server() -> TestServer {
    let dir = Dir::new();
    let config = two_logs(&dir);
    start(dir, config)
}

/// The cursor and the keys of a SCAN.
fn scan(raw: &mut Raw, words: &[&str]) -> (String, Vec<String>) {
    let reply = raw.call(words);
    assert!(reply.starts_with("*2\r\n"), "{words:?}: {reply}");
    let lines: Vec<&str> = reply.split("\r\n").collect();
    let keys = lines[4..].iter().skip(1).step_by(2).filter(|key| !key.is_empty());
    (lines[2].to_string(), keys.map(|key| key.to_string()).collect())
}

/// All keys of a scan that takes several pages.
fn scan_all(raw: &mut Raw, options: &[&str]) -> Vec<String> {
    let (mut cursor, mut all) = ("0".to_string(), Vec::new());
    loop {
        let words = [&["SCAN", &cursor], options].concat();
        let (next, keys) = scan(raw, &words);
        assert!(next.parse::<u64>().unwrap() < 1 << 63);
        all.extend(keys);
        if next == "0" {
            return all;
        }
        cursor = next;
    }
}

#[test]
fn a_scan_goes_on_after_a_restart_and_a_compaction() {
    let dir = Dir::new();
    let config = two_logs(&dir);
    let first = start(dir, config.clone());
    let mut raw = Raw::connect(address(&first));
    for n in 0..500 {
        raw.call(&["SET", &format!("key:{n}"), "value"]);
    }
    raw.call(&["SET", "old", "value", "PXAT", "1"]);
    let (cursor, mut keys) = scan(&mut raw, &["SCAN", "0", "COUNT", "50"]);
    assert!((40..=60).contains(&keys.len()) && cursor != "0");
    drop(raw);
    // The directory stays while the server ends.
    let mut first = first;
    let mut running = first.server.take().unwrap();
    first.runtime.block_on(running.stop()).unwrap();
    let store = LogStore::open(first.dir.path().join("a")).unwrap();
    store.compact(0.0).unwrap();
    store.close().unwrap();
    let second = start(Dir::new(), config);
    let mut raw = Raw::connect(address(&second));
    let mut next = cursor;
    while next != "0" {
        let (following, more) = scan(&mut raw, &["SCAN", &next, "COUNT", "50"]);
        keys.extend(more);
        next = following;
    }
    let all: BTreeSet<String> = (0..500).map(|n| format!("key:{n}")).collect();
    assert_eq!(keys.len(), 500);
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), all);
}

#[test]
fn scans_show_no_expired_keys_and_take_any_count() {
    let server = server();
    let mut raw = Raw::connect(address(&server));
    for n in 0..300 {
        let key = format!("key:{n}");
        match n % 3 {
            0 => raw.call(&["SET", &key, "value", "PX", "1"]),
            _ => raw.call(&["SET", &key, "value"]),
        };
    }
    std::thread::sleep(Duration::from_millis(5));
    for count in ["1", "7", "1000", "9223372036854775807"] {
        assert_eq!(scan_all(&mut raw, &["COUNT", count]).len(), 200, "{count}");
    }
    assert_eq!(scan_all(&mut raw, &["MATCH", "key:1?"]).len(), 7);
    assert!(raw.call(&["KEYS", "*"]).starts_with("*200\r\n"));
    assert!(scan_all(&mut raw, &["TYPE", "hash"]).is_empty());
    for wrong in ["9223372036854775808", "-1", "x", "18446744073709551616"] {
        assert_eq!(raw.call(&["SCAN", wrong]), "-ERR invalid cursor\r\n");
    }
    let key = raw.call(&["RANDOMKEY"]);
    assert!(key.contains("key:"), "{key}");
    assert_eq!(raw.call(&["SELECT", "1"]), "+OK\r\n");
    assert_eq!(raw.call(&["RANDOMKEY"]), "$-1\r\n");
}

#[test]
fn scans_of_an_ordered_store_go_in_the_order_of_hashes() {
    let dir = Dir::new();
    let mut config = two_logs(&dir);
    config.logs.get_mut("a").unwrap().ordered = true;
    let server = start(dir, config);
    let mut raw = Raw::connect(address(&server));
    let sorted: Vec<String> = (100..400).map(|n| format!("key:{n}")).collect();
    for key in &sorted {
        raw.call(&["SET", key, "value"]);
    }
    let mut keys = scan_all(&mut raw, &["COUNT", "20"]);
    assert!(!keys.is_sorted());
    keys.sort_unstable();
    assert_eq!(keys, sorted);
}

#[test]
fn hello_has_all_that_clients_look_for() {
    let server = server();
    let mut raw = Raw::connect(address(&server));
    let two = raw.call(&["HELLO"]);
    assert!(two.starts_with("*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15"));
    let three = raw.call(&["HELLO", "3", "SETNAME", "me"]);
    assert!(three.starts_with("%7\r\n") && three.contains("$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:"));
    let end = "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
               $7\r\nmodules\r\n*0\r\n";
    assert!(three.ends_with(end), "{three}");
    assert_eq!(raw.call(&["CLIENT", "GETNAME"]), "$2\r\nme\r\n");
    assert_eq!(raw.call(&["CLIENT", "SETINFO", "LIB-NAME", "x"]), "+OK\r\n");
    assert!(
        raw.call(&["CLIENT", "INFO"]).contains("name=me age=0 db=0 multi=-1 resp=3 lib-name=x")
    );
    let info = raw.call(&["INFO"]);
    assert!(info.starts_with("=") && info.contains("txt:# Server\r\nredis_version:7.0.15\r\n"));
    assert!(info.contains("loading:0\r\n") && info.contains("role:master\r\n"));
    assert!(raw.call(&["INFO", "clients"]).contains("connected_clients:1\r\n"));
    assert_eq!(raw.call(&["CONFIG", "GET", "save"]), "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
    assert_eq!(raw.call(&["RESET"]), "+RESET\r\n");
    assert_eq!(raw.call(&["CLIENT", "GETNAME"]), "$-1\r\n");
}

#[test]
fn ttl_is_rounded_to_the_nearest_second() {
    let server = server();
    let mut raw = Raw::connect(address(&server));
    for (millis, seconds) in [("10400", ":10\r\n"), ("10900", ":11\r\n")] {
        raw.call(&["SET", "a", "1", "PX", millis]);
        assert_eq!(raw.call(&["TTL", "a"]), seconds);
    }
    raw.call(&["SET", "a", "1", "PXAT", "4000000000500"]);
    assert_eq!(raw.call(&["EXPIRETIME", "a"]), ":4000000001\r\n");
    assert_eq!(raw.call(&["PEXPIRETIME", "a"]), ":4000000000500\r\n");
}

#[test]
fn replies_can_be_switched_off() {
    let server = server();
    let mut raw = Raw::connect(address(&server));
    raw.send(b"CLIENT REPLY SKIP\r\nSET a 1\r\nGET a\r\n");
    assert_eq!(raw.reply(), b"$1\r\n1\r\n");
    raw.send(b"CLIENT REPLY OFF\r\nINCR a\r\nINCR a\r\nNOSUCH\r\nCLIENT REPLY ON\r\nGET a\r\n");
    assert_eq!(raw.reply(), b"+OK\r\n");
    assert_eq!(raw.reply(), b"$1\r\n3\r\n");
}

#[test]
fn increments_and_transactions_of_many_clients_lose_nothing() {
    let server = server();
    let at = address(&server);
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            std::thread::spawn(move || {
                let mut raw = Raw::connect(at);
                for n in 0..100 {
                    // Pipelined, in a transaction, and alone.
                    raw.send(&command(&[b"INCR", b"n"]).repeat(5));
                    (0..5).for_each(|_| assert!(raw.reply().starts_with(b":")));
                    raw.call(&["MULTI"]);
                    raw.call(&["INCR", "n"]);
                    raw.call(&["DECR", "m"]);
                    assert!(raw.call(&["EXEC"]).starts_with("*2\r\n:"), "{thread} {n}");
                    raw.call(&["INCR", "n"]);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut raw = Raw::connect(at);
    assert_eq!(raw.call(&["MGET", "n", "m"]), "*2\r\n$4\r\n5600\r\n$4\r\n-800\r\n");
}

#[test]
fn a_transaction_shows_all_keys_as_they_were_at_one_moment() {
    let server = server();
    let at = address(&server);
    Raw::connect(at).call(&["MSET", "x", "0", "y", "0"]);
    let writer = std::thread::spawn(move || {
        let mut raw = Raw::connect(at);
        for n in 0..2000 {
            let n = n.to_string();
            assert_eq!(raw.call(&["MSET", "x", &n, "y", &n]), "+OK\r\n");
        }
    });
    let mut raw = Raw::connect(at);
    while !writer.is_finished() {
        raw.send(b"MULTI\r\nGET x\r\nGET y\r\nEXEC\r\n");
        (0..3).for_each(|_| drop(raw.reply()));
        let both = String::from_utf8(raw.reply()).unwrap();
        let values = both.strip_prefix("*2\r\n").unwrap();
        let (x, y) = values.split_at(values.len() / 2);
        assert_eq!(x, y);
    }
    writer.join().unwrap();
}

#[test]
fn writes_of_a_synced_store_and_mixed_pipelines_keep_their_order() {
    let dir = Dir::new();
    let mut config = two_logs(&dir);
    config.logs.get_mut("a").unwrap().sync = true;
    let server = start(dir, config);
    let mut raw = Raw::connect(address(&server));
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    for n in 0..300 {
        let value = n.to_string();
        sent.extend(command(&[b"SET", b"a", value.as_bytes()]));
        expected.extend(b"+OK\r\n");
        if n % 3 == 0 {
            sent.extend(command(&[b"GET", b"a"]));
            expected.extend(format!("${}\r\n{value}\r\n", value.len()).bytes());
        }
        if n % 50 == 0 {
            sent.extend(b"SELECT 1\r\nINCR n\r\nSELECT 0\r\nKEYS a\r\n");
            let count = n / 50 + 1;
            expected.extend(format!("+OK\r\n:{count}\r\n+OK\r\n*1\r\n$1\r\na\r\n").bytes());
        }
    }
    raw.send(&sent);
    let mut received = Vec::new();
    while received.len() < expected.len() {
        received.extend(raw.reply());
    }
    assert_eq!(String::from_utf8(received), String::from_utf8(expected));
}

#[test]
fn rows_of_tables_are_json() {
    let dir = Dir::new();
    let mut config = two_logs(&dir);
    let path = dir.path().join("table");
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"n","type":"long"}]}"#;
    let options = BuildOptions::new().value_schema(schema);
    let mut builder = TableBuilder::create_with(&path, options).unwrap();
    builder.add("a", [14]).unwrap();
    builder.add("b", [16]).unwrap();
    builder.finish().unwrap();
    config.tables.insert("t".to_string(), TableOptions { path, ..TableOptions::default() });
    config.redis.databases = vec!["t".to_string()];
    let server = start(dir, config);
    let mut raw = Raw::connect(address(&server));
    assert_eq!(raw.call(&["GET", "a"]), "$7\r\n{\"n\":7}\r\n");
    let both = "*3\r\n$7\r\n{\"n\":7}\r\n$-1\r\n$7\r\n{\"n\":8}\r\n";
    assert_eq!(raw.call(&["MGET", "a", "x", "b"]), both);
    raw.send(&[command(&[b"GET", b"a"]), command(&[b"STRLEN", b"b"])].concat());
    assert_eq!(raw.reply(), b"$7\r\n{\"n\":7}\r\n");
    assert_eq!(raw.reply(), b":7\r\n");
}

#[test]
fn tables_are_read_and_refuse_writes() {
    let dir = Dir::new();
    let mut config = two_logs(&dir);
    let path = dir.path().join("table");
    let mut builder = TableBuilder::create(&path).unwrap();
    for n in 0..1000 {
        builder.add(format!("key:{n}"), n.to_string()).unwrap();
    }
    builder.finish().unwrap();
    config.tables.insert("t".to_string(), TableOptions { path, ..TableOptions::default() });
    config.redis.databases = vec!["t".to_string(), "b".to_string()];
    let server = start(dir, config);
    let mut raw = Raw::connect(address(&server));
    assert_eq!(raw.call(&["GET", "key:7"]), "$1\r\n7\r\n");
    assert_eq!(raw.call(&["MGET", "key:1", "x", "key:12"]), "*3\r\n$1\r\n1\r\n$-1\r\n$2\r\n12\r\n");
    raw.send(&[command(&[b"GET", b"key:9"]), command(&[b"GET", b"x"])].concat());
    assert_eq!((raw.reply(), raw.reply()), (b"$1\r\n9\r\n".to_vec(), b"$-1\r\n".to_vec()));
    assert_eq!(raw.call(&["DBSIZE"]), ":1000\r\n");
    assert_eq!(raw.call(&["TTL", "key:1"]), ":-1\r\n");
    for words in [&["SET", "a", "1"][..], &["DEL", "key:1"], &["INCR", "a"], &["FLUSHDB"]] {
        let error = "-READONLY You can't write against a read only replica.\r\n";
        assert_eq!(raw.call(words), error, "{words:?}");
    }
    for count in ["1", "100", "5000"] {
        let keys = scan_all(&mut raw, &["COUNT", count]);
        assert_eq!(keys.len(), 1000);
        assert_eq!(keys.into_iter().collect::<BTreeSet<_>>().len(), 1000);
    }
    assert!(raw.call(&["RANDOMKEY"]).contains("key:"));
    raw.call(&["MULTI"]);
    raw.call(&["GET", "key:1"]);
    assert_eq!(raw.call(&["EXEC"]), "*1\r\n$1\r\n1\r\n");
    assert_eq!(raw.call(&["SELECT", "1"]), "+OK\r\n");
    assert_eq!(raw.call(&["SET", "a", "1"]), "+OK\r\n");
    assert_eq!(raw.call(&["SELECT", "2"]), "-ERR DB index is out of range\r\n");
}

#[test]
fn tokens_are_passwords_and_roles_apply_to_each_command() {
    let dir = Dir::new();
    let mut config: Config = two_logs(&dir);
    use firndb_server::auth::Role::{Admin, Read, Write};
    for (name, role) in [("read", Read), ("write", Write), ("admin", Admin)] {
        let file = dir.path().join(name);
        std::fs::write(&file, format!("{name}-0123456789abcdef\n")).unwrap();
        config.auth.tokens.push(TokenSource { role, file: Some(file), env: None });
    }
    let server = start(dir, config);
    let at = address(&server);
    let mut raw = Raw::connect(at);
    let needed = "-NOAUTH Authentication required.\r\n";
    for words in [&["GET", "a"][..], &["PING"], &["INFO"], &["COMMAND"], &["MULTI"]] {
        assert_eq!(raw.call(words), needed, "{words:?}");
    }
    assert!(raw.call(&["HELLO", "3"]).starts_with("-NOAUTH HELLO must be called"));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    assert_eq!(raw.call(&["AUTH", "read-0123456789abcdeF"]), wrong);
    assert_eq!(raw.call(&["HELLO", "2", "AUTH", "default", "no"]), wrong);
    assert_eq!(raw.call(&["AUTH", "read-0123456789abcdef"]), "+OK\r\n");
    assert_eq!(raw.call(&["GET", "a"]), "$-1\r\n");
    let refused = |name: &str| {
        format!("-NOPERM this user has no permissions to run the '{name}' command\r\n")
    };
    assert_eq!(raw.call(&["SET", "a", "1"]), refused("set"));
    assert_eq!(raw.call(&["AUTH", "default", "write-0123456789abcdef"]), "+OK\r\n");
    assert_eq!(raw.call(&["SET", "a", "1"]), "+OK\r\n");
    assert_eq!(raw.call(&["FLUSHDB"]), refused("flushdb"));
    let hello = ["HELLO", "3", "AUTH", "any", "admin-0123456789abcdef"];
    assert!(raw.call(&hello).starts_with("%7\r\n"));
    assert_eq!(raw.call(&["FLUSHDB"]), "+OK\r\n");
    assert_eq!(raw.call(&["DBSIZE"]), ":0\r\n");
    // A client that is not known yet may send little; then the same is allowed.
    let large = "x".repeat(20_000);
    let mut unknown = Raw::connect(at);
    unknown.send(&command(&[b"AUTH", large.as_bytes()]));
    let error = b"-ERR Protocol error: unauthenticated bulk length\r\n".to_vec();
    assert_eq!(unknown.rest(), Some(error));
    let mut known = Raw::connect(at);
    let auth = command(&[b"AUTH", b"write-0123456789abcdef"]);
    known.send(&[auth, command(&[b"SET", b"a", large.as_bytes()])].concat());
    assert_eq!((known.reply(), known.reply()), (b"+OK\r\n".to_vec(), b"+OK\r\n".to_vec()));
    // A token that is taken away ends the rights of its clients.
    let file = server.dir.path().join("write");
    std::fs::write(file, "another-0123456789abcdef\n").unwrap();
    server.server.as_ref().unwrap().reload();
    assert_eq!(known.call(&["GET", "a"]), needed);
}

#[test]
fn databases_and_flushdb_are_options() {
    let dir = Dir::new();
    let mut config = two_logs(&dir);
    config.redis.flushdb = false;
    config.redis.databases = vec!["nothing".to_string()];
    let message = config.check().unwrap_err().to_string();
    assert!(message.contains("`nothing`"), "{message}");
    config.redis.databases = vec!["b".to_string()];
    let server = start(dir, config);
    let mut raw = Raw::connect(address(&server));
    assert!(raw.call(&["FLUSHDB"]).starts_with("-ERR FLUSHDB is disabled"));
    assert_eq!(raw.call(&["SELECT", "1"]), "-ERR DB index is out of range\r\n");
    assert_eq!(raw.call(&["CONFIG", "GET", "databases"]), "*2\r\n$9\r\ndatabases\r\n$1\r\n1\r\n");
    let metrics = server.client.get(server.url("/metrics")).send().unwrap().text().unwrap();
    assert!(metrics.contains("firndb_redis_commands_total{command=\"config\"} 1\n"), "{metrics}");
    assert!(metrics.contains("firndb_redis_errors_total 2\n"), "{metrics}");
}

#[test]
fn commands_that_cannot_be_part_of_a_transaction_abort_it() {
    let server = server();
    let mut raw = Raw::connect(address(&server));
    for words in [&["SELECT", "1"][..], &["SCAN", "0"], &["KEYS", "*"], &["DBSIZE"], &["INFO"]] {
        raw.call(&["MULTI"]);
        let error = "-ERR Command not allowed inside a transaction\r\n";
        assert_eq!(raw.call(words), error, "{words:?}");
        assert!(raw.call(&["EXEC"]).starts_with("-EXECABORT"));
    }
    // A transaction has one store.
    raw.call(&["WATCH", "a"]);
    raw.call(&["SELECT", "1"]);
    assert!(raw.call(&["WATCH", "a"]).starts_with("-ERR keys of two stores"));
    raw.call(&["MULTI"]);
    raw.call(&["SET", "a", "1"]);
    assert_eq!(raw.call(&["EXEC"]), "-ERR the watched keys are of another store\r\n");
    assert_eq!(raw.call(&["EXISTS", "a"]), ":0\r\n");
}

#[test]
fn the_interface_is_encrypted_like_that_for_http() {
    use rustls::pki_types::{CertificateDer, ServerName};
    use std::io::{Read, Write};
    let dir = Dir::new();
    let mut config = two_logs(&dir);
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    config.tls = Some(Tls { certificate, key, client_ca: None, client_role: None });
    let server = start(dir, config);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(made.cert.der().to_vec())).unwrap();
    let client = rustls::ClientConfig::builder().with_root_certificates(roots);
    let client = std::sync::Arc::new(client.with_no_client_auth());
    let name = ServerName::try_from("localhost").unwrap();
    let connection = rustls::ClientConnection::new(client, name).unwrap();
    let socket = std::net::TcpStream::connect(address(&server)).unwrap();
    let mut stream = rustls::StreamOwned::new(connection, socket);
    // More than one record of TLS in both directions.
    let value = vec![b'x'; 100_000];
    stream.write_all(&command(&[b"SET", b"a", &value])).unwrap();
    stream.write_all(&command(&[b"GET", b"a"])).unwrap();
    let expected = [b"+OK\r\n$100000\r\n", &value[..], b"\r\n"].concat();
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).unwrap();
    assert!(received == expected);
    // Plain text is no handshake.
    let mut plain = Raw::connect(address(&server));
    plain.send(b"PING\r\n");
    assert!(!plain.rest().unwrap().starts_with(b"+PONG"));
}
