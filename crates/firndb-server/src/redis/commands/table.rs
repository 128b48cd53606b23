//! The table of commands.

use super::flags::{ADMIN, FAST, LONG, NO_AUTH, NO_MULTI, READ, WRITE};
use super::{
    Command, Run, connection, counters, expiry, info, keys, list, scan, strings, uppercase,
};

/// A row of the table.
macro_rules! command {
    ($name:literal, $arity:literal, $flags:expr, $keys:expr, $run:ident $(($function:path))?,
     $group:literal, $since:literal, $summary:literal) => {
        Command {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            run: Run::$run $(($function))?,
            group: $group,
            since: $since,
            summary: $summary,
        }
    };
}

/// All commands, ordered by name.
#[rustfmt::skip]
pub static COMMANDS: [Command; 58] = [
    command!("append", 3, WRITE | FAST, (1, 1, 1), Store(strings::append),
        "string", "2.0.0", "Appends to a value"),
    command!("auth", -2, FAST | NO_AUTH | NO_MULTI, (0, 0, 0), Session(connection::auth),
        "connection", "1.0.0", "Authenticates with a token"),
    command!("client", -2, NO_MULTI, (0, 0, 0), Session(connection::client),
        "connection", "2.4.0", "Facts about the connection"),
    command!("command", -1, NO_MULTI, (0, 0, 0), Session(list::command),
        "server", "2.8.13", "Facts about commands"),
    command!("config", -2, NO_MULTI, (0, 0, 0), Session(info::config),
        "server", "2.0.0", "Reads options"),
    command!("dbsize", 1, READ | FAST | NO_MULTI, (0, 0, 0), Store(scan::dbsize),
        "server", "1.0.0", "The number of keys"),
    command!("decr", 2, WRITE | FAST, (1, 1, 1), Store(counters::decr),
        "string", "1.0.0", "Subtracts 1 from a number"),
    command!("decrby", 3, WRITE | FAST, (1, 1, 1), Store(counters::decrby),
        "string", "1.0.0", "Subtracts from a number"),
    command!("del", -2, WRITE, (1, -1, 1), Store(keys::del),
        "generic", "1.0.0", "Removes keys"),
    command!("discard", 1, FAST, (0, 0, 0), Discard,
        "transactions", "2.0.0", "Drops a transaction"),
    command!("echo", 2, FAST, (0, 0, 0), Store(connection::echo),
        "connection", "1.0.0", "Answers its argument"),
    command!("exec", 1, 0, (0, 0, 0), Exec,
        "transactions", "1.2.0", "Runs a transaction"),
    command!("exists", -2, READ | FAST, (1, -1, 1), Store(keys::exists),
        "generic", "1.0.0", "Counts keys that exist"),
    command!("expire", -3, WRITE | FAST, (1, 1, 1), Store(expiry::expire),
        "generic", "1.0.0", "Sets a time to live in seconds"),
    command!("expireat", -3, WRITE | FAST, (1, 1, 1), Store(expiry::expireat),
        "generic", "1.2.0", "Sets the time of expiry in seconds since 1970"),
    command!("expiretime", 2, READ | FAST, (1, 1, 1), Store(expiry::expiretime),
        "generic", "7.0.0", "The time of expiry in seconds since 1970"),
    command!("flushdb", -1, WRITE | LONG | ADMIN | NO_MULTI, (0, 0, 0), Store(scan::flushdb),
        "server", "1.0.0", "Removes all keys"),
    command!("get", 2, READ | FAST, (1, 1, 1), Store(strings::get),
        "string", "1.0.0", "Reads a value"),
    command!("getdel", 2, WRITE | FAST, (1, 1, 1), Store(strings::getdel),
        "string", "6.2.0", "Reads a value and removes the key"),
    command!("getex", -2, WRITE | FAST, (1, 1, 1), Store(strings::getex),
        "string", "6.2.0", "Reads a value and changes when it expires"),
    command!("getrange", 4, READ, (1, 1, 1), Store(strings::getrange),
        "string", "2.4.0", "Reads a part of a value"),
    command!("getset", 3, WRITE | FAST, (1, 1, 1), Store(strings::getset),
        "string", "1.0.0", "Sets a value and returns the old one"),
    command!("hello", -1, FAST | NO_AUTH | NO_MULTI, (0, 0, 0), Session(connection::hello),
        "connection", "6.0.0", "Chooses the protocol, and authenticates"),
    command!("incr", 2, WRITE | FAST, (1, 1, 1), Store(counters::incr),
        "string", "1.0.0", "Adds 1 to a number"),
    command!("incrby", 3, WRITE | FAST, (1, 1, 1), Store(counters::incrby),
        "string", "1.0.0", "Adds to a number"),
    command!("incrbyfloat", 3, WRITE | FAST, (1, 1, 1), Store(counters::incrbyfloat),
        "string", "2.6.0", "Adds to a number with decimals"),
    command!("info", -1, NO_MULTI, (0, 0, 0), Session(info::info),
        "server", "1.0.0", "Facts about the server"),
    command!("keys", 2, READ | LONG | NO_MULTI, (0, 0, 0), Store(scan::keys),
        "generic", "1.0.0", "The keys that match a pattern"),
    command!("memory", -2, READ, (2, 2, 1), Store(scan::memory),
        "server", "4.0.0", "The size of a record"),
    command!("mget", -2, READ | FAST, (1, -1, 1), Store(strings::mget),
        "string", "1.0.0", "Reads several values"),
    command!("mset", -3, WRITE, (1, -1, 2), Store(strings::mset),
        "string", "1.0.1", "Sets several values at once"),
    command!("msetnx", -3, WRITE, (1, -1, 2), Store(strings::msetnx),
        "string", "1.0.1", "Sets several values if no key exists"),
    command!("multi", 1, FAST, (0, 0, 0), Multi,
        "transactions", "1.2.0", "Begins a transaction"),
    command!("persist", 2, WRITE | FAST, (1, 1, 1), Store(expiry::persist),
        "generic", "2.2.0", "Removes the time of expiry"),
    command!("pexpire", -3, WRITE | FAST, (1, 1, 1), Store(expiry::pexpire),
        "generic", "2.6.0", "Sets a time to live in milliseconds"),
    command!("pexpireat", -3, WRITE | FAST, (1, 1, 1), Store(expiry::pexpireat),
        "generic", "2.6.0", "Sets the time of expiry in milliseconds since 1970"),
    command!("pexpiretime", 2, READ | FAST, (1, 1, 1), Store(expiry::pexpiretime),
        "generic", "7.0.0", "The time of expiry in milliseconds since 1970"),
    command!("ping", -1, FAST, (0, 0, 0), Store(connection::ping),
        "connection", "1.0.0", "Answers PONG, or its argument"),
    command!("psetex", 4, WRITE, (1, 1, 1), Store(strings::psetex),
        "string", "2.6.0", "Sets a value that expires after milliseconds"),
    command!("pttl", 2, READ | FAST, (1, 1, 1), Store(expiry::pttl),
        "generic", "2.6.0", "The time to live in milliseconds"),
    command!("quit", -1, FAST | NO_AUTH, (0, 0, 0), Session(connection::quit),
        "connection", "1.0.0", "Closes the connection"),
    command!("randomkey", 1, READ | LONG | NO_MULTI, (0, 0, 0), Store(scan::randomkey),
        "generic", "1.0.0", "A random key"),
    command!("reset", 1, FAST | NO_AUTH, (0, 0, 0), Session(connection::reset),
        "connection", "6.2.0", "Puts the connection into its first state"),
    command!("scan", -2, READ | LONG | NO_MULTI, (0, 0, 0), Store(scan::scan),
        "generic", "2.8.0", "A page of the keys"),
    command!("select", 2, FAST | NO_MULTI, (0, 0, 0), Session(connection::select),
        "connection", "1.0.0", "Selects a store by its number"),
    command!("set", -3, WRITE, (1, 1, 1), Store(strings::set),
        "string", "1.0.0", "Sets a value"),
    command!("setex", 4, WRITE, (1, 1, 1), Store(strings::setex),
        "string", "2.0.0", "Sets a value that expires after seconds"),
    command!("setnx", 3, WRITE | FAST, (1, 1, 1), Store(strings::setnx),
        "string", "1.0.0", "Sets a value if the key is absent"),
    command!("strlen", 2, READ | FAST, (1, 1, 1), Store(strings::strlen),
        "string", "2.2.0", "The length of a value"),
    command!("substr", 4, READ, (1, 1, 1), Store(strings::getrange),
        "string", "1.0.0", "Reads a part of a value"),
    command!("time", 1, FAST, (0, 0, 0), Store(info::time),
        "server", "2.6.0", "The time of the server"),
    command!("touch", -2, READ | FAST, (1, -1, 1), Store(keys::exists),
        "generic", "3.2.1", "Counts keys that exist"),
    command!("ttl", 2, READ | FAST, (1, 1, 1), Store(expiry::ttl),
        "generic", "1.0.0", "The time to live in seconds"),
    command!("type", 2, READ | FAST, (1, 1, 1), Store(keys::type_of),
        "generic", "1.0.0", "The type of a value"),
    command!("unlink", -2, WRITE | FAST, (1, -1, 1), Store(keys::del),
        "generic", "4.0.0", "Removes keys"),
    command!("unwatch", 1, FAST, (0, 0, 0), Unwatch,
        "transactions", "2.2.0", "Forgets the keys of WATCH"),
    command!("wait", 3, 0, (0, 0, 0), Store(info::wait),
        "generic", "3.0.0", "The number of replicas, 0"),
    command!("watch", -2, FAST, (1, -1, 1), Watch,
        "transactions", "2.2.0", "Names keys that a transaction depends on"),
];

/// The number of a command in the table; the case of its name does not matter.
#[inline]
pub fn find(name: &[u8]) -> Option<usize> {
    let mut buffer = [0; 16];
    let name = uppercase(name, &mut buffer);
    // The most frequent ones first.
    match name {
        b"GET" => return Some(GET),
        b"SET" => return Some(SET),
        _ => {}
    }
    COMMANDS
        .binary_search_by(|command| {
            command.name.bytes().map(|c| c.to_ascii_uppercase()).cmp(name.iter().copied())
        })
        .ok()
}

/// The number of GET.
pub const GET: usize = position("get");
/// The number of SET.
pub const SET: usize = position("set");

const fn position(name: &str) -> usize {
    let mut n = 0;
    while !is_same(COMMANDS[n].name.as_bytes(), name.as_bytes()) {
        n += 1;
    }
    n
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut n = 0;
    while n < a.len() && n < b.len() && a[n] == b[n] {
        n += 1;
    }
    n == a.len() && n == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name() {
        for (n, command) in COMMANDS.iter().enumerate() {
            assert_eq!(find(command.name.as_bytes()), Some(n));
            assert_eq!(find(command.name.to_uppercase().as_bytes()), Some(n));
            assert_eq!(find(&command.name.as_bytes()[1..]).filter(|m| *m == n), None);
        }
        assert_eq!((COMMANDS[GET].name, COMMANDS[SET].name), ("get", "set"));
        for name in ["", "getx", "zzz", "a name that is longer than any command"] {
            assert_eq!(find(name.as_bytes()), None);
        }
    }
}
