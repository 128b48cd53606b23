//! `firn-bench`: runs the benchmarks, and contains the engines FirnDB and floor.

use clap::{Args, Parser, Subcommand};
use firndb_bench::bindings::page::Read;
use firndb_bench::bindings::{self, java, python};
use firndb_bench::child::Launcher;
use firndb_bench::ordered::{self, Part};
use firndb_bench::outputs::{self, Outputs};
use firndb_bench::peers::Peers;
use firndb_bench::scale::report::Outcome;
use firndb_bench::{chart, index, log, machine, scale, search, serve, table, units};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::Workload as LogWorkload;
use firndb_bench_protocol::table::Workload;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Parser)]
#[command(about = "Benchmarks of FirnDB against its peers")]
enum Cli {
    #[command(flatten)]
    Command(Command),
}

#[derive(Subcommand)]
enum Command {
    /// Collection: filters, counts and pages over car offers, and Table 1 of the YoctoDB paper.
    Search(Search),
    /// Table: gets of random keys from records that are built once.
    Table(Table),
    /// LogStore: puts, updates and gets of random keys.
    Log(Log),
    /// LogStore: one large store, compared with its limits; with `--keys`, one of any size.
    Limits(Limits),
    /// Ordered log stores and tables: puts, scans of a prefix and of all records.
    Ordered(Ordered),
    /// Indexer: latency of changes, and their effect on concurrent queries.
    Index(Index),
    /// Catalog: query latency while a reader switches to new versions.
    Swaps(Swaps),
    /// Server: HTTP beside nginx, the Redis protocol beside redis-server, batches, searches.
    Serve(Serve),
    /// Python package: gets, puts and builds beside lmdb, rocksdict and the command line.
    Python(Python),
    /// Java library: gets and puts beside rocksdbjni and lmdbjava.
    Java(Java),
    /// Prints the time of a page of hits in Rust, for the benchmarks of the packages.
    #[command(hide = true)]
    Page {
        /// The collection.
        collection: PathBuf,
        /// The query, as text.
        query: String,
        /// The fields to read; by default none.
        #[arg(value_delimiter = ',')]
        fields: Vec<String>,
        /// Read the payloads.
        #[arg(long, conflicts_with = "fields")]
        payloads: bool,
        /// Pages to read.
        #[arg(long)]
        pages: u32,
    },
    /// Answers jobs on standard input, as a child process of the runner.
    #[command(hide = true)]
    Engine {
        /// `search`, `table` or `log`.
        bench: String,
        /// `floor`; for search `firndb-N` or `firndb-N-zstd` for N partitions; for table `firndb`
        /// with any of `-resident`, `-direct`, `-filter8`, `-zstd`, `-zstdblocks`; for log
        /// `firndb`.
        name: String,
        /// For `log-limits` and `log-slow-puts`, whose name is a directory.
        records: Option<u64>,
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
    /// Peers to compare FirnDB with; `none` for none.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values = search::PEERS)]
    peers: Vec<String>,
    /// Install `fio` and the Debian packages that the peers need, with apt-get.
    #[arg(long)]
    install: bool,
    /// Run FirnDB with these numbers of partitions; `N-zstd` also compresses payloads; `none` for
    /// no FirnDB engine.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_value = "1,64,1024")]
    partitions: Vec<String>,
    /// Rounds, in each of which every engine answers every kind of query.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Milliseconds per engine, kind of query and round; slow engines answer fewer queries.
    #[arg(long, default_value_t = 2000)]
    budget: u64,
    #[command(flatten)]
    outputs: Outputs,
    /// Reuse what FirnDB built in an earlier run; peers always do, unless they changed.
    #[arg(long)]
    reuse: bool,
}

#[derive(Args)]
struct Table {
    /// Records of the workload `small`; `json` has a twentieth of them, `large` a hundredth.
    #[arg(long, default_value_t = Workload::Small.records())]
    records: u64,
    /// Workloads.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_value = "small,json,large")]
    workloads: Vec<Workload>,
    /// Peers to compare FirnDB with; `none` for none.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values = table::PEERS)]
    peers: Vec<String>,
    /// Install `fio` and the Debian packages that the peers need, with apt-get.
    #[arg(long)]
    install: bool,
    /// Configurations of FirnDB, and `floor`; `none` for none.
    #[arg(
        long,
        value_delimiter = ',',
        num_args = 1..,
        default_values = [&table::OURS[..], &["floor"]].concat()
    )]
    ours: Vec<String>,
    /// Rounds of measurements of each kind of get, in each of the three passes.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Milliseconds per measurement; percentiles take up to four times as long, gets from disk
    /// three times.
    #[arg(long, default_value_t = 500)]
    budget: u64,
    /// Reuse the figures of workloads that an earlier run measured with the same engines and
    /// parameters.
    #[arg(long)]
    reuse: bool,
    #[command(flatten)]
    outputs: Outputs,
}

#[derive(Args)]
struct Log {
    /// Records of the workload `small`; `large` has a fifth of them, `huge` a fiftieth, `growing`
    /// two fifths.
    #[arg(long, default_value_t = LogWorkload::Small.records())]
    records: u64,
    /// Workloads.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_value = "small,large,huge,growing")]
    workloads: Vec<LogWorkload>,
    /// Peers to compare FirnDB with; `none` for none.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values = log::PEERS)]
    peers: Vec<String>,
    /// Install `fio` and the Debian packages that the peers need, with apt-get.
    #[arg(long)]
    install: bool,
    /// Rounds of measurements of gets, interleaved with the other engines.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Milliseconds per measurement of gets.
    #[arg(long, default_value_t = 1000)]
    budget: u64,
    /// Maximum milliseconds for filling, and for updating.
    #[arg(long, default_value_t = 30_000)]
    write_budget: u64,
    /// Reuse the figures of engines that an earlier run measured in the same version.
    #[arg(long)]
    reuse: bool,
    #[command(flatten)]
    outputs: Outputs,
}

#[derive(Args)]
struct Limits {
    /// Records of 100 bytes.
    #[arg(long, default_value_t = 20_000_000)]
    records: u64,
    /// Instead: a store with this many keys of 8 bytes, a billion for example. Memory per key,
    /// longest put, reads per get, openings after a close and a kill, compared with bounds and
    /// formulas. Skipped if disk or memory do not suffice.
    #[arg(long, conflicts_with_all = ["records", "sync_seconds"])]
    keys: Option<u64>,
    /// Bytes of a value of `--keys`, at least 16.
    #[arg(long, default_value_t = 16, requires = "keys")]
    value: usize,
    /// Write the figures of `--keys` to this file as JSON.
    #[arg(long, requires = "keys")]
    json: Option<PathBuf>,
    /// Seconds of updates before the process is killed.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Seconds of each of the six measurements of synced puts.
    #[arg(long, default_value_t = 5)]
    sync_seconds: u64,
}

#[derive(Args)]
struct Ordered {
    /// Records, a hundred per prefix.
    #[arg(long, default_value_t = 5_000_000)]
    records: u64,
    /// Parts to run.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_value = "log,table")]
    parts: Vec<Part>,
    /// Peers to compare FirnDB with; `none` for none.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values = ordered::PEERS)]
    peers: Vec<String>,
    /// Install the Debian packages that the peers need, with apt-get.
    #[arg(long)]
    install: bool,
    /// Rounds, in each of which every engine fills a store and builds a table.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Milliseconds per measurement of scans of prefixes.
    #[arg(long, default_value_t = 1000)]
    budget: u64,
    /// Write the figures to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write a page with the figures to this file, as Markdown.
    #[arg(long)]
    markdown: Option<PathBuf>,
}

#[derive(Args)]
struct Index {
    /// Documents of the index; later runs reuse it.
    #[arg(long, default_value_t = 1_024_000)]
    documents: u64,
    /// Partitions of the index.
    #[arg(long, default_value_t = 1024)]
    partitions: u32,
    /// Number of single changes to time.
    #[arg(long, default_value_t = 50)]
    changes: i64,
    /// Partitions that change per second during the queries.
    #[arg(long, default_value_t = 20)]
    dirty: usize,
    /// Seconds without and with changes, in each round.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds; many short rounds cancel out the variation of the machine.
    #[arg(long, default_value_t = 12)]
    rounds: u64,
    /// Write a page with the figures to this file, as Markdown.
    #[arg(long)]
    markdown: Option<PathBuf>,
}

#[derive(Args)]
struct Swaps {
    /// Documents of the index, which is that of `index`.
    #[arg(long, default_value_t = 1_024_000)]
    documents: u64,
    /// Partitions of the index.
    #[arg(long, default_value_t = 1024)]
    partitions: u32,
    /// Queries per second.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Seconds of each measurement, with a switch per second.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

#[derive(Args)]
struct Serve {
    /// Parts to run.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values = serve::PARTS)]
    parts: Vec<String>,
    /// The program `firn-serve`; by default the one next to this program.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds, in each of which every server is measured.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Documents of the collection that is searched.
    #[arg(long, default_value_t = 1_000_000)]
    documents: u64,
    /// Write a page with the figures to this file, as Markdown.
    #[arg(long)]
    markdown: Option<PathBuf>,
}

#[derive(Args)]
struct Python {
    /// The Python of an environment with the packages; `cargo xtask bench python` makes one.
    #[arg(long)]
    python: PathBuf,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Java {
    /// The `java` to measure with.
    #[arg(long)]
    java: PathBuf,
    /// The class path of the benchmark; `cargo xtask bench java` makes one.
    #[arg(long)]
    class_path: OsString,
    #[command(flatten)]
    common: Common,
}

/// The options of the benchmarks of packages.
#[derive(Args)]
struct Common {
    /// Parts to run; by default all.
    #[arg(long, value_delimiter = ',', num_args = 1..)]
    parts: Vec<String>,
    /// Rounds, in each of which every engine is measured; by default 7 for Python, 3 for Java.
    #[arg(long)]
    rounds: Option<usize>,
    /// Size of the data in per cent: 100 is what the page has.
    #[arg(long, default_value_t = 100)]
    percent: u64,
    /// Write a page with the figures to this file, as Markdown.
    #[arg(long)]
    markdown: Option<PathBuf>,
}

impl Common {
    fn options(&self, name: &str, rounds: usize) -> Result<bindings::Options> {
        self.markdown.iter().try_for_each(outputs::prepare)?;
        Ok(bindings::Options {
            dir: target()?.join("bench").join(name),
            parts: self.parts.clone(),
            rounds: self.rounds.unwrap_or(rounds).max(1),
            percent: self.percent.max(1),
        })
    }

    fn show(&self, report: &bindings::Report) -> Result<()> {
        let page = bindings::markdown::page(report);
        println!("{page}");
        self.markdown.iter().try_for_each(|path| outputs::write(path, &page))
    }
}

fn main() -> Result<()> {
    let Cli::Command(command) = Cli::parse();
    match command {
        Command::Search(search) => run_search(&search),
        Command::Table(table) => run_table(&table),
        Command::Log(log) => run_log(&log),
        Command::Limits(options) => run_limits(&options),
        Command::Ordered(options) => run_ordered(&options),
        Command::Index(options) => run_index(&options),
        Command::Swaps(options) => run_swaps(&options),
        Command::Serve(options) => run_serve(&options),
        Command::Python(options) => run_python(&options),
        Command::Java(options) => run_java(&options),
        Command::Page { collection, query, fields, payloads, pages } => {
            let read = match (payloads, fields.is_empty()) {
                (true, _) => Read::Payloads,
                (_, true) => Read::Hits,
                _ => Read::Fields(fields),
            };
            bindings::page::run(&collection, &query, &read, pages)
        }
        Command::Engine { bench, name, records: Some(records) } if bench == "log-limits" => {
            log::limits::fill_and_update(Path::new(&name), records)
        }
        Command::Engine { bench, name, records: Some(records) } if bench == "log-slow-puts" => {
            log::limits::put_slowly(Path::new(&name), records)
        }
        Command::Engine { bench, name, .. } => serve(&bench, &name),
    }
}

fn serve(bench: &str, name: &str) -> Result<()> {
    use firndb_bench_protocol as protocol;
    let unknown = || format!("there is no engine `{name}` for {bench}");
    match (bench, name) {
        ("search", "floor") => protocol::search::serve(&search::floor::Floor),
        ("search", _) => {
            protocol::search::serve(&search::ours::Ours::parse(name).ok_or_else(unknown)?)
        }
        ("table", "floor") => protocol::table::serve(&table::floor::Floor),
        ("table", _) => {
            protocol::table::serve(&table::ours::Ours::parse(name).ok_or_else(unknown)?)
        }
        ("ordered-log", _) => {
            protocol::ordered::serve(&ordered::ours::Log::parse(name).ok_or_else(unknown)?)
        }
        ("ordered-table", "firndb") => protocol::ordered::serve_tables(&ordered::ours::Tables),
        ("scale", _) => scale::engine::serve(),
        ("log", "firndb") => protocol::log::serve(&log::ours::Ours),
        _ => Err(unknown().into()),
    }
}

fn run_search(options: &Search) -> Result<()> {
    options.outputs.prepare()?;
    let ours = options.partitions.iter().filter(|n| *n != "none").map(|n| format!("firndb-{n}"));
    let ours: Vec<String> = ours.chain(["floor".to_string()]).collect();
    let (dir, engines) = engines("search", &ours, &options.peers, options.install)?;
    let report = search::runner::run(&search::runner::Options {
        dir,
        size: options.size,
        per_kind: options.queries,
        rounds: options.rounds,
        budget: Duration::from_millis(options.budget),
        // About three seconds of brute force.
        brute: (100_000_000 / options.size.max(1)) as usize,
        reuse: options.reuse,
        engines,
    })?;
    println!("{}", report.tables());
    let outputs = &options.outputs;
    let page = search::markdown::page(&report, outputs.chart.as_deref());
    outputs.write(&report.json(), &page, &chart::svg(&report.chart()))
}

fn run_table(options: &Table) -> Result<()> {
    options.outputs.prepare()?;
    let (dir, engines) = engines("table", &options.ours, &options.peers, options.install)?;
    let report = table::runner::run(&table::runner::Options {
        dir,
        workloads: options.workloads.clone(),
        records: options.records,
        effort: table::interleaved::Effort { rounds: options.rounds, millis: options.budget },
        // The rest is for the engines' lists of keys and for other processes.
        memory: machine::available_memory().map_or(u64::MAX, |bytes| bytes / 8 * 7),
        reuse: options.reuse,
        engines,
    })?;
    let outputs = &options.outputs;
    let page = table::markdown::page(&report, outputs.chart.as_deref());
    println!("{page}");
    outputs.write(&report.json(), &page, &chart::svg(&report.chart()))
}

fn run_log(options: &Log) -> Result<()> {
    options.outputs.prepare()?;
    let ours = ["firndb".into()];
    let (dir, mut engines) = engines("log", &ours, &options.peers, options.install)?;
    for peer in engines.iter_mut().filter(|engine| units::is_peer(&engine.name)) {
        // Peers belong to the Table benchmark by default.
        peer.arguments.push("log".into());
    }
    let sections = log::runner::run(&log::runner::Options {
        dir,
        workloads: options.workloads.clone(),
        records: options.records,
        rounds: options.rounds,
        millis: options.budget,
        write_millis: options.write_budget,
        reuse: options.reuse,
        engines,
    })?;
    let outputs = &options.outputs;
    let page = log::markdown::page(&sections, outputs.chart.as_deref());
    println!("{page}");
    let chart = chart::svg(&log::markdown::chart(&sections));
    outputs.write(&log::runner::json(&sections), &page, &chart)
}

fn run_limits(options: &Limits) -> Result<()> {
    if let Some(keys) = options.keys {
        return run_scale(options, keys);
    }
    let report = log::limits::run(&log::limits::Options {
        program: std::env::current_exe()?,
        dir: target()?.join("bench").join("log-limits"),
        records: options.records,
        seconds: options.seconds,
        sync_seconds: options.sync_seconds,
    })?;
    println!("{report}");
    Ok(())
}

fn run_scale(options: &Limits, keys: u64) -> Result<()> {
    if keys == 0 || options.value < scale::engine::VALUE_LEAST {
        return Err("give at least one key, and values of at least 16 bytes".into());
    }
    options.json.iter().try_for_each(outputs::prepare)?;
    let outcome = scale::runner::run(&scale::runner::Options {
        program: std::env::current_exe()?,
        dir: target()?.join("bench").join(format!("scale-{keys}-{}", options.value)),
        shape: scale::formulas::Shape { keys, value: options.value },
        seconds: options.seconds,
        millis: 5000,
    })?;
    match outcome {
        Outcome::Skipped(reason) => println!("skipped: bench limits --keys {keys}: {reason}"),
        Outcome::Measured(report) => {
            println!("{}", report.text());
            let json = format!("{:#}\n", report.json());
            options.json.iter().try_for_each(|path| outputs::write(path, &json))?;
        }
    }
    Ok(())
}

fn run_ordered(options: &Ordered) -> Result<()> {
    [&options.json, &options.markdown].into_iter().flatten().try_for_each(outputs::prepare)?;
    let (mut parts, mut dir) = (Vec::new(), target()?.join("bench"));
    for &part in &options.parts {
        let ours: Vec<String> = part.ours().iter().map(|name| name.to_string()).collect();
        let (place, mut engines) =
            engines(part.argument(), &ours, &options.peers, options.install)?;
        for peer in engines.iter_mut().filter(|engine| units::is_peer(&engine.name)) {
            peer.arguments.push(part.argument().into());
        }
        dir = place;
        parts.push((part, engines));
    }
    let report = ordered::runner::run(&ordered::runner::Options {
        dir,
        records: ordered::runner::records(options.records),
        rounds: options.rounds,
        millis: options.budget,
        parts,
    })?;
    let page = ordered::markdown::page(&report);
    println!("{page}");
    options.markdown.iter().try_for_each(|path| outputs::write(path, &page))?;
    let json = format!("{:#}\n", report.json());
    options.json.iter().try_for_each(|path| outputs::write(path, &json))
}

fn run_index(options: &Index) -> Result<()> {
    options.markdown.iter().try_for_each(outputs::prepare)?;
    let dir = target()?.join("bench");
    let prepared = index::prepare::Prepared::new(&dir, options.documents, options.partitions)?;
    let steps = index::visible::run(&prepared, options.changes)?;
    let sustained = index::sustained::Options {
        dirty: options.dirty,
        first: options.seconds,
        seconds: options.seconds,
        rounds: options.rounds,
    };
    let sustained = index::sustained::run(&prepared, &sustained)?;
    let page = index::markdown::page(&index::Report { prepared, steps, sustained });
    println!("{page}");
    options.markdown.iter().try_for_each(|path| outputs::write(path, &page))
}

fn run_swaps(options: &Swaps) -> Result<()> {
    let dir = target()?.join("bench");
    let prepared = index::prepare::Prepared::new(&dir, options.documents, options.partitions)?;
    let (rate, seconds) = (options.rate, options.seconds);
    let options = index::swaps::Options { rate, first: 5, seconds };
    let figures = index::swaps::run(&prepared, &dir.join("swaps"), &options)?;
    println!("{}", index::swaps::table(&figures, &options));
    Ok(())
}

fn run_serve(options: &Serve) -> Result<()> {
    options.markdown.iter().try_for_each(outputs::prepare)?;
    let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name("firn-serve"));
    let server = options.server.clone().map_or_else(beside, Ok)?;
    let report = serve::run(&serve::Options {
        server,
        dir: target()?.join("bench/serve"),
        parts: options.parts.clone(),
        seconds: Duration::from_secs(options.seconds.max(1)),
        rounds: options.rounds.max(1),
        documents: options.documents,
    })?;
    let page = serve::markdown::page(&report);
    println!("{page}");
    options.markdown.iter().try_for_each(|path| outputs::write(path, &page))
}

fn run_python(options: &Python) -> Result<()> {
    let scripts = target()?.join("../bindings/python/bench");
    let run = options.common.options("python", 7)?;
    options.common.show(&python::run(&options.python, &scripts, &run)?)
}

fn run_java(options: &Java) -> Result<()> {
    let run = options.common.options("java", 3)?;
    options.common.show(&java::run(&options.java, &options.class_path, &run)?)
}

fn target() -> Result<PathBuf> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?.join("target"))
}

/// The data directory and the launchers: this program's own engines, and the peers that can be
/// built; for each other peer a line gives the reason. `install` also installs the packages that
/// peers and `fio` need.
fn engines(
    bench: &str,
    ours: &[String],
    peers: &[String],
    install: bool,
) -> Result<(PathBuf, Vec<Launcher>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let program = std::env::current_exe()?;
    let target = root.join("target");
    let own = |name: &String| Launcher {
        arguments: vec!["engine".into(), bench.into(), name.clone()],
        program: program.clone(),
        name: name.clone(),
    };
    let named = |names: &[String]| -> Vec<String> {
        names.iter().filter(|name| *name != "none" && !name.is_empty()).cloned().collect()
    };
    let mut engines: Vec<Launcher> = named(ours).iter().map(own).collect();
    let known = Peers { root, target: target.clone() };
    if install {
        known.install(&named(peers), &["fio"])?;
    }
    for name in named(peers) {
        match known.build(&name) {
            Ok(launcher) => engines.push(launcher),
            Err(error) => eprintln!("peer {name} is left out: {error}"),
        }
    }
    Ok((target.join("bench"), engines))
}
