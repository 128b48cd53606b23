//! The files in `packaging/`.

use crate::process::{program, run};
use crate::support::Dir;
use firndb_server::config::Config;
use firndb_testing::{is_on_path, skipped, this_test};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(packaging(name)).unwrap()
}

/// The configuration with all its examples.
fn with_examples() -> String {
    let lines = read("firn-serve.toml");
    let options = lines.lines().map(|line| match line.strip_prefix('#') {
        Some(option) if !option.starts_with(' ') => option,
        _ => line,
    });
    options.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_options_of_the_unit_are_valid() {
    let unit = read("firn-serve.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<&str> = start.split_whitespace().collect();
    assert_eq!(words[0], "/usr/bin/firn-serve");
    let config = packaging("firn-serve.toml").display().to_string();
    let args = words[1..].iter().map(|word| match *word {
        "/etc/firndb/firn-serve.toml" => config.as_str(),
        word => word,
    });
    let args: Vec<&str> = args.chain(["--print-config"]).collect();
    let output = run(&args);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("/var/lib/firndb/main"));
}

#[test]
fn all_options_of_the_example_are_valid_and_defaults_are_the_defaults() {
    let dir = Dir::new();
    let path = dir.path().join("all.toml");
    fs::write(&path, with_examples()).unwrap();
    let config = Config::from_file(&path).unwrap();
    config.check().unwrap();
    assert_eq!(config.names().count(), 4);
    let part = |config: &Config, from: &str, to: &str| {
        let text = config.to_toml();
        let start = text.find(from).unwrap();
        text[start..].split_once(to).map_or(String::new(), |(part, _)| part.to_string())
    };
    let default = Config::default();
    assert_eq!(part(&config, "[limits]", "\n\n"), part(&default, "[limits]", "\n\n"));
    assert_eq!(part(&config, "[log]", "\n\n"), part(&default, "[log]", "\n\n"));
    assert_eq!(config.http.address, default.http.address);
    // Every limit is in the example.
    let limits = part(&default, "[limits]", "\n\n");
    for line in limits.lines().skip(1) {
        let name = line.split(' ').next().unwrap();
        assert!(read("firn-serve.toml").contains(&format!("\n#{name} = ")), "{name}");
    }
}

#[test]
fn the_entry_point_of_the_image_is_valid() {
    let file = read("Containerfile");
    let entry = file.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).unwrap();
    let words: Vec<String> = serde_json::from_str(entry).unwrap();
    let (name, args) = words.split_first().unwrap();
    assert_eq!(name, "/usr/bin/firn-serve");
    let check = |token: bool| {
        let mut command = program();
        command.args(args).args(["--log", "main=/var/lib/firndb/main", "--print-config"]);
        if token {
            command.env("FIRNDB_ADMIN_TOKEN", "admin-0123456789abcdef");
        }
        command.output().unwrap().status.code()
    };
    assert_eq!([check(true), check(false)], [Some(0), Some(2)]);
}

#[test]
fn systemd_accepts_the_unit() {
    if !is_on_path("systemd-analyze") {
        return skipped(&this_test(), "systemd-analyze is not installed");
    }
    // It checks that the program exists.
    let dir = Dir::new();
    let path = dir.path().join("firn-serve.service");
    let unit = read("firn-serve.service");
    fs::write(&path, unit.replace("/usr/bin/firn-serve", env!("CARGO_BIN_EXE_firn-serve")))
        .unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no"]).arg(&path);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // Other units of the machine are checked, too.
    let own: Vec<&str> = said.lines().filter(|line| line.contains("firn-serve")).collect();
    assert!(own.is_empty(), "{said}");
}
