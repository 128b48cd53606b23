//! The benchmark of the Java library: its jar in release mode, and a project that measures it
//! beside other libraries, which Maven gets.

use crate::{Outcome, cargo, finish, root, shown};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The library, from the root.
const LIBRARY: &str = "bindings/java";

/// Builds and runs the benchmark. Without Java, Maven or one of the libraries it is skipped.
pub fn bench(args: &[&str]) -> Outcome {
    if let Err(why) = missing() {
        return skip(&why);
    }
    let mut build = cargo(&["build", "--release", "--locked"]);
    finish(build.args(["-p", "firndb-java", "-p", "firndb-bench"]))?;
    let dir = root().join("target/bench-java");
    let project = dir.join("project");
    if let Err(failure) = package(&dir.join("library")).and_then(|jar| compile(&project, &jar)) {
        return match failure {
            Failure::Artifacts => skip("Maven cannot get its plugins or a library"),
            Failure::Other(message) => Err(message),
        };
    }
    let file = project.join("class-path");
    let libraries = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let paths = std::iter::once(project.join("classes"));
    let paths = std::env::join_paths(paths.chain(std::env::split_paths(libraries.trim())));
    let mut bench = Command::new(root().join("target/release/firn-bench"));
    bench.arg("java").arg("--java").arg(program("java"));
    bench.arg("--class-path").arg(paths.map_err(|e| e.to_string())?).args(args);
    finish(bench.current_dir(root()))
}

fn skip(why: &str) -> Outcome {
    println!("skipped: bench java: {why}");
    Ok(())
}

/// A program of the JDK.
fn program(name: &str) -> PathBuf {
    match std::env::var_os("JAVA_HOME") {
        Some(home) => Path::new(&home).join("bin").join(name),
        None => PathBuf::from(name),
    }
}

/// The error says what the machine lacks.
fn missing() -> Outcome {
    let works = |program: &Path, arg: &str| {
        let out = Command::new(program).arg(arg).output();
        out.ok().filter(|out| out.status.success()).map(|out| [out.stdout, out.stderr].concat())
    };
    let version = works(&program("javac"), "-version").ok_or("there is no JDK")?;
    let version = String::from_utf8_lossy(&version);
    if !matches!(major(&version), Some(17..)) {
        return Err(format!("{} is older than Java 17", version.trim()));
    }
    works(Path::new("mvn"), "--version")
        .map(drop)
        .ok_or("there is no mvn (on Debian: maven)".into())
}

/// The 17 of `javac 17.0.15`.
fn major(text: &str) -> Option<u32> {
    text.split_whitespace().find_map(|word| word.split(['.', '-']).next()?.parse().ok())
}

/// Why Maven failed.
enum Failure {
    /// It does not have a plugin or a library, and cannot get it.
    Artifacts,
    Other(String),
}

/// Makes the jar of the library, with the native library in release mode, in `dir`.
fn package(dir: &Path) -> Result<PathBuf, Failure> {
    maven(
        &root().join(LIBRARY),
        "package",
        &[
            ("maven.test.skip", "true".into()),
            ("maven.javadoc.skip", "true".into()),
            ("maven.source.skip", "true".into()),
            ("firndb.skip.cargo", "true".into()),
            ("firndb.profile", "release".into()),
            ("firndb.cargo.target", root().join("target").into()),
            ("firndb.build", dir.into()),
        ],
    )?;
    let jars = dir.read_dir().map_err(|e| Failure::Other(format!("{}: {e}", dir.display())))?;
    let paths = jars.filter_map(|entry| Some(entry.ok()?.path()));
    let jars: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "jar")).collect();
    match &jars[..] {
        [jar] => Ok(jar.clone()),
        _ => Err(Failure::Other(format!("not one jar: {jars:?}"))),
    }
}

/// Compiles the project in `dir`, and writes its class path there.
fn compile(dir: &Path, jar: &Path) -> Result<(), Failure> {
    let settings = [("firndb.build", dir.into()), ("firndb.jar", jar.into())];
    maven(&root().join(LIBRARY).join("bench"), "process-classes", &settings)
}

/// Runs Maven with what earlier runs have downloaded, and once more if that is not all.
fn maven(folder: &Path, phase: &str, settings: &[(&str, OsString)]) -> Result<(), Failure> {
    match run_maven(folder, &["--offline", phase], settings) {
        Err(Failure::Artifacts) => run_maven(folder, &[phase], settings),
        other => other,
    }
}

fn run_maven(folder: &Path, args: &[&str], settings: &[(&str, OsString)]) -> Result<(), Failure> {
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--quiet"]).args(args).current_dir(folder);
    for (name, value) in settings {
        let mut setting = OsString::from(format!("-D{name}="));
        setting.push(value);
        command.arg(setting);
    }
    let out = command.stderr(Stdio::inherit()).output();
    let out = out.map_err(|e| Failure::Other(format!("cannot start {}: {e}", shown(&command))))?;
    if out.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&out.stdout);
    if lacks_artifacts(&text) {
        return Err(Failure::Artifacts);
    }
    Err(Failure::Other(format!("{text}\n{} ended with {}", shown(&command), out.status)))
}

/// Whether the output of Maven says that it does not have a plugin or a library.
fn lacks_artifacts(text: &str) -> bool {
    let causes = [
        "could not be resolved",
        "Could not resolve",
        "Could not transfer artifact",
        "Unable to load the mojo",
    ];
    let errors = text.lines().filter(|line| line.starts_with("[ERROR]"));
    errors.into_iter().any(|line| causes.iter().any(|cause| line.contains(cause)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_java_is_found() {
        assert_eq!(major("javac 17.0.15\n"), Some(17));
        assert_eq!(major("javac 26-ea"), Some(26));
        assert_eq!(major("javac"), None);
    }

    #[test]
    fn only_errors_about_artifacts_are_a_reason_to_try_again() {
        let text = "[ERROR] Failed to execute goal on project firndb-bench: Could not resolve \
                    dependencies for project io.firndb:firndb-bench:jar:0.1.0";
        assert!(lacks_artifacts(text));
        assert!(!lacks_artifacts("[ERROR] COMPILATION ERROR"));
        assert!(!lacks_artifacts("[WARNING] x could not be resolved"));
    }
}
