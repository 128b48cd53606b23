//! Runs the process that holds the store: it fills, closes, opens again, and is killed while it
//! writes.

use super::formulas::Shape;
use super::report::{Outcome, Report};
use super::{engine, probe};
use crate::child::{Child, Launcher, text};
use crate::machine;
use crate::units::bytes;
use firndb_bench_protocol::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Parameters of a run.
pub struct Options {
    /// The path of this program.
    pub program: PathBuf,
    /// Directory of the store; removed afterwards.
    pub dir: PathBuf,
    /// The records.
    pub shape: Shape,
    /// Seconds of writing before the process is killed.
    pub seconds: u64,
    /// Milliseconds of each measurement of gets from disk.
    pub millis: u64,
}

/// Figures by name; times are nanoseconds, sizes bytes.
pub type Figures = BTreeMap<String, f64>;

/// Numbers of threads of gets from disk.
pub const THREADS: [u64; 2] = [1, 16];
/// Measurements of gets from disk per number of threads.
const ROUNDS: usize = 3;
/// Gets of absent keys.
const ABSENT: u64 = 1_000_000;
/// Records that are compared after the store was closed and opened.
const COMPARED: u64 = 20_000;
/// A measurement of gets from disk reads at most this share of the log's regions.
const SHARE: u64 = 30;
/// Pause between the fill and the first sizes, in which maintenance catches up.
const REST: Duration = Duration::from_secs(2);

/// Runs everything, or nothing if disk or memory do not suffice.
pub fn run(options: &Options) -> Result<Outcome> {
    let parent = options.dir.parent().ok_or("a directory without a parent")?;
    std::fs::create_dir_all(parent)?;
    remove(&options.dir)?;
    let space = rustix::fs::statvfs(parent)?;
    let free = space.f_bavail * space.f_frsize;
    let memory = machine::available_memory().unwrap_or(u64::MAX);
    if let Some(reason) = lacks(options.shape, free, memory) {
        return Ok(Outcome::Skipped(reason));
    }
    let figures = measure(options);
    remove(&options.dir)?;
    remove_file(&journal(&options.dir))?;
    Ok(Outcome::Measured(Report { shape: options.shape, figures: figures? }))
}

/// What the machine lacks for a store of this shape, in words.
fn lacks(shape: Shape, free: u64, memory: u64) -> Option<String> {
    // Besides the formulas: writing until the kill, the process itself, and a margin.
    let disk = (shape.disk() * 1.12) as u64 + (2 << 30);
    let index = (shape.memory() * 1.05) as u64 + (512 << 20);
    let mut lacks = Vec::new();
    if free < disk {
        lacks.push(format!("{} of disk are needed, {} are free", bytes(disk), bytes(free)));
    }
    if memory < index {
        let (needed, there) = (bytes(index), bytes(memory));
        lacks.push(format!("{needed} of memory are needed, {there} are available"));
    }
    (!lacks.is_empty()).then(|| lacks.join("; "))
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<()> {
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

fn journal(dir: &Path) -> PathBuf {
    dir.with_extension("journal")
}

/// The process, and what it has reported.
struct Run {
    child: Child,
    figures: Figures,
}

impl Run {
    /// Does a job, and keeps its figures, `suffix` added to their names.
    fn job(&mut self, job: &[&str], suffix: &str) -> Result<()> {
        let start = Instant::now();
        self.child.send(job)?;
        let line = self.child.line()?;
        if line[0] != "figures" {
            return Err(self.child.unexpected(&line));
        }
        for field in &line[1..] {
            let (name, value) = field.split_once('=').ok_or("a figure without a value")?;
            self.figures.insert(format!("{name}{suffix}"), self.child.number(value)?);
        }
        eprintln!("{}{suffix}: {:.1} s", job.join(" "), start.elapsed().as_secs_f64());
        Ok(())
    }
}

fn measure(options: &Options) -> Result<Figures> {
    let launcher = Launcher {
        name: "firndb".into(),
        program: options.program.clone(),
        arguments: vec!["engine".into(), "scale".into(), "firndb".into()],
    };
    let start = |figures| -> Result<Run> {
        let mut run = Run { child: launcher.start()?, figures };
        let (keys, value) = (options.shape.keys.to_string(), options.shape.value.to_string());
        run.job(&["start", &text(&options.dir), &keys, &value], "")?;
        Ok(run)
    };
    let absent = ABSENT.to_string();
    let mut run = start(Figures::new())?;
    run.job(&["open"], " empty")?;
    run.job(&["size"], " empty")?;
    run.job(&["fill"], "")?;
    std::thread::sleep(REST);
    run.job(&["size"], "")?;
    run.job(&["absent", &absent], "")?;
    run.job(&["close"], "")?;

    let mut run = start(run.figures)?;
    run.job(&["open"], " after close")?;
    run.job(&["size"], " after close")?;
    run.job(&["absent", &absent], " after close")?;
    run.job(&["check", &COMPARED.to_string()], "")?;
    from_disk(&mut run, options)?;

    let journal = journal(&options.dir);
    run.child.send(&["write", &text(&journal)])?;
    std::thread::sleep(Duration::from_secs(options.seconds));
    // Dropping a child kills it.
    let Run { child, figures } = run;
    drop(child);

    let mut run = start(figures)?;
    run.job(&["open"], " after kill")?;
    run.job(&["recheck", &text(&journal)], "")?;
    run.job(&["size"], " after kill")?;
    run.job(&["close"], " last")?;
    Ok(run.figures)
}

/// Gets that each read from disk, alternating with reads of the disk itself.
fn from_disk(run: &mut Run, options: &Options) -> Result<()> {
    run.job(&["close"], " cold")?;
    run.job(&["evict"], "")?;
    run.job(&["open"], " cold")?;
    let log = options.shape.keys as f64 * options.shape.record();
    let most = ((log / engine::REGION) as u64 / SHARE).max(1).to_string();
    let millis = options.millis.to_string();
    for threads in THREADS {
        let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for _ in 0..ROUNDS {
            match probe::reads(&options.dir, threads, options.millis) {
                Ok(rate) => found.entry(format!("disk rate {threads}")).or_default().push(rate),
                Err(error) => eprintln!("there are no figures of the disk itself: {error}"),
            }
            run.job(&["get", &threads.to_string(), &most, &millis], &format!(" {threads}"))?;
            for name in ["gets", "rate", "read", "faults"].map(|name| format!("{name} {threads}")) {
                let value = run.figures[&name];
                found.entry(name).or_default().push(value);
            }
        }
        for (name, mut values) in found {
            values.sort_by(f64::total_cmp);
            run.figures.insert(name, values[values.len() / 2]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_too_small_is_reported_with_what_is_needed_and_what_is_there() {
        let shape = Shape { keys: 1_000_000_000, value: 16 };
        assert_eq!(lacks(shape, 60 << 30, 20 << 30), None);
        let text = lacks(shape, 10 << 30, 20 << 30).unwrap();
        assert!(text.contains("GB of disk are needed, 10.74 GB are free"), "{text}");
        let text = lacks(shape, 10 << 30, 4 << 30).unwrap();
        assert!(text.contains("are free; 11.") && text.contains("4.29 GB are available"), "{text}");
    }
}
