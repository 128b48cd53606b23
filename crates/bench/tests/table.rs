//! Every workload of the table benchmark at a small size, through the same processes and
//! comparisons as a full run. Peers take part if they are built.

use firndb_bench::chart;
use firndb_bench::child::Launcher;
use firndb_bench::fio;
use firndb_bench::peers::Peers;
use firndb_bench::table::interleaved::Effort;
use firndb_bench::table::report::{Figures, Report};
use firndb_bench::table::runner::{Options, run};
use firndb_bench::table::{OURS, PEERS, markdown};
use firndb_bench_protocol::table::{Records, Workload};
use firndb_testing::skipped;
use std::path::{Path, PathBuf};

fn own(name: &str) -> Launcher {
    Launcher {
        name: name.into(),
        program: env!("CARGO_BIN_EXE_firn-bench").into(),
        arguments: vec!["engine".into(), "table".into(), name.into()],
    }
}

fn options(name: &str, engines: Vec<Launcher>) -> Options {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir).unwrap();
    }
    std::fs::create_dir_all(&dir).unwrap();
    Options {
        dir,
        workloads: Workload::ALL.to_vec(),
        records: 5000,
        effort: Effort { rounds: 2, millis: 5 },
        memory: u64::MAX,
        reuse: true,
        engines,
    }
}

#[test]
fn all_engines_agree_with_the_generator() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let peers = Peers { target: root.join("target"), root };
    let ours = OURS.into_iter().chain(["floor"]);
    let engines: Vec<Launcher> =
        ours.map(own).chain(PEERS.iter().filter_map(|name| peers.find(name))).collect();
    let options = options("table", engines);
    let report = run(&options).unwrap();
    for section in &report.sections {
        let plain = section.engines.iter().find(|engine| engine.name == "firndb").unwrap();
        assert!(plain.get("present 2 cpu").unwrap() > 0.0);
        assert!(plain.get("disk").unwrap() > 0.0);
        assert_eq!(plain.passes.len(), 3);
        for pass in &plain.passes {
            let counts = ["present 2 cpu", "absent p99", "build wall"].map(|what| pass[what].len());
            assert_eq!(counts, [2, 2, 1], "measurements of each");
        }
        let direct = section.engines.iter().find(|engine| engine.name == "firndb-direct").unwrap();
        for pass in &direct.passes {
            assert_eq!(["cold 1 rate", "cold 32 read"].map(|what| pass[what].len()), [2, 8]);
            // Tests install nothing: without fio its figures are missing.
            assert_eq!(pass.get("fio 32 rate").map(Vec::len), fio::is_there().then_some(8));
        }
    }
    let page = markdown::page(&report, Some(Path::new("docs/benchmarks-table.svg")));
    assert!(page.contains("| firndb |") && page.contains("](benchmarks-table.svg)"));
    assert!(chart::svg(&report.chart()).trim_end().ends_with("</svg>"));

    // A second run reuses everything: measured again, the times would differ.
    let again = run(&options).unwrap();
    let same = |(a, b): (&f64, &f64)| (a - b).abs() <= a.abs() * 1e-9;
    let all = |report: &Report| report.sections.iter().flat_map(|s| s.engines.clone()).collect();
    let (first, again): (Vec<Figures>, Vec<Figures>) = (all(&report), all(&again));
    assert_eq!(first.len(), again.len());
    for (first, again) in first.iter().zip(&again) {
        assert_eq!(first.name, again.name);
        for (first, again) in first.passes.iter().zip(&again.passes) {
            assert!(first.keys().eq(again.keys()));
            let (first, again) = (first.values().flatten(), again.values().flatten());
            assert!(first.zip(again).all(same));
        }
    }
    // Runs with other parameters do not reuse them.
    let effort = Effort { rounds: 1, ..options.effort };
    let (workloads, engines) = (vec![Workload::Small], options.engines.clone());
    let other = run(&Options { effort, workloads, engines, dir: options.dir.clone(), ..options });
    assert_eq!(other.unwrap().sections[0].engines[0].passes[0]["present 2 cpu"].len(), 1);
}

#[test]
fn fio_measures_the_disk() {
    if !fio::is_there() {
        return skipped("fio_measures_the_disk", "fio is not installed");
    }
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fio");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("file"), vec![7; 1 << 20]).unwrap();
    match fio::read(&dir, 50, &["--ioengine=psync", "--filename=file"]) {
        Ok(disk) => assert!(disk.per_second > 0.0 && disk.nanos[0] <= disk.nanos[1]),
        Err(error) => skipped("fio_measures_the_disk", format!("no reads past the cache: {error}")),
    }
}

#[test]
fn engines_that_exceed_memory_are_measured_in_groups() {
    let all = OURS.into_iter().map(own).collect::<Vec<_>>();
    let of = |name: &str, memory| {
        let workloads = vec![Workload::Small];
        run(&Options { memory, workloads, ..options(name, all.clone()) }).unwrap()
    };
    let names = |report: &Report| {
        let engines = report.sections[0].engines.iter();
        engines.map(|e| (e.name.clone(), e.passes[0].keys().cloned().collect())).collect::<Vec<_>>()
    };
    let (alone, together): (Vec<(String, Vec<String>)>, _) =
        (names(&of("table-alone", 0)), names(&of("table-together", u64::MAX)));
    assert_eq!(alone, together);
    for (engine, figures) in alone {
        let known = figures.iter().any(|name| name == "present 1 cpu" || name == "cold 1 rate");
        assert!(known || engine == "firndb-tenth", "{engine}: {figures:?}");
    }
}

/// An engine that reports wrong answers.
const LIAR: &str = r#"
while read -r job what rest; do case $job in
    hello) printf 'hello\tliar\n' ;;
    build) printf 'built\t1\t1\t1\t1\n' ;;
    open) printf 'opened\t1\t0\n' ;;
    check) printf 'checked\t1\n' ;;
    warm) printf 'warmed\t1\tSUM\n' ;;
    memory) printf 'memory\t0\t0\n' ;;
    latency) printf 'latency\tTIMED\t1\t1\t1\t1\t1\n' ;;
    run) printf 'ran\t10\t10\t10\t40960\n' ;;
esac; done
"#;

/// The error of a run with this engine, which reports that all values fold to `sum`, and that it
/// timed `timed` gets of values that fold to 1.
fn error_of_liar(name: &str, sum: &str, timed: usize) -> String {
    let script = LIAR.replace("SUM", sum).replace("TIMED", &timed.to_string());
    let liar = Launcher {
        name: "liar".into(),
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script],
    };
    // Long enough for every timed get of the correct engine.
    let effort = Effort { rounds: 1, millis: 500 };
    let options = Options { effort, ..options(name, vec![own("firndb"), liar]) };
    let Err(error) = run(&options) else { panic!("what the liar says went through") };
    let left = std::fs::read_dir(options.dir.join("table-small-5000")).unwrap();
    assert_eq!(left.count(), 0, "what was built is left after an error");
    error.to_string()
}

#[test]
fn wrong_values_are_an_error_that_names_the_engine() {
    let text = error_of_liar("table-liar", "7", 0);
    assert!(text.contains("liar: all values together fold to 0000000000000007"), "{text}");
}

fn sum() -> String {
    Records { workload: Workload::Small, count: 5000 }.total().1.to_string()
}

#[test]
fn wrong_values_of_timed_gets_are_an_error_that_names_the_engine() {
    // As many gets as the correct engine has keys for.
    let text = error_of_liar("table-timed", &sum(), 16 * 5000);
    let message =
        "liar: the values of 80000 present keys fold to 0000000000000001, those of firndb";
    assert!(text.contains(message), "{text}");
}

#[test]
fn reads_from_disk_during_a_measurement_are_an_error_that_names_the_engine() {
    let text = error_of_liar("table-disk", &sum(), 0);
    assert!(text.contains("liar was not in memory: a get read that many bytes"), "{text}");
    assert!(text.ends_with(" 4096"), "{text}");
}
