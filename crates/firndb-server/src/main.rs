//! The program `firn-serve`.

use clap::Parser;
use firndb::{Error, redact};
use firndb_server::config::{Args, Config};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(&error),
    };
    let json = args.json;
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error, json),
    }
}

fn run(args: &Args) -> firndb::Result<()> {
    if let Some(text) = args.document()? {
        // Printing fails if the output is closed; there is no other place to report that.
        let _ = std::io::stdout().write_all(&text);
        return Ok(());
    }
    let config = Config::from_args(args)?;
    if args.print_config {
        print!("{}", config.to_toml());
        return Ok(());
    }
    firndb_server::run(config)
}

/// Prints help, the version, or a mistake on the command line without credentials in URLs.
fn usage(error: &clap::Error) -> ExitCode {
    let plain = error.to_string();
    if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let lines = plain.lines().take_while(|line| !line.starts_with("Usage:"));
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        return report(&Error::invalid(words.join(" ").trim_start_matches("error: ")), true);
    }
    let _ = match redact(&plain) {
        shown if shown == plain => error.print(),
        shown => std::io::stderr().write_all(shown.as_bytes()),
    };
    ExitCode::from(error.exit_code() as u8)
}

fn report(error: &Error, json: bool) -> ExitCode {
    let message = redact(&error.to_string());
    match json {
        true => {
            let kind = error.kind().name();
            eprintln!("{}", serde_json::json!({ "error": { "kind": kind, "message": message } }));
        }
        false => eprintln!("firn-serve: {message}"),
    }
    ExitCode::from(error.kind().exit_code())
}
