//! The index benchmark at a small size, with every part of a full run.

use firndb_bench::index::prepare::Prepared;
use firndb_bench::index::{Report, markdown, sustained, swaps, visible};
use std::path::PathBuf;

#[test]
fn a_small_run_has_all_figures() {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("index");
    if root.exists() {
        std::fs::remove_dir_all(&root).unwrap();
    }
    std::fs::create_dir_all(&root).unwrap();
    let made = Prepared::new(&root, 2000, 8).unwrap();
    assert!(made.took.is_some() && made.bytes.0 > 0 && made.bytes.1 > 0);
    let prepared = Prepared::new(&root, 2000, 8).unwrap();
    assert!(prepared.took.is_none(), "an index that is there is used again");

    let steps = visible::run(&prepared, 3).unwrap();
    assert_eq!(steps.len(), 3);
    assert!(steps.iter().all(|step| step.visible > std::time::Duration::ZERO));

    let options = sustained::Options { dirty: 2, first: 1, seconds: 1, rounds: 1 };
    let sustained = sustained::run(&prepared, &options).unwrap();
    assert_eq!(sustained.rebuilt, 2, "two partitions in the one second that counts");
    for times in [&sustained.idle, &sustained.busy] {
        assert!(times.all.len() == 6 && times.all.iter().all(|kind| !kind.is_empty()));
        assert_eq!(times.ran.len(), times.all.iter().map(Vec::len).sum::<usize>());
        // A query cannot have had a processor for longer than it took.
        let most = times.all.iter().filter_map(|kind| kind.last()).fold(0.0, |a, b| b.max(a));
        assert!(times.ran.last().is_some_and(|ran| *ran <= most));
    }

    let options = swaps::Options { rate: 200, first: 1, seconds: 2 };
    let figures = swaps::run(&prepared, &root.join("swaps"), &options).unwrap();
    let counts: Vec<u64> = figures.iter().map(|figures| figures.swaps).collect();
    assert_eq!(counts[0], 0);
    assert!(counts[1..].iter().all(|swaps| (1..=2).contains(swaps)), "{counts:?}");
    assert!(figures.iter().all(|figures| figures.latencies.len() > 100));
    let table = swaps::table(&figures, &options);
    assert!(figures.iter().all(|figures| table.contains(&format!("| {} |", figures.name))));
    assert!(!root.join("swaps").exists());

    let page = markdown::page(&Report { prepared, steps, sustained });
    assert!(
        page.contains("2000 car offers") && page.contains("\n| all, without time spent waiting"),
        "{page}"
    );
}
