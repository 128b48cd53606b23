//! The benchmark of ranges of keys at a small size, through the same processes and comparisons as a
//! full run. Peers take part if they are built.

use firndb_bench::child::Launcher;
use firndb_bench::ordered::runner::{Options, Report, records, run};
use firndb_bench::ordered::{PEERS, Part, markdown};
use firndb_bench::peers::Peers;
use firndb_bench_protocol::Result;
use std::path::{Path, PathBuf};

fn own(part: Part, name: &str) -> Launcher {
    Launcher {
        name: name.into(),
        program: env!("CARGO_BIN_EXE_firn-bench").into(),
        arguments: ["engine", part.argument(), name].map(String::from).into(),
    }
}

fn peers(part: Part) -> Vec<Launcher> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let peers = Peers { target: root.join("target"), root };
    let mut found: Vec<Launcher> = PEERS.iter().filter_map(|name| peers.find(name)).collect();
    found.iter_mut().for_each(|peer| peer.arguments.push(part.argument().into()));
    found
}

fn run_small(name: &str, parts: Vec<(Part, Vec<Launcher>)>) -> (Result<Report>, PathBuf) {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let report =
        run(&Options { dir: dir.clone(), records: records(5000), rounds: 2, millis: 20, parts });
    (report, dir)
}

#[test]
fn all_engines_agree_with_the_generator() {
    let parts = Part::ALL.map(|part| {
        let ours = part.ours().iter().map(|name| own(part, name));
        (part, ours.chain(peers(part)).collect())
    });
    let (report, dir) = run_small("ordered", parts.into());
    let report = report.unwrap();
    for section in &report.sections {
        for engine in &section.engines {
            assert!(engine.get("disk").unwrap() > 0.0);
            let is_scanned = engine.name != "firndb-unordered";
            let rate = engine.get("scan reverse rate");
            assert_eq!(rate.is_some_and(|rate| rate > 0.0), is_scanned, "{}", engine.name);
        }
    }
    let page = markdown::page(&report);
    assert!(page.contains("| log: rate of puts, relative to an unordered store | "), "{page}");
    assert!(page.contains("| 100 records of a prefix, reverse, median | "), "{page}");
    assert_eq!(report.json()[0]["part"], "log");
    assert!(std::fs::read_dir(dir).unwrap().next().is_none(), "stores are left");
}

/// An engine whose scans return a wrong checksum.
const LIAR: &str = r#"
while read -r job rest; do case $job in
    hello) printf 'hello\tliar\n' ;;
    create) printf 'created\t1\n' ;;
    put) printf 'put\t1\t1\t1\t1\t1\t1\t1\n' ;;
    settle) printf 'settled\n' ;;
    size) printf 'size\t1\t1\n' ;;
    check) printf 'checked\t5000\t7\n' ;;
esac; done
"#;

#[test]
fn a_wrong_answer_is_an_error_that_names_the_engine() {
    let liar = Launcher {
        name: "liar".into(),
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), LIAR.into()],
    };
    let (report, dir) = run_small("ordered-liar", vec![(Part::Log, vec![liar])]);
    let Err(error) = report else { panic!("a wrong answer went through") };
    let text = error.to_string();
    assert!(text.contains("liar: a scan returned Answer { count: 5000, sum: 7 }"), "{text}");
    assert!(std::fs::read_dir(dir).unwrap().next().is_none(), "stores are left");
}
