//! Fuzz targets: builds `fuzz/` with libFuzzer, on stable Rust, and runs one target.
//!
//! All instrumentation flags exist in stable Rust, except for the address sanitizer:
//! `RUSTC_BOOTSTRAP=1` makes the stable compiler accept it. All files are in `target/fuzz/`: the
//! build, `seeds/TARGET` (copies of golden files, of `fuzz/seeds/TARGET`, which other programs
//! wrote, and of `fuzz/regressions/TARGET`), `corpus/TARGET` (inputs that reached new code; later
//! runs continue from it) and `artifacts/` (failing inputs).

use crate::tools::{self, Tool};
use crate::{Outcome, cargo, finish, root, shown};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Targets, and the golden files that each starts from: folders and suffixes of names.
const TARGETS: [(&str, &[(&str, &str)]); 15] = [
    ("query", &[]),
    ("request", &[]),
    ("partition", &[("", ".part.firn"), ("index/collection", ".part.firn")]),
    ("set", &[("", "2.firn"), ("index/collection", "3.firn")]),
    ("table", &[("", ".table"), ("../v2", ".table")]),
    ("segment", &[("log", ".log"), ("index/log", ".log")]),
    ("hint", &[("log", ".hint"), ("log", ".firn"), ("index/log", ".hint")]),
    ("manifest", &[("", ".json")]),
    ("redis", &[]),
    ("text", &[]),
    ("csv", &[]),
    ("jsonl", &[]),
    ("parquet", &[]),
    ("arrow", &[]),
    ("avro", &[]),
];

/// Seeds of the target `redis`: the length of the pieces, then a stream of commands.
const STREAMS: [&str; 4] = [
    "\x03*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n",
    "\x01get \"a\\x20b\\n\" 'it\\'s'\r\n\r\nPING\n*0\r\n",
    "\x05*2\r\n$5\r\na*[b]\r\n$2\r\nab\r\n*2\r\n$6\r\n-1.5e3\r\n$5\r\n0x1p3\r\n",
    "\x02*1\r\n$99999\r\n",
];

/// Seeds of the target `request`: the target of a request and the values of headers, one
/// per line, and a body.
const REQUESTS: [&str; 6] = [
    "/v1/logs/a/keys/a%2Fb\nlocalhost:7070\napplication/json;q=0.5, */*\n",
    "/v1/logs/a/keys/00ff?encoding=hex\n[::1]:80\ngzip, zstd;q=0\n",
    "/v1/tables/a/keys/_-8?encoding=base64url\ndb.example.org\napplication/openmetrics-text\n",
    "/v1/collections/a:search\n127.0.0.1\napplication/x-ndjson\n",
    "/v1/logs/a:mput\nlocalhost\n*/*\n\
     {\"put\":[{\"key\":\"a\",\"value\":\"b\",\"ttl\":1.5}],\"delete\":[\"c\"],\"sync\":true}",
    "/v1/collections/a:group\nlocalhost\n*/*\n\
     {\"where\":\"a = 1\",\"by\":\"b\",\"timeout_seconds\":1}",
];

/// Seeds of the readers of rows. Those of text begin with four bytes that select the dialect and
/// the size of reads. The target writes the files of columns from which mutations start.
const ROWS: [(&str, &[u8]); 14] = [
    ("text", b"\0\0\0\x03a\t1\r\n\nb\t2\tc\n\td\ne"),
    ("text", b"\x40\x01\0\x02a\0\t\0\x0a\x0a\n\0b\0\t\0"),
    ("csv", b"\0\0\0\x01a,b\r\n1,\"x\n\"\"y\"\"\"\r\n,\"\"\n\n2,\n"),
    ("csv", b"\x1a\0\x01\x05title\n# c\na,b\n\\N,x\\,y\n1\n"),
    ("csv", b"\x25\0\0\xff1;\"2\";\n3;4;;\n"),
    ("csv", b"\x40\x04\0\x02a,b\n\x8a\x7c,\x83\x5c\n"),
    (
        "csv",
        b"\xa0\0\0\x07,a\n0,\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
    ),
    ("jsonl", b"\0\0\0\x03{\"k\":\"a\",\"v\":[1,-0,1e400,{\"x\":null}]}\n\n{\"k\":{\"b\":2}}\n"),
    ("jsonl", b"\0\0\0\x09{\"key\":\"a\",\"value_hex\":\"00ff\",\"expires_at\":7}\n[1]\n{\n"),
    ("jsonl", b"\x40\x02\0\x01\0{\0\"\0a\0\"\0:\x001\0}\0\n"),
    ("parquet", b"PAR1"),
    ("arrow", b"ARROW1\0\0"),
    ("arrow", b"\xff\xff\xff\xff"),
    ("avro", b"Obj\x01"),
];

/// Default duration of a run, in seconds.
const SECONDS: u64 = 60;
/// Maximum length of an input in bytes; the largest golden file is not much shorter.
const MAX_LENGTH: usize = 256 << 10;
/// Timeout of one input in seconds: far longer than any input takes, as other programs may run.
const TIMEOUT: u32 = 30;
/// Memory limits in MiB of the process, most of it for the sanitizer, and of one allocation.
const MEMORY: [u32; 2] = [2048, 256];

const FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Zsanitizer=address",
];

/// Requirements of fuzzing in addition to those of the tests.
const TOOLS: [Tool; 1] =
    [Tool { program: "c++", packages: &["g++"], used_by: "the engine libFuzzer" }];

/// Names of the targets.
pub fn targets() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|(name, _)| *name)
}

/// An error if fuzzing is not possible on this machine.
pub fn missing() -> Outcome {
    if !cfg!(target_os = "linux") {
        return Err("the address sanitizer and libFuzzer are set up for Linux alone".to_string());
    }
    tools::check(&TOOLS)
}

/// `TARGET [--seconds N]` fuzzes; `TARGET FILE...` runs these inputs once.
pub fn run(args: &[&str]) -> Outcome {
    match args {
        [target] => fuzz(target, SECONDS),
        [target, "--seconds", seconds] => {
            let seconds = seconds.parse().map_err(|e| format!("--seconds {seconds}: {e}"))?;
            fuzz(target, seconds)
        }
        [target, files @ ..] if !files.is_empty() && !files[0].starts_with('-') => {
            let inputs = files.iter().map(|file| PathBuf::from(*file)).collect::<Vec<_>>();
            start(target, &[], &inputs)
        }
        _ => {
            let names = targets().collect::<Vec<_>>().join(", ");
            Err(format!("give one of {names}, then `--seconds N`, or files to run once"))
        }
    }
}

/// Fuzzes one target for `seconds`.
pub fn fuzz(target: &str, seconds: u64) -> Outcome {
    let corpus = place().join("corpus").join(target);
    let seeds = seeds(target)?;
    create(&corpus)?;
    let time = format!("-max_total_time={seconds}");
    start(target, &[&time, "-print_final_stats=1", "-verbosity=1"], &[corpus, seeds])
}

fn place() -> PathBuf {
    root().join("target/fuzz")
}

fn create(dir: &Path) -> Outcome {
    fs::create_dir_all(dir).map_err(|e| format!("cannot create {}: {e}", dir.display()))
}

/// Builds the program and runs it on these inputs, files or folders.
fn start(target: &str, args: &[&str], inputs: &[PathBuf]) -> Outcome {
    if !targets().any(|name| name == target) {
        return run(&[]).map_err(|message| format!("there is no target `{target}`: {message}"));
    }
    missing()?;
    let program = build()?;
    let artifacts = place().join("artifacts");
    create(&artifacts)?;
    let scratch = Scratch::new()?;
    let mut command = Command::new(program);
    command.current_dir(root()).env("FIRNDB_FUZZ", target).env("FIRNDB_FUZZ_SCRATCH", &scratch.0);
    command.arg(format!("-max_len={MAX_LENGTH}")).arg(format!("-timeout={TIMEOUT}"));
    command.arg(format!("-rss_limit_mb={}", MEMORY[0]));
    command.arg(format!("-malloc_limit_mb={}", MEMORY[1]));
    command.arg(format!("-artifact_prefix={}/{target}-", artifacts.display()));
    // Threads of a store may still hold memory when the process ends.
    command.arg("-detect_leaks=0").args(args).args(inputs);
    finish(&mut command).map_err(|message| {
        format!(
            "{message}; the input is the newest file in {}: `cargo xtask fuzz {target} FILE` runs \
             it again",
            artifacts.display()
        )
    })
}

/// A directory for the files of a run, in memory if there is a suitable file system.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, String> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let dir = parent.join(format!("firndb-fuzz-run-{}", std::process::id()));
        create(&dir)?;
        Ok(Scratch(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The compiler's target triple of this machine.
fn host() -> Result<String, String> {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(root()).arg("-vV");
    let out = rustc.output().map_err(|e| format!("cannot start {}: {e}", shown(&rustc)))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).ok_or_else(|| "rustc -vV names no host".to_string())
}

/// The program with all targets.
fn build() -> Result<PathBuf, String> {
    let host = host()?;
    // With an explicit target, the flags do not apply to build scripts.
    let mut command = cargo(&["build", "--release", "--locked", "--manifest-path"]);
    command.arg(root().join("fuzz/Cargo.toml")).args(["--target", &host, "--target-dir"]);
    command.arg(place());
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS.join(" "));
    command.env_remove("CARGO_ENCODED_RUSTFLAGS");
    finish(&mut command)?;
    Ok(place().join(host).join("release/firndb-fuzz"))
}

/// Creates the folder of a target's seeds.
fn seeds(target: &str) -> Result<PathBuf, String> {
    let to = place().join("seeds").join(target);
    let _ = fs::remove_dir_all(&to);
    create(&to)?;
    let golden = root().join("crates/firndb/tests/golden/v1");
    let places = TARGETS.iter().find(|(name, _)| *name == target).map_or(&[][..], |(_, p)| *p);
    for (folder, end) in places {
        copy(&golden.join(folder), end, &folder.replace('/', "-"), &to)?;
    }
    for kind in ["seeds", "regressions"] {
        let from = root().join("fuzz").join(kind).join(target);
        if from.is_dir() {
            copy(&from, "", kind, &to)?;
        }
    }
    if target == "request" {
        for (n, request) in REQUESTS.iter().enumerate() {
            fs::write(to.join(n.to_string()), request).map_err(|e| format!("a seed: {e}"))?;
        }
    }
    for (n, (_, seed)) in ROWS.iter().enumerate().filter(|(_, (name, _))| *name == target) {
        fs::write(to.join(n.to_string()), seed).map_err(|e| format!("a seed: {e}"))?;
    }
    if target == "query" {
        let path = golden.join("answers.txt");
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        for (n, query) in questions(&text).iter().enumerate() {
            fs::write(to.join(n.to_string()), query).map_err(|e| format!("a seed: {e}"))?;
        }
    }
    if target == "redis" {
        for (n, stream) in STREAMS.iter().enumerate() {
            fs::write(to.join(n.to_string()), stream).map_err(|e| format!("a seed: {e}"))?;
        }
    }
    Ok(to)
}

/// Copies the files with a suffix; the names of the copies start with `prefix`.
fn copy(from: &Path, end: &str, prefix: &str, to: &Path) -> Outcome {
    let wrong = |e: std::io::Error| format!("cannot copy seeds of {}: {e}", from.display());
    for entry in from.read_dir().map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && name.ends_with(end) {
            fs::copy(entry.path(), to.join(format!("{prefix}-{name}"))).map_err(wrong)?;
        }
    }
    Ok(())
}

/// The queries and filters of golden query files: lines of `? VERB [FIELDS] TEXT`.
fn questions(text: &str) -> Vec<String> {
    let questions = text.lines().filter_map(|line| line.strip_prefix("? "));
    let text_of = |line: &str| {
        let (verb, rest) = line.split_once(' ')?;
        let fields = match verb {
            "values" | "facet" => 1,
            "group" => 2,
            _ => 0,
        };
        rest.splitn(fields + 1, ' ').nth(fields).map(str::to_string)
    };
    questions.filter_map(text_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_in_the_program_and_has_seeds() {
        let program = fs::read_to_string(root().join("fuzz/src/main.rs")).unwrap();
        for target in targets() {
            assert!(program.contains(&format!("name: \"{target}\"")), "{target}");
            let count = seeds(target).unwrap().read_dir().unwrap().count();
            assert!(count > 0, "{target} has no seeds");
        }
        let in_program = program.matches("Target { name:").count();
        assert_eq!(in_program, TARGETS.len(), "a target that the verb does not know");
    }

    #[test]
    fn questions_are_stripped_of_their_verbs() {
        let text = "# Head\n? count a = 1\n5\n? facet city b = 2 limit 3\n? group a b all\nx\n";
        assert_eq!(questions(text), ["a = 1", "b = 2 limit 3", "all"]);
    }
}
