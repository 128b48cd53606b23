//! Tests: the table of verbs in `docs/cli.md` is the tree of commands.

use clap::{Command, CommandFactory};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../../docs/cli.md");

/// Groups of commands: the columns of the table after the meaning. The last is `firn` itself.
const GROUPS: [&str; 6] = ["search", "table", "log", "index", "catalog", "firn"];

/// Aliases that belong to a command of one group.
const OLDER: [&str; 2] = ["partitions", "status"];

/// The rows of the table: verb, aliases, groups.
fn rows() -> BTreeMap<&'static str, (BTreeSet<&'static str>, BTreeSet<&'static str>)> {
    let table = PAGE.split("| verb |").nth(1).expect("the table of verbs");
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3 + GROUPS.len(), "{line}");
        let aliases = cells[1].split(", ").filter(|alias| !alias.is_empty()).collect();
        let has = |(cell, group): (&&str, &'static str)| (*cell == "x").then_some(group);
        let groups = cells[3..].iter().zip(GROUPS).filter_map(has).collect();
        (cells[0], (aliases, groups))
    };
    lines.map(row).collect()
}

fn group<'a>(all: &'a Command, name: &str) -> &'a Command {
    if name == "firn" { all } else { all.find_subcommand(name).expect("a group of commands") }
}

/// The commands of a group.
fn verbs<'a>(all: &'a Command, name: &str) -> impl Iterator<Item = &'a Command> {
    let commands = group(all, name).get_subcommands();
    commands.filter(|command| !GROUPS.contains(&command.get_name()))
}

#[test]
fn the_table_of_verbs_is_the_tree_of_commands() {
    let (all, rows) = (crate::Cli::command(), rows());
    assert!(rows.len() > 40, "{}", rows.len());
    for name in GROUPS {
        let own: BTreeSet<&str> = verbs(&all, name).map(Command::get_name).collect();
        let documented = rows.iter().filter(|(_, (_, groups))| groups.contains(name));
        let documented: BTreeSet<&str> = documented.map(|(verb, _)| *verb).collect();
        assert_eq!(own, documented, "the commands of `{name}`");
    }
}

#[test]
fn a_verb_has_the_same_aliases_in_every_group() {
    let (all, rows) = (crate::Cli::command(), rows());
    for name in GROUPS {
        for command in verbs(&all, name) {
            let aliases: BTreeSet<&str> = command.get_visible_aliases().collect();
            let aliases = aliases.into_iter().filter(|alias| !OLDER.contains(alias)).collect();
            assert_eq!(rows[command.get_name()].0, aliases, "{name} {}", command.get_name());
        }
    }
    assert!(OLDER.iter().all(|alias| PAGE.contains(&format!(" {alias}`"))));
}

/// What the same option means: the value that it takes.
fn options(command: &Command) -> BTreeMap<String, String> {
    let value = |arg: &clap::Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(" ")
    };
    let options = command.get_arguments().filter(|arg| arg.get_long().is_some());
    options.map(|arg| (arg.get_long().unwrap_or_default().to_string(), value(arg))).collect()
}

#[test]
fn verbs_take_the_same_arguments_in_every_group() {
    let all = crate::Cli::command();
    // Options that every command of the verb has.
    for (verb, common) in [
        ("export", &["output", "format", "force"][..]),
        ("scan", &["format", "limit"][..]),
        ("get", &["hex", "file", "raw"][..]),
        ("mget", &["hex", "separator"][..]),
        ("backup", &["output"][..]),
        ("build", &["output", "memory"][..]),
    ] {
        let of = |name: &&str| group(&all, name).find_subcommand(verb);
        let commands: Vec<&Command> = GROUPS[..5].iter().filter_map(of).collect();
        assert!(!commands.is_empty(), "{verb}");
        for command in &commands {
            let own = options(command);
            for option in common {
                assert!(own.contains_key(*option), "`{verb}` has no --{option}");
            }
        }
        let mut shared = options(commands[0]);
        commands.iter().for_each(|command| {
            let own = options(command);
            for (option, value) in &own {
                let known = shared.entry(option.clone()).or_insert_with(|| value.clone());
                // A path is named after what it is to be; the values of a field are separated by
                // one character, key and value by any text.
                let may_differ = ["output", "separator"].contains(&option.as_str());
                assert!(known == value || may_differ, "`{verb} --{option}`: {known}, {value}");
            }
        });
    }
}

#[test]
fn times_and_sizes_take_units_everywhere() {
    fn check(command: &Command) {
        for arg in command.get_arguments() {
            let names: Vec<&str> = arg
                .get_value_names()
                .unwrap_or_default()
                .iter()
                .map(|name| name.as_str())
                .collect();
            let wrong =
                ["SECONDS", "MS", "MILLIS", "BYTES"].iter().any(|unit| names.contains(unit));
            assert!(!wrong, "{} {names:?}", command.get_name());
            let help = arg.get_help().map(|help| help.to_string()).unwrap_or_default();
            assert!(!help.contains("in seconds") && !help.contains("in bytes"), "{help}");
        }
        command.get_subcommands().for_each(check);
    }
    check(&crate::Cli::command());
}
