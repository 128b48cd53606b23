//! Every workload of the search benchmark at a small size, through the same processes and
//! comparisons as a full run, to keep the benchmark working. Peers take part if they are built.

use firndb_bench::chart;
use firndb_bench::child::Launcher;
use firndb_bench::peers::Peers;
use firndb_bench::search::brute::Brute;
use firndb_bench::search::floor::Floor;
use firndb_bench::search::runner::{Options, run};
use firndb_bench::search::workload::Dataset;
use firndb_bench::search::{PEERS, markdown};
use firndb_bench_protocol::search::{Answer, Engine, Kind, Session, Workload, read_queries};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SIZE: u64 = 1000;
const QUERIES: usize = 40;

/// An empty directory of a test.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir).unwrap();
    }
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn the_floor_answers_as_brute_force_does() {
    let dir = scratch("floor");
    let mut hits = 0;
    for workload in Workload::ALL {
        // Not a multiple of 64, and enough rows for every kind to have matches.
        let data = Dataset::prepare(&dir, workload, 5 * SIZE + 3, QUERIES).unwrap();
        let brute = Brute::read(workload, &data.data()).unwrap();
        Floor.build(workload, &data.data(), &data.dir).unwrap();
        let mut floor = Floor.open(workload, &data.dir).unwrap();
        for &kind in workload.kinds() {
            for query in read_queries(&data.queries(QUERIES), kind).unwrap() {
                let (prepared, mut mine) = (floor.prepare(&query).unwrap(), Answer::default());
                floor.run(&prepared, &mut mine).unwrap();
                assert_eq!(mine, brute.answer(&query).unwrap(), "{query}");
                hits += mine.count;
            }
        }
    }
    assert!(hits > 1000, "the queries found next to nothing: {hits}");
}

fn engines() -> Vec<Launcher> {
    let own = |name: &str| Launcher {
        name: name.into(),
        program: env!("CARGO_BIN_EXE_firn-bench").into(),
        arguments: vec!["engine".into(), "search".into(), name.into()],
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let peers = Peers { target: root.join("target"), root };
    let built = PEERS.iter().filter_map(|name| peers.find(name));
    ["firndb-1", "firndb-7-zstd", "floor"].map(own).into_iter().chain(built).collect()
}

fn options(dir: PathBuf, engines: Vec<Launcher>) -> Options {
    Options {
        dir,
        size: SIZE,
        per_kind: QUERIES,
        rounds: 2,
        budget: Duration::from_millis(100),
        brute: QUERIES,
        reuse: false,
        engines,
    }
}

#[test]
fn all_engines_agree_with_brute_force() {
    let report = run(&options(scratch("engines"), engines())).unwrap();
    for kind in Kind::ALL {
        assert_eq!(report.get(kind, "firndb-1").unwrap().queries, QUERIES, "{kind}");
        assert!(report.get(kind, "floor").unwrap().median() > 0.0);
    }
    let page = markdown::page(&report, Some(Path::new("docs/benchmarks-search.svg")));
    assert!(page.contains("| Q6 |") && page.contains("](benchmarks-search.svg)"));
    assert!(page.contains("| Q6: median, us | at most 250 | "), "{page}");
    assert!(chart::svg(&report.chart()).trim_end().ends_with("</svg>"));
    assert_eq!(report.json()["figures"].as_array().unwrap().len(), report.figures.len());
}

#[test]
fn a_wrong_answer_is_an_error_that_names_the_query_and_the_engines() {
    let liar = Launcher {
        name: "liar".into(),
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), LIAR.into()],
    };
    let Err(error) = run(&options(scratch("liar"), vec![liar])) else {
        panic!("a wrong answer went through");
    };
    let text = error.to_string();
    assert!(text.contains("query 0 of kind Q1") && text.contains("brute force"), "{text}");
    assert!(text.contains("liar says 7"), "{text}");
}

/// An engine that answers every query with 7.
const LIAR: &str = r#"
while read -r job rest; do case $job in
    hello) printf 'hello\tliar\n' ;;
    build) printf 'built\t1\t1\t1\t1\n' ;;
    open) printf 'opened\t1\t1\n' ;;
    run) printf '5\t7\t7\ndone\t0\n' ;;
esac; done
"#;
