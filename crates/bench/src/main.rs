//! `firn-bench`: runs the benchmarks, and is itself the engines FirnDB and floor.

use clap::{Args, Parser, Subcommand};
use firndb_bench::child::Launcher;
use firndb_bench::floor::Floor;
use firndb_bench::ours::Ours;
use firndb_bench::peers::Peers;
use firndb_bench::runner::{self, Options};
use firndb_bench::{chart, markdown};
use firndb_bench_protocol::{Result, serve};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Parser)]
#[command(about = "Benchmarks of FirnDB beside its peers")]
enum Cli {
    #[command(flatten)]
    Command(Command),
}

#[derive(Subcommand)]
enum Command {
    /// Collection: filters, counts and pages over car offers, and Table 1 of the YoctoDB paper.
    Search(Search),
    /// Answers jobs on standard input, as a child process of the runner.
    #[command(hide = true)]
    Engine {
        /// `floor`, `firndb-N` or `firndb-N-zstd` for N partitions.
        name: String,
    },
}

#[derive(Args)]
struct Search {
    /// Rows of each data set.
    #[arg(long, default_value_t = 1_000_000)]
    size: u64,
    /// Queries of each kind.
    #[arg(long, default_value_t = 1000)]
    queries: usize,
    /// Peers to run beside FirnDB; `none` for none. All below `peers/` if not given.
    #[arg(long, value_delimiter = ',')]
    peers: Option<Vec<String>>,
    /// Run FirnDB with these numbers of partitions; `N-zstd` also compresses payloads, `none` not
    /// at all.
    #[arg(long, value_delimiter = ',', default_value = "1,64,1024")]
    partitions: Vec<String>,
    /// How often each kind of query is timed with each engine.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Milliseconds for one engine to answer one kind in one round; slow ones answer fewer queries.
    #[arg(long, default_value_t = 2000)]
    budget: u64,
    /// Write the figures to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the figures to this file as a page of Markdown.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Draw the medians to this file as SVG.
    #[arg(long)]
    chart: Option<PathBuf>,
    /// Use what FirnDB built in an earlier run; peers always do, unless they changed.
    #[arg(long)]
    reuse: bool,
}

fn main() -> Result<()> {
    let Cli::Command(command) = Cli::parse();
    match command {
        Command::Search(search) => run(&search),
        Command::Engine { name } if name == "floor" => serve(&Floor),
        Command::Engine { name } => {
            serve(&Ours::parse(&name).ok_or_else(|| format!("there is no engine `{name}`"))?)
        }
    }
}

fn run(search: &Search) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let program = std::env::current_exe()?;
    let target = root.join("target");
    let own = |name: String| Launcher {
        arguments: vec!["engine".into(), name.clone()],
        program: program.clone(),
        name,
    };
    let ours = search
        .partitions
        .iter()
        .filter(|n| *n != "none")
        .map(|partitions| format!("firndb-{partitions}"));
    let mut engines: Vec<Launcher> = ours.chain(["floor".to_string()]).map(own).collect();
    engines.extend(build_peers(search, Peers { root, target: target.clone() }));
    let report = runner::run(&Options {
        dir: target.join("bench"),
        size: search.size,
        per_kind: search.queries,
        rounds: search.rounds,
        budget: Duration::from_millis(search.budget),
        // About three seconds of looking at every row.
        brute: (100_000_000 / search.size.max(1)) as usize,
        reuse: search.reuse,
        engines,
    })?;
    println!("{}", report.tables());
    let files = [
        (&search.json, format!("{:#}\n", report.json())),
        (&search.markdown, markdown::page(&report, search.chart.as_deref())),
        (&search.chart, chart::svg(&report)),
    ];
    for (path, text) in files {
        path.iter().try_for_each(|path| std::fs::write(path, &text))?;
    }
    Ok(())
}

/// The peers that can be built; of each other one a line says why not.
fn build_peers(search: &Search, peers: Peers) -> Vec<Launcher> {
    let names = search.peers.clone().unwrap_or_else(|| peers.names());
    let built = names.iter().filter(|name| *name != "none").map(|name| (name, peers.build(name)));
    let launcher = |(name, built): (&String, Result<Launcher>)| match built {
        Ok(launcher) => Some(launcher),
        Err(error) => {
            eprintln!("peer {name} is left out: {error}");
            None
        }
    };
    built.filter_map(launcher).collect()
}
