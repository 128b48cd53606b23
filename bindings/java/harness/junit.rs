//! Runs the JUnit tests of the Java library with Maven, as a test program of cargo.
//!
//! The tests use the native library that cargo built with this program. What Maven makes is under
//! `target/java`. The output of Maven is passed through, and the last line is like that of cargo's
//! own test programs, which `cargo xtask test` adds to its total.
//!
//! Without a JDK of at least Java 17, without Maven, or if Maven cannot get its plugins, the tests
//! are skipped. `JAVA_HOME` chooses the JDK, and `FIRNDB_JAVA` the `java` of a newer one for the
//! tests that start other JVMs. `cargo test -p firndb-java -- NAME` runs the test classes and
//! methods whose name contains NAME.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

fn main() -> ExitCode {
    let start = Instant::now();
    let counts = match able() {
        Ok(()) => junit(),
        Err(why) => Ok(skipped(&why)),
    };
    let counts = counts.unwrap_or_else(|why| {
        println!("{why}");
        Counts { failed: 1, ..Counts::default() }
    });
    let Counts { passed, failed, skipped } = counts;
    println!(
        "\ntest result: {}. {passed} passed; {failed} failed; {skipped} ignored; 0 measured; \
         0 filtered out; finished in {:.2}s\n",
        if failed == 0 { "ok" } else { "FAILED" },
        start.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Counts of tests that cannot run here.
fn skipped(why: &str) -> Counts {
    println!("skipped: junit: {why}");
    Counts { passed: 1, ..Counts::default() }
}

/// Why the tests cannot run, if they cannot.
fn able() -> Result<(), String> {
    let javac = match env::var_os("JAVA_HOME") {
        Some(home) => Path::new(&home).join("bin/javac"),
        None => PathBuf::from("javac"),
    };
    let version = answer(Command::new(javac).arg("-version")).ok_or("there is no JDK")?;
    match java_version(&version) {
        Some(17..) => {}
        _ => return Err(format!("{} is older than Java 17", version.trim())),
    }
    match answer(Command::new("mvn").arg("--version")) {
        Some(_) => Ok(()),
        None => Err("there is no mvn (on Debian: maven)".to_string()),
    }
}

/// The 17 of `javac 17.0.15`.
fn java_version(text: &str) -> Option<u32> {
    text.split_whitespace().find_map(|word| word.split('.').next()?.parse().ok())
}

/// What a program writes, if it succeeds.
fn answer(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Runs the tests.
fn junit() -> Result<Counts, String> {
    let first = maven(&["--offline"])?;
    // Without the network Maven uses what earlier runs have downloaded; that may not be all.
    let run = if first.lacks_artifacts { maven(&[])? } else { first };
    if run.lacks_artifacts {
        return Ok(skipped("Maven cannot get its plugins (is Maven Central reachable?)"));
    }
    match run.counts {
        Some(counts) if run.succeeded || counts.failed > 0 => Ok(counts),
        _ => Err("Maven failed".to_string()),
    }
}

/// What a run of Maven did.
struct Run {
    succeeded: bool,
    lacks_artifacts: bool,
    counts: Option<Counts>,
}

fn maven(options: &[&str]) -> Result<Run, String> {
    let deps = env::current_exe().map_err(|e| e.to_string())?;
    let deps = deps.parent().expect("a test program is in a directory").to_path_buf();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory");
    let library = format!("{}firndb_java{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--no-transfer-progress"]).args(options);
    command.args(["test", "-Dfirndb.skip.cargo=true", "-DfailIfNoTests=false"]);
    command.arg("-Dsurefire.failIfNoSpecifiedTests=false");
    command.arg(setting("firndb.built.dir", &deps));
    command.arg(format!("-Dfirndb.built.file={library}"));
    command.arg(setting("firndb.build", &target.join("java")));
    command.args(selection(env::args_os().skip(1)));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("cannot start mvn: {e}"))?;
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut run = Run { succeeded: false, lacks_artifacts: false, counts: None };
    for line in output.lines() {
        let line = line.map_err(|e| format!("cannot read the output of Maven: {e}"))?;
        println!("{line}");
        run.lacks_artifacts |= is_about_artifacts(&line);
        run.counts = Counts::parse(&line).or(run.counts);
    }
    run.succeeded = child.wait().map_err(|e| e.to_string())?.success();
    // A selection may be empty.
    if run.succeeded && run.counts.is_none() {
        run.counts = Some(Counts::default());
    }
    Ok(run)
}

fn setting(name: &str, value: &Path) -> OsString {
    let mut setting = OsString::from(format!("-D{name}="));
    setting.push(value);
    setting
}

/// Whether a line says that Maven does not have a plugin or a library.
fn is_about_artifacts(line: &str) -> bool {
    let causes = [
        "could not be resolved",
        "Could not resolve",
        "Could not transfer artifact",
        "Unable to load the mojo",
    ];
    line.starts_with("[ERROR]") && causes.iter().any(|cause| line.contains(cause))
}

/// The arguments of Maven for those of a test program of cargo: names select tests.
fn selection(args: impl Iterator<Item = OsString>) -> Option<String> {
    let names: Vec<String> = args.filter_map(|arg| arg.into_string().ok()).collect();
    let patterns = names.iter().filter(|arg| !arg.starts_with('-'));
    let patterns: Vec<String> =
        patterns.flat_map(|name| [format!("*{name}*"), format!("*#*{name}*")]).collect();
    (!patterns.is_empty()).then(|| format!("-Dtest={}", patterns.join(",")))
}

/// What JUnit counted.
#[derive(Clone, Copy, Default)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// Reads the total of Surefire: `Tests run: 9, Failures: 0, Errors: 1, Skipped: 0`. The line of
    /// a class goes on with the time.
    fn parse(line: &str) -> Option<Counts> {
        let (_, list) = line.split_once("Tests run: ").filter(|(_, l)| !l.contains("Time"))?;
        let mut numbers = list.split(", ").map(|part| {
            part.rsplit(' ').next().and_then(|number| number.trim().parse::<u64>().ok())
        });
        let mut next = || numbers.next().flatten();
        let (run, failures, errors, skipped) = (next()?, next()?, next()?, next()?);
        let failed = failures + errors;
        Some(Counts { passed: run.saturating_sub(failed + skipped), failed, skipped })
    }
}
