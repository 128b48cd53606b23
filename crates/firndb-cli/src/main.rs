//! `firn`: the command line of FirnDB. One file per command under `cmd/`.
#![allow(rustdoc::broken_intra_doc_links, reason = "comments are the help text: [x] is optional x")]

mod cmd;
mod escape;
mod failure;
mod interrupt;
mod kinds;
mod new_dir;
#[cfg(test)]
mod matrix;
mod output;
mod target;

use clap::error::{ContextKind, ContextValue, ErrorKind as UsageError};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use failure::Failure;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Embedded storage for data that is written once or in bursts and read all the time.
#[derive(Parser)]
#[command(name = "firn", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    /// Print JSON: one line per result on standard output, one object per failure on standard
    /// error.
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(cmd::demo::Args),
    /// Build, query and change collections of documents.
    #[command(subcommand, arg_required_else_help = true)]
    Search(cmd::Search),
    /// Build tables of keys and values, and get values by key.
    #[command(subcommand, arg_required_else_help = true)]
    Table(cmd::table::Table),
    /// Put, get and delete values by key, in a store that keeps a log.
    #[command(subcommand, arg_required_else_help = true)]
    Log(cmd::log::Log),
    /// Keep a collection up to date with feeds: only what changed is rebuilt.
    #[command(subcommand, arg_required_else_help = true)]
    Index(cmd::index::Index),
    /// Publish versions of tables and collections, and follow them.
    #[command(subcommand, arg_required_else_help = true)]
    Catalog(cmd::catalog::Catalog),
    /// Get the value of a key, whatever store PATH is.
    Get(cmd::detect::Args),
    /// Get the values of many keys, whatever store PATH is.
    Mget(cmd::detect::Args),
    /// Print records or documents, whatever store PATH is.
    Scan(cmd::detect::Args),
    /// List what is in a store: keys, partitions, sources or names.
    #[command(visible_alias = "ls")]
    List(cmd::detect::Args),
    /// Write a store into a file: CSV, TSV, JSON lines, Parquet, Arrow or Avro.
    #[command(visible_alias = "dump")]
    Export(cmd::detect::Args),
    /// Show the size of a store, and what it holds.
    Stats(cmd::detect::Args),
    /// Check every byte of a store or of a file.
    Verify(cmd::detect::Args),
    Inspect(cmd::inspect::Args),
    /// Import a directory of HaloDB into a log store.
    Import(cmd::log::ImportArgs),
    Completions(cmd::completions::Args),
    Man(cmd::man::Args),
    /// Run `firn-NAME` from the directory of `firn`.
    #[command(external_subcommand)]
    External(Vec<OsString>),
}

fn main() -> ExitCode {
    // Makes a write beyond `ulimit -f` return an error instead of ending the process.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    if wants_json() {
        failure::use_json();
    }
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        let group = matches.subcommand();
        let verb = group.and_then(|(_, command)| command.subcommand_name());
        kinds::set_verb(verb.or(group.map(|(name, _)| name)).unwrap_or_default());
        Cli::from_arg_matches(&matches)
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    if let Command::External(words) = &cli.command {
        return external(words, wants_json());
    }
    if let Err(error) = interrupt::install() {
        return Failure::from(error).report(cli.json);
    }
    let result = match catch_unwind(AssertUnwindSafe(|| run(&cli))) {
        Ok(result) => result,
        Err(cause) if cause.is::<interrupt::Unwound>() => Ok(()),
        Err(cause) => resume_unwind(cause),
    };
    // After a signal an error is its consequence: a temporary file is gone, for example.
    match (interrupt::finish(), result) {
        (Some(code), _) => ExitCode::from(code),
        (None, Ok(())) => ExitCode::SUCCESS,
        (None, Err(failure)) => failure.report(wants_json()),
    }
}

fn run(cli: &Cli) -> failure::Result<()> {
    match &cli.command {
        Command::Demo(args) => cmd::demo::run(args, cli.json),
        Command::Search(command) => command.run(cli.json),
        Command::Table(command) => command.run(cli.json),
        Command::Log(command) => command.run(cli.json),
        Command::Index(command) => command.run(cli.json),
        Command::Catalog(command) => command.run(cli.json),
        Command::Get(args) => args.run("get", cli.json),
        Command::Mget(args) => args.run("mget", cli.json),
        Command::Scan(args) => args.run("scan", cli.json),
        Command::List(args) => args.run("list", cli.json),
        Command::Export(args) => args.run("export", cli.json),
        Command::Stats(args) => args.run("stats", cli.json),
        Command::Verify(args) => args.run("verify", cli.json),
        Command::Import(args) => cmd::log::import(args, cli.json),
        Command::Man(args) => cmd::man::run(args),
        Command::External(_) => Ok(()),
        Command::Inspect(args) => cmd::inspect::run(args, cli.json),
        Command::Completions(args) => cmd::completions::run(args),
    }
}

/// Runs `firn-NAME`, or reports that there is no such command.
fn external(words: &[OsString], json: bool) -> ExitCode {
    let name = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let refuse = |message| Failure::from(firndb::Error::invalid(message)).report(json);
    // Verbs of the groups first: the benchmark harness, for example, is a program `firn-bench`.
    match hint(&name) {
        Some(message) => refuse(message),
        None => cmd::external::run(words, json).unwrap_or_else(|| refuse(unknown(&name))),
    }
}

/// The message for a name that is no command, with the closest command.
fn unknown(name: &str) -> String {
    if let Some(message) = cmd::external::missing(name) {
        return message;
    }
    let all = Cli::command();
    let names = all.get_subcommands().map(|command| command.get_name().to_string());
    let closest = names
        .min_by_key(|known| distance(known, name))
        .filter(|known| distance(known, name) <= 2.max(known.len() / 3));
    let meant = closest.map_or(String::new(), |known| format!("; did you mean '{known}'?"));
    format!(
        "`{name}` is not a command, and there is no program `firn-{name}` in the directory of \
         `firn`{meant}"
    )
}

/// The number of characters to insert, remove or replace to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = before + usize::from(x != *y);
            before = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(before + 1);
        }
    }
    row[b.len()]
}

/// Prints help, the version, or a usage error.
fn usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), UsageError::InvalidSubcommand)
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(hint) = hint(word)
    {
        return Failure::from(firndb::Error::invalid(hint)).report(wants_json());
    }
    if error.use_stderr() && wants_json() {
        let text = error.to_string();
        let lines = text.lines().take_while(|line| !line.starts_with("Usage:"));
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        let message = words.join(" ");
        let message = message.trim_start_matches("error: ");
        return Failure::from(firndb::Error::invalid(message)).report(true);
    }
    let plain = error.to_string();
    let shown = firndb::redact(&plain);
    // Printing fails if the output is closed; there is no other place to report that.
    let _ = match shown == plain {
        true => error.print(),
        false => std::io::Write::write_all(&mut std::io::stderr(), shown.as_bytes()),
    };
    ExitCode::from(error.exit_code() as u8)
}

/// A command that the user may have meant by `word`.
fn hint(word: &str) -> Option<String> {
    if Path::new(word).exists() {
        return Some(format!(
            "say what to do with {word}, for example `firn stats {word}` or `firn inspect {word}`"
        ));
    }
    let command = Cli::command();
    let has = |group: &&str| {
        command.find_subcommand(group).is_some_and(|group| group.find_subcommand(word).is_some())
    };
    let groups: Vec<&str> =
        ["search", "table", "log", "index", "catalog"].into_iter().filter(has).collect();
    let lines: Vec<String> =
        groups.iter().map(|group| format!("firn {group} {word} ...")).collect();
    let groups = groups.join("` and of `");
    (!lines.is_empty())
        .then(|| format!("`{word}` is a command of `{groups}`: {}", lines.join(", ")))
}

/// Whether `--json` is anywhere on the command line, which may not be parsed.
fn wants_json() -> bool {
    std::env::args_os().any(|argument| argument == "--json")
}
