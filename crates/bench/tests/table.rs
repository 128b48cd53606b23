//! Every workload of the table benchmark at a small size, through the same processes and
//! comparisons as a run whose times are told. Peers take part if they are built.

use firndb_bench::chart;
use firndb_bench::child::Launcher;
use firndb_bench::peers::Peers;
use firndb_bench::table::runner::{Options, run};
use firndb_bench::table::turns::Effort;
use firndb_bench::table::{OURS, PEERS, markdown};
use firndb_bench_protocol::table::Workload;
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
        effort: Effort { rounds: 1, millis: 5 },
        cold_millis: 20,
        reuse: true,
        engines,
    }
}

#[test]
fn all_engines_answer_as_the_generator_says() {
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
    }
    let page = markdown::page(&report, Some(Path::new("docs/benchmarks-table.svg")));
    assert!(page.contains("| firndb |") && page.contains("](benchmarks-table.svg)"));
    assert!(chart::svg(&report.chart()).trim_end().ends_with("</svg>"));

    // A second run has nothing left to do: it would not find the same times again.
    let again = run(&options).unwrap();
    for (section, kept) in report.sections.iter().zip(&again.sections) {
        for (engine, kept) in section.engines.iter().zip(&kept.engines) {
            assert_eq!(engine.name, kept.name);
            assert_eq!(engine.values.len(), kept.values.len());
            for (what, value) in &engine.values {
                assert!((value - kept.get(what).unwrap()).abs() <= value * 1e-9, "{what}");
            }
        }
    }
}

/// An engine that says it answered, and whose values fold to 7.
const LIAR: &str = r#"
while read -r job rest; do case $job in
    hello) printf 'hello\tliar\n' ;;
    build) printf 'built\t1\t1\t1\t1\n' ;;
    open) printf 'opened\t1\t0\n' ;;
    check) printf 'checked\t1\n' ;;
    warm) printf 'warmed\t1\t7\n' ;;
esac; done
"#;

#[test]
fn wrong_values_are_an_error_that_names_the_engine() {
    let liar = Launcher {
        name: "liar".into(),
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), LIAR.into()],
    };
    let options = options("table-liar", vec![own("firndb"), liar]);
    let Err(error) = run(&options) else {
        panic!("wrong values went through");
    };
    let text = error.to_string();
    assert!(text.contains("liar: all values together fold to 0000000000000007"), "{text}");
    let left = std::fs::read_dir(options.dir.join("table-small-5000")).unwrap();
    assert_eq!(left.count(), 0, "what was built is left after an error");
}
