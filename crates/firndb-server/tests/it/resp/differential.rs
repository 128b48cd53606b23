//! Random commands have the replies of Redis 7.0, byte for byte.
//!
//! `FIRNDB_REDIS_COMMANDS` is the number of commands. What is compared otherwise: times that pass,
//! and the order of keys. What is left out, because it differs on purpose, is in docs/server.md.

use super::{Raw, address, command, start, two_logs};
use crate::support::Dir;
use firndb_testing::{is_on_path, skipped};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A Redis server in a directory of its own.
struct RedisServer {
    child: Child,
    address: SocketAddr,
    _dir: Dir,
}

impl RedisServer {
    /// Starts a server, if there is one on this machine.
    fn start() -> Result<RedisServer, String> {
        if !is_on_path("redis-server") {
            return Err("`redis-server` is not on PATH".to_string());
        }
        let version = Command::new("redis-server").arg("--version").output();
        let version = version.map_err(|e| e.to_string())?.stdout;
        if !String::from_utf8_lossy(&version).contains("v=7.0.") {
            return Err("the version of `redis-server` is not 7.0".to_string());
        }
        // Another process may take the port before the server starts.
        for _ in 0..5 {
            let dir = Dir::new();
            let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let mut program = Command::new("redis-server");
            program.args(["--bind", "127.0.0.1", "--port", &free.port().to_string()]);
            program.args(["--save", "", "--appendonly", "no", "--databases", "2", "--dir"]);
            program.arg(dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
            let child = program.spawn().map_err(|e| e.to_string())?;
            let mut server = RedisServer { child, address: free, _dir: dir };
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(30) {
                if TcpStream::connect(free).is_ok() {
                    return Ok(server);
                }
                if server.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Err("`redis-server` does not start".to_string())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn key(&mut self) -> Vec<u8> {
        let names: [&[u8]; 9] =
            [b"a", b"b", b"key:1", b"key:2", b"counter", b"float", b"\0\r\n\xff", b"", b"Key[1]*"];
        names[self.below(names.len())].to_vec()
    }

    fn integer(&mut self) -> Vec<u8> {
        let fixed = [
            "0",
            "1",
            "-1",
            "10",
            "-7",
            "100",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "+1",
            " 1",
            "01",
            "1.5",
            "",
            "x",
            "-0",
            "1e3",
        ];
        match self.below(3) {
            0 => self.one_of(&fixed).into(),
            _ => (self.below(2000) as i64 - 1000).to_string().into_bytes(),
        }
    }

    fn float(&mut self) -> Vec<u8> {
        let fixed = [
            "0.1",
            "-0.1",
            "3.0e3",
            "1e20",
            "1e-20",
            "inf",
            "-inf",
            "nan",
            "0x1p3",
            "1e400",
            ".5",
            "5.",
            "1e4932",
            "-1e-17",
            "123456789.123456789",
            "x",
            " 1",
            "1 ",
            "",
            "0.3",
            "1e19",
        ];
        match self.below(3) {
            0 => format!("{}.{}", self.below(100_000) as i64 - 50_000, self.next()).into_bytes(),
            _ => self.one_of(&fixed).into(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        match self.below(6) {
            0 => self.integer(),
            1 => self.float(),
            2 => (0..self.below(40)).map(|_| self.next() as u8).collect(),
            3 => vec![b'x'; self.below(3000)],
            _ => self.below(1000).to_string().into_bytes(),
        }
    }

    /// A time that does not come soon, or none.
    fn time(&mut self, unit: &str) -> Vec<u8> {
        let fixed = match unit {
            "EX" => ["1000", "86400", "0", "-1", "9223372036854775", "x", "9223372036854775807"],
            "PX" => ["1000000", "86400000", "0", "-5", "9223372036854775807", "1.5", ""],
            "EXAT" => {
                ["4000000000", "5000000000", "0", "-1", "9223372036854776", "x", "99999999999"]
            }
            _ => ["4000000000000", "5000000000500", "0", "-1", "9223372036854775807", "x", "1e9"],
        };
        self.one_of(&fixed).into()
    }

    fn option(&mut self, words: &mut Vec<Vec<u8>>, is_set: bool) {
        let names: &[&str] = match is_set {
            true => &["NX", "XX", "GET", "KEEPTTL", "EX", "PX", "EXAT", "PXAT", "get", "bad"],
            false => &["PERSIST", "EX", "PX", "EXAT", "PXAT", "persist", "NX"],
        };
        let name = self.one_of(names);
        words.push(name.into());
        if matches!(name, "EX" | "PX" | "EXAT" | "PXAT") && self.below(20) > 0 {
            words.push(self.time(name));
        }
    }

    /// A random command on strings.
    fn command(&mut self) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = Vec::new();
        let name = self.one_of(&NAMES);
        words.push(name.into());
        match name {
            "SET" => {
                words.extend([self.key(), self.value()]);
                (0..self.below(4) / 2 * (1 + self.below(2)))
                    .for_each(|_| self.option(&mut words, true));
            }
            "GETEX" => {
                words.push(self.key());
                (0..self.below(3)).for_each(|_| self.option(&mut words, false));
            }
            "SETEX" => words.extend([self.key(), self.time("EX"), self.value()]),
            "PSETEX" => words.extend([self.key(), self.time("PX"), self.value()]),
            "GETRANGE" | "SUBSTR" => words.extend([self.key(), self.integer(), self.integer()]),
            "INCRBY" | "DECRBY" => words.extend([self.key(), self.integer()]),
            "INCRBYFLOAT" => words.extend([self.key(), self.float()]),
            "SETNX" | "GETSET" | "APPEND" => words.extend([self.key(), self.value()]),
            "MGET" | "EXISTS" | "DEL" | "UNLINK" | "TOUCH" => {
                (0..1 + self.below(4)).for_each(|_| words.push(self.key()));
            }
            "MSET" | "MSETNX" => {
                (0..1 + self.below(3)).for_each(|_| words.extend([self.key(), self.value()]));
            }
            "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" => {
                words.push(self.key());
                let unit = ["EX", "PX", "EXAT", "PXAT"];
                let n = ["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"];
                let n = n.iter().position(|n| *n == name).unwrap();
                words.push(self.time(unit[n]));
                // Which of two times that count from now is later may depend on a millisecond.
                let most = if n < 2 { 3 } else { 6 };
                let options = ["NX", "xx", "bad\r\n", "GT", "LT", "gt"];
                for _ in 0..self.below(4) / 2 {
                    words.push(self.one_of(&options[..most]).into());
                }
            }
            "PING" | "ECHO" => (0..self.below(3)).for_each(|_| words.push(self.value())),
            "NOSUCH" => (0..self.below(4)).for_each(|_| words.push(self.integer())),
            "WAIT" => words.extend([self.integer(), b"1".to_vec()]),
            "SELECT" => words.push(self.one_of(&["0", "1", "2", "-1", "x"]).into()),
            "MULTI" | "EXEC" | "DISCARD" | "UNWATCH" => {}
            _ => words.push(self.key()),
        }
        // Sometimes a word too many or too few.
        match self.below(60) {
            0 => words.push(self.integer()),
            1 if words.len() > 1 => drop(words.pop()),
            _ => {}
        }
        if self.below(10) == 0 {
            words[0].make_ascii_lowercase();
        }
        words
    }
}

/// Names of commands; frequent ones several times.
const NAMES: [&str; 56] = [
    "GET",
    "GET",
    "GET",
    "GET",
    "SET",
    "SET",
    "SET",
    "SET",
    "SETNX",
    "SETEX",
    "PSETEX",
    "GETSET",
    "GETDEL",
    "GETEX",
    "GETEX",
    "GETRANGE",
    "SUBSTR",
    "APPEND",
    "STRLEN",
    "MGET",
    "MGET",
    "MSET",
    "MSET",
    "MSETNX",
    "EXISTS",
    "DEL",
    "DEL",
    "UNLINK",
    "TOUCH",
    "TYPE",
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "EXPIRETIME",
    "PEXPIRETIME",
    "TTL",
    "PTTL",
    "PERSIST",
    "INCR",
    "INCR",
    "DECR",
    "INCRBY",
    "DECRBY",
    "INCRBYFLOAT",
    "INCRBYFLOAT",
    "PING",
    "ECHO",
    "NOSUCH",
    "WAIT",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "UNWATCH",
    "APPEND",
];

/// Connections to both servers.
struct Both {
    ours: Raw,
    theirs: Raw,
    /// Commands so far, for messages.
    log: Vec<String>,
}

impl Both {
    fn connect(ours: SocketAddr, theirs: SocketAddr) -> Both {
        Both { ours: Raw::connect(ours), theirs: Raw::connect(theirs), log: Vec::new() }
    }

    /// Sends commands at once and compares the replies.
    fn compare(&mut self, commands: &[Vec<Vec<u8>>]) {
        let words = |c: &Vec<Vec<u8>>| {
            c.iter().map(|w| w[..w.len().min(40)].escape_ascii().to_string()).collect::<Vec<_>>()
        };
        self.log.extend(commands.iter().map(|c| words(c).join(" ")));
        let bytes: Vec<u8> = commands
            .iter()
            .flat_map(|c| command(&c.iter().map(Vec::as_slice).collect::<Vec<_>>()))
            .collect();
        self.ours.send(&bytes);
        self.theirs.send(&bytes);
        let first = self.log.len() - commands.len();
        for (n, sent) in commands.iter().enumerate() {
            let (ours, theirs) = (self.ours.reply(), self.theirs.reply());
            if !is_same(&sent[0], &ours, &theirs) {
                let from = self.log.len().saturating_sub(60);
                let shown = self.log[from..=first + n].join("\n");
                let (ours, theirs) = (ours.escape_ascii(), theirs.escape_ascii());
                panic!("{shown}\n  FirnDB: {ours}\n  Redis:  {theirs}");
            }
        }
    }

    /// Sends a command and compares the elements of the replies without their order.
    fn compare_sets(&mut self, words: &[&str]) {
        let parts = |text: String| {
            let mut parts: Vec<String> = text.split("\r\n").map(str::to_string).collect();
            parts.sort();
            parts
        };
        let ours = parts(self.ours.call(words));
        assert_eq!(ours, parts(self.theirs.call(words)), "{words:?}\n{}", self.log.join("\n"));
    }
}

/// Whether replies are equal, but for the time that has passed between the two.
fn is_same(name: &[u8], ours: &[u8], theirs: &[u8]) -> bool {
    let number = |reply: &[u8]| {
        let text = reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
        std::str::from_utf8(text).ok()?.parse::<i64>().ok()
    };
    let slack = match name.to_ascii_uppercase().as_slice() {
        b"TTL" | b"EXPIRETIME" => 5,
        b"PTTL" | b"PEXPIRETIME" => 5_000,
        // A transaction may contain them: compare its lines.
        b"EXEC" => {
            let lines = |reply: &[u8]| reply.split(|c| *c == b'\n').map(<[u8]>::to_vec).collect();
            let (ours, theirs): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (lines(ours), lines(theirs));
            let ended = |line: &[u8]| [line, b"\n"].concat();
            let pairs = ours.iter().zip(&theirs);
            return ours.len() == theirs.len()
                && pairs
                    .into_iter()
                    .all(|(a, b)| a == b || is_same(b"PTTL", &ended(a), &ended(b)));
        }
        _ => 0,
    };
    ours == theirs
        || matches!((number(ours), number(theirs)),
            (Some(a), Some(b)) if a > 0 && b > 0 && a.abs_diff(b) <= slack)
}

fn both(test: &str) -> Option<(crate::support::TestServer, RedisServer)> {
    let redis = match RedisServer::start() {
        Ok(redis) => redis,
        Err(why) => {
            skipped(test, why);
            return None;
        }
    };
    let dir = Dir::new();
    let config = two_logs(&dir);
    Some((start(dir, config), redis))
}

#[test]
fn random_commands_have_the_replies_of_redis() {
    let Some((server, redis)) = both("random_commands_have_the_replies_of_redis") else { return };
    let commands = std::env::var("FIRNDB_REDIS_COMMANDS").ok();
    let commands: usize = commands.map_or(3_000, |n| n.parse().expect("a number"));
    let seed = std::env::var("FIRNDB_SEED").ok().map_or(1, |n| n.parse().expect("a number"));
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut done = 0;
    while done < commands {
        let mut both = Both::connect(address(&server), redis.address);
        if random.below(2) == 0 {
            both.ours.call(&["HELLO", "3"]);
            both.theirs.call(&["HELLO", "3"]);
        }
        for _ in 0..40 {
            let count = 1 + random.below(16) * random.below(2);
            let batch: Vec<_> = (0..count).map(|_| random.command()).collect();
            both.compare(&batch);
            done += count;
        }
        both.compare(&[vec![b"DISCARD".to_vec()]]);
        both.compare(&[vec![b"DBSIZE".to_vec()]]);
        let pattern =
            random.one_of(&["*", "key:*", "?", "[a-c]", "Key\\[1\\]\\*", "nothing", "*e*"]);
        both.compare_sets(&["KEYS", pattern]);
        both.compare_sets(&["SCAN", "0", "COUNT", "1000", "MATCH", pattern]);
        both.compare_sets(&["SCAN", "0", "COUNT", "100000", "TYPE", "string"]);
        both.compare_sets(&["SCAN", "0", "TYPE", "list"]);
        if random.below(4) == 0 {
            both.compare(&[vec![b"FLUSHDB".to_vec()]]);
        }
    }
}

#[test]
fn errors_about_arguments_are_those_of_redis() {
    let Some((server, redis)) = both("errors_about_arguments_are_those_of_redis") else { return };
    let mut both = Both::connect(address(&server), redis.address);
    let lines = "SELECT 1|SELECT 2|SELECT -1|SELECT x|SELECT|SCAN x|SCAN 0 COUNT 0|SCAN 0 COUNT x|\
        SCAN 0 MATCH|SCAN 0 NO x|SCAN|KEYS|MEMORY USAGE|MEMORY NO|MEMORY|RANDOMKEY|\
        RANDOMKEY x|DBSIZE|DBSIZE x|CONFIG NO|CONFIG|CONFIG GET|CLIENT|CLIENT NO|CLIENT ID x|\
        CLIENT SETNAME|CLIENT SETNAME name|CLIENT GETNAME|CLIENT REPLY NO|CLIENT NO-EVICT x|\
        CLIENT NO-EVICT on|COMMAND NO|COMMAND COUNT x|COMMAND GETKEYS GET|COMMAND GETKEYS PING|\
        COMMAND GETKEYS NOSUCH x|COMMAND GETKEYS MSET a b c d|HELLO 4|HELLO x|HELLO 2 NO|\
        HELLO 2 AUTH x|AUTH|AUTH x|AUTH default x|AUTH a b c|FLUSHDB NO|FLUSHDB ASYNC x|QUEUE|\
        WAIT 0|WAIT x 0|WAIT 0 x|WAIT 0 -1|WAIT 0 1|MULTI x|EXEC|DISCARD|MULTI|MULTI|WATCH a|\
        GET|NOSUCH|SET a|EXEC|EXEC|MULTI|PING|ECHO x|TYPE a|UNWATCH|EXEC|WATCH|WATCH a b|UNWATCH|\
        WATCH a|MULTI|SET a 1|GET a|INCR a|EXEC|GET a|MULTI|INCR a|SET a b|INCR a|GET a|EXEC|\
        SET past 1 EXAT 1|GET past|SET past 1 PXAT 1|TTL past|SETEX past 100 x|\
        EXPIRE past -1|EXISTS past|SET past 2|GETEX past EXAT 1|GET past|SET past 1 EX 100 NX GET|\
        SET past 2 XX KEEPTTL GET|TTL past|PERSIST past|TTL past|PTTL past|RESET|SELECT 0|\
        MULTI|RESET|EXEC|ECHO|PING a b|SUBSTR a 0 -1";
    let mut wrong = Vec::new();
    for line in lines.split('|').map(str::trim) {
        let words: Vec<&str> = line.split(' ').collect();
        let (ours, theirs) = (both.ours.call(&words), both.theirs.call(&words));
        if !is_same(words[0].as_bytes(), ours.as_bytes(), theirs.as_bytes()) {
            wrong.push(format!("{line}\n  FirnDB: {ours:?}\n  Redis:  {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    both.compare(&[vec![b"QUIT".to_vec()]]);
    assert_eq!((both.ours.rest(), both.theirs.rest()), (Some(Vec::new()), Some(Vec::new())));
}

#[test]
fn transactions_and_watches_have_the_replies_of_redis() {
    let test = "transactions_and_watches_have_the_replies_of_redis";
    let Some((server, redis)) = both(test) else { return };
    let connect = || Both::connect(address(&server), redis.address);
    let (mut one, mut other) = (connect(), connect());
    let mut random = Random(7);
    let split = |line: &str| line.split(' ').map(|w| w.as_bytes().to_vec()).collect::<Vec<_>>();
    for _ in 0..300 {
        let key = random.one_of(&["x", "y", "z"]);
        let change = random.one_of(&["x", "y", "z"]);
        one.compare(&[split(&format!("WATCH {key}"))]);
        if random.below(3) > 0 {
            let how = random.one_of(&["SET", "APPEND", "GETSET"]);
            other.compare(&[split(&format!("{how} {change} 1"))]);
        }
        if random.below(5) == 0 {
            one.compare(&[split(random.one_of(&["UNWATCH", "SET x 2", "DEL y", "EXPIRE x 1000"]))]);
        }
        one.compare(&[split("MULTI"), split("SET x 5"), split("INCR x"), split("GET x")]);
        one.compare(&[split("DEL z"), split("EXISTS x z"), split("APPEND y 1")]);
        if random.below(3) == 0 {
            other.compare(&[split(&format!("SET {change} 3"))]);
        }
        one.compare(&[split(random.one_of(&["EXEC", "EXEC", "DISCARD"])), split("MGET x y z")]);
    }
}
