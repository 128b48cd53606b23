//! COMMAND: the table of commands as replies.

use super::flags::{FAST, NO_AUTH, READ, WRITE};
use super::table::{COMMANDS, find};
use super::{Command, Fail, Outcome, text};
use crate::redis::codec::Args;
use crate::redis::reply::Out;
use crate::redis::session::{Context, Session};

/// COMMAND [COUNT | LIST | INFO [name ...] | DOCS [name ...] | GETKEYS command [arg ...]]
pub fn command(_: &mut Session, _: &Context<'_>, args: Args<'_>, out: &mut Out) -> Outcome {
    if args.count() == 1 {
        out.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| describe(command, out));
        return Ok(());
    }
    let mut name = [0; 16];
    let name = super::uppercase(args.at(1), &mut name);
    let least = match name {
        b"COUNT" | b"LIST" | b"INFO" | b"DOCS" => 2,
        b"GETKEYS" => 4,
        _ => return Err(Fail::subcommand("COMMAND", args.at(1))),
    };
    if args.count() < least || (name == b"COUNT" && args.count() > least) {
        let name = String::from_utf8_lossy(name).to_lowercase();
        return Err(Fail::arity(&format!("command|{name}")));
    }
    let named = || args.from(2).map(|name| find(name).map(|n| &COMMANDS[n]));
    match name {
        b"COUNT" => out.count(COMMANDS.len() as u64),
        b"LIST" if args.count() == 2 => {
            out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| out.bulk(command.name.as_bytes()));
        }
        b"INFO" if args.count() == 2 => {
            out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| describe(command, out));
        }
        b"INFO" => {
            out.array(args.count() - 2);
            named().for_each(|command| match command {
                Some(command) => describe(command, out),
                None => out.null_array(),
            });
        }
        b"DOCS" => {
            let commands: Vec<&Command> = match args.count() {
                2 => COMMANDS.iter().collect(),
                _ => named().flatten().collect(),
            };
            out.map(commands.len());
            commands.into_iter().for_each(|command| document(command, out));
        }
        b"GETKEYS" => {
            let Some(command) = named().next().flatten() else {
                return Err(text("ERR Invalid command specified"));
            };
            let keys: Vec<usize> = keys_of(command, args.count() - 2).collect();
            if !command.accepts(args.count() - 2) {
                return Err(text("ERR Invalid number of arguments specified for command"));
            }
            if keys.is_empty() {
                return Err(text("ERR The command has no key arguments"));
            }
            out.array(keys.len());
            keys.into_iter().for_each(|n| out.bulk(args.at(n + 2)));
        }
        _ => return Err(Fail::Syntax),
    }
    Ok(())
}

/// The positions of the keys among `count` arguments.
fn keys_of(command: &Command, count: usize) -> impl Iterator<Item = usize> + use<> {
    let (first, last, step) = command.keys;
    let last = if last < 0 { count as i64 + i64::from(last) } else { i64::from(last) };
    let step = usize::try_from(step).unwrap_or(1).max(1);
    let positions = i64::from(first)..=last;
    positions
        .step_by(step)
        .filter(move |_| first > 0)
        .filter_map(move |n| usize::try_from(n).ok().filter(|n| *n < count))
}

/// The number of keys among `count` arguments.
pub fn count_keys(command: &Command, count: usize) -> usize {
    keys_of(command, count).count()
}

fn describe(command: &Command, out: &mut Out) {
    let names = [(READ, "readonly"), (WRITE, "write"), (FAST, "fast"), (NO_AUTH, "no_auth")];
    let flags: Vec<_> = names.into_iter().filter(|(flag, _)| command.is(*flag)).collect();
    out.array(10);
    out.bulk(command.name.as_bytes());
    out.integer(i64::from(command.arity));
    out.set(flags.len());
    flags.iter().for_each(|(_, name)| out.simple(name));
    for n in [command.keys.0, command.keys.1, command.keys.2] {
        out.integer(i64::from(n));
    }
    let mut categories = vec![if command.is(FAST) { "@fast" } else { "@slow" }];
    categories.extend(command.is(READ).then_some("@read"));
    categories.extend(command.is(WRITE).then_some("@write"));
    categories.extend(match command.group {
        "string" => Some("@string"),
        "generic" => Some("@keyspace"),
        "connection" => Some("@connection"),
        "transactions" => Some("@transaction"),
        _ => None,
    });
    out.set(categories.len());
    categories.iter().for_each(|category| out.simple(category));
    // No hints, key specifications and subcommands.
    (0..3).for_each(|_| out.array(0));
}

fn document(command: &Command, out: &mut Out) {
    out.bulk(command.name.as_bytes());
    let facts = [("summary", command.summary), ("since", command.since), ("group", command.group)];
    out.map(facts.len());
    for (name, value) in facts {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_among_arguments() {
        let keys = |name: &str, count| {
            let command = &COMMANDS[find(name.as_bytes()).unwrap()];
            keys_of(command, count).collect::<Vec<_>>()
        };
        assert_eq!(keys("get", 2), [1]);
        assert_eq!(keys("mset", 7), [1, 3, 5]);
        assert_eq!(keys("del", 4), [1, 2, 3]);
        assert_eq!(keys("memory", 3), [2]);
        assert!(keys("ping", 3).is_empty());
    }
}
