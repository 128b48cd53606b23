//! The program `firn-serve`.

use clap::Parser;
use firndb_server::config::{Args, Config};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    let config = match Config::from_args(&args) {
        Ok(config) => config,
        Err(error) => return report(&error),
    };
    if args.print_config {
        print!("{}", config.to_toml());
        return ExitCode::SUCCESS;
    }
    match firndb_server::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

fn report(error: &firndb::Error) -> ExitCode {
    eprintln!("firn-serve: {error}");
    ExitCode::from(error.kind().exit_code())
}
