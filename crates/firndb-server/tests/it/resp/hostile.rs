//! Clients that send too much, too little, or something else, and the limits.

use super::{Raw, address, command, start, two_logs};
use crate::support::{Dir, TestServer};
use firndb_server::config::Config;
use std::time::{Duration, Instant};

fn with(change: impl FnOnce(&mut Config)) -> TestServer {
    let dir = Dir::new();
    let mut config = two_logs(&dir);
    change(&mut config);
    start(dir, config)
}

/// The text of what the server sends before it closes the connection.
fn last_words(server: &TestServer, bytes: &[u8]) -> String {
    let mut raw = Raw::connect(address(server));
    raw.send(bytes);
    String::from_utf8(raw.rest().expect("the server closes the connection")).unwrap()
}

#[test]
fn what_is_no_command_is_answered_and_the_connection_closed() {
    let server = with(|_| ());
    let cases = [
        ("*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"),
        ("*1\r\n$99999999999\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("GET \"a\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
        (
            "PING\r\n*1\r\n$4\r\nPING\r\n*2\r\nx",
            "+PONG\r\n+PONG\r\n-ERR Protocol error: expected '$', got 'x'\r\n",
        ),
    ];
    for (bytes, expected) in cases {
        assert_eq!(last_words(&server, bytes.as_bytes()), expected, "{bytes:?}");
    }
    // A web page can make a browser send this.
    let post = "POST / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHDB\r\n";
    let reply = last_words(&server, post.as_bytes());
    assert!(reply.starts_with("-ERR unknown command 'POST'"), "{reply}");
    assert_eq!(reply.lines().count(), 1);
    assert_eq!(Raw::connect(address(&server)).call(&["PING"]), "+PONG\r\n");
}

#[test]
fn random_bytes_never_stop_the_server() {
    let server = with(|config| {
        config.limits.body_seconds = 0.2;
        config.redis.idle_seconds = 0.2;
    });
    let pieces: [&[u8]; 16] = [
        b"*",
        b"$",
        b"\r\n",
        b"1",
        b"3",
        b"-1",
        b"GET",
        b"SET",
        b"a",
        b"\0",
        b"\xff",
        b"\"",
        b" ",
        b"*3\r\n$3\r\nSET\r\n",
        b"$1\r\na\r\n",
        b"99999999999999999999",
    ];
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize
    };
    for _ in 0..300 {
        let bytes: Vec<u8> = (0..next() % 60).flat_map(|_| pieces[next() % 16].to_vec()).collect();
        let mut raw = Raw::connect(address(&server));
        raw.send(&bytes);
        if next() % 4 == 0 {
            raw.rest();
        }
    }
    assert_eq!(Raw::connect(address(&server)).call(&["PING"]), "+PONG\r\n");
}

#[test]
fn limits_of_commands_hold_at_n_and_not_at_n_plus_1() {
    let server = with(|config| {
        config.limits.body_bytes = 1000;
        config.limits.keys = 10;
    });
    let set = |length: usize| command(&[b"SET", b"a", &vec![b'x'; length]]);
    // The command's own bytes count.
    let around = set(100).len() - 100;
    let mut raw = Raw::connect(address(&server));
    raw.send(&set(1000 - around - 2));
    assert_eq!(raw.reply(), b"+OK\r\n");
    let error = "-ERR Protocol error: too big command\r\n";
    assert_eq!(last_words(&server, &set(1000 - around + 20)), error);
    let error = "-ERR Protocol error: invalid bulk length\r\n";
    assert_eq!(last_words(&server, &set(1001)), error);
    // Keys of a command, and its arguments.
    let words = |name: &str, count: usize| {
        let keys = (0..count).map(|n| n.to_string());
        std::iter::once(name.to_string()).chain(keys).collect::<Vec<_>>()
    };
    let call = |name: &str, count: usize| {
        let words = words(name, count);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Raw::connect(address(&server)).call(&words)
    };
    for name in ["EXISTS", "MGET", "DEL", "WATCH"] {
        assert!(!call(name, 10).starts_with('-'), "{name}");
        assert_eq!(call(name, 11), "-ERR too many keys: at most 10\r\n", "{name}");
    }
    assert_eq!(call("MSET", 20), "+OK\r\n");
    let many = words("MSET", 22);
    let many: Vec<&[u8]> = many.iter().map(|word| word.as_bytes()).collect();
    let error = "-ERR Protocol error: invalid multibulk length\r\n";
    assert_eq!(last_words(&server, &command(&many)), error);
    // All watched keys together.
    let mut raw = Raw::connect(address(&server));
    assert_eq!(raw.call(&["WATCH", "1", "2", "3", "4", "5", "6"]), "+OK\r\n");
    assert_eq!(raw.call(&["WATCH", "1", "2", "3", "4"]), "+OK\r\n");
    assert_eq!(raw.call(&["WATCH", "1"]), "-ERR too many watched keys\r\n");
    // KEYS, which has 10 keys to show, and then 11.
    assert_eq!(raw.call(&["DEL", "a"]), ":1\r\n");
    assert!(raw.call(&["KEYS", "*"]).starts_with("*10\r\n"));
    assert_eq!(raw.call(&["SET", "k", "v"]), "+OK\r\n");
    assert_eq!(raw.call(&["KEYS", "*"]), "-ERR more than 10 keys, or too many bytes: use SCAN\r\n");
    assert!(raw.call(&["KEYS", "k"]).starts_with("*1\r\n"));
}

#[test]
fn a_reply_and_a_transaction_have_a_largest_size() {
    let server = with(|config| {
        config.limits.body_bytes = 5000;
        config.limits.response_bytes = 3000;
    });
    let mut raw = Raw::connect(address(&server));
    raw.call(&["SET", "a", &"x".repeat(990)]);
    // Three values with their lengths are 2,991 bytes.
    assert!(raw.call(&["MGET", "a", "a", "a"]).starts_with("*3\r\n"));
    let error = "-ERR the reply exceeds the limit of the server\r\n";
    assert_eq!(raw.call(&["MGET", "a", "a", "a", "a"]), error);
    // Nothing of the transaction is made.
    for words in [&["MULTI"][..], &["SET", "b", "1"], &["GET", "a"], &["MGET", "a", "a", "a"]] {
        raw.call(words);
    }
    assert_eq!(raw.call(&["EXEC"]), error);
    assert_eq!(raw.call(&["EXISTS", "b"]), ":0\r\n");
    // The queue is as large as one command at most.
    raw.call(&["MULTI"]);
    assert_eq!(raw.call(&["SET", "b", &"x".repeat(2500)]), "+QUEUED\r\n");
    let error = "-ERR the transaction is too large\r\n";
    assert_eq!(raw.call(&["SET", "c", &"x".repeat(2500)]), error);
    assert!(raw.call(&["EXEC"]).starts_with("-EXECABORT"));
    // APPEND and its limit.
    raw.call(&["SET", "s", &"x".repeat(4000)]);
    assert_eq!(raw.call(&["APPEND", "s", &"x".repeat(1000)]), ":5000\r\n");
    let error = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
    assert_eq!(raw.call(&["APPEND", "s", "x"]), error);
}

#[test]
fn half_sent_commands_and_idle_clients_are_cut_off() {
    let server = with(|config| {
        config.limits.body_seconds = 0.3;
        config.redis.idle_seconds = 1.0;
    });
    let mut half = Raw::connect(address(&server));
    half.send(b"*2\r\n$3\r\nGET\r\n$5\r\nab");
    let start = Instant::now();
    // More bytes do not extend the time.
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(100));
        half.send(b"c");
    }
    assert_eq!(half.rest(), Some(Vec::new()));
    assert!(start.elapsed() < Duration::from_millis(900), "{:?}", start.elapsed());
    let mut idle = Raw::connect(address(&server));
    assert_eq!(idle.call(&["PING"]), "+PONG\r\n");
    let start = Instant::now();
    assert_eq!(idle.rest(), Some(Vec::new()));
    assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
}

#[test]
fn a_client_that_does_not_read_is_cut_off_and_takes_little_memory() {
    let server = with(|config| config.limits.write_seconds = 0.5);
    let mut raw = Raw::connect(address(&server));
    raw.call(&["SET", "a", &"x".repeat(1 << 20)]);
    let mut slow = Raw::connect(address(&server));
    // 2,000 replies of a megabyte.
    slow.send(&command(&[b"GET", b"a"]).repeat(2000));
    std::thread::sleep(Duration::from_millis(1500));
    let received = slow.rest().expect("the server closes the connection");
    assert!(received.len() < 64 << 20, "{}", received.len());
    assert_eq!(raw.call(&["STRLEN", "a"]), ":1048576\r\n");
}

#[test]
fn a_draining_server_completes_what_has_arrived() {
    let mut server = with(|_| ());
    let at = address(&server);
    let mut raw = Raw::connect(at);
    assert_eq!(raw.call(&["SET", "a", "1"]), "+OK\r\n");
    let mut waiting = Raw::connect(at);
    assert_eq!(waiting.call(&["PING"]), "+PONG\r\n");
    let mut running = server.server.take().unwrap();
    server.runtime.block_on(running.stop()).unwrap();
    assert_eq!(waiting.rest(), Some(Vec::new()));
    assert_eq!(raw.rest(), Some(Vec::new()));
}
