//! Repeatedly kills a process that applies feeds and publishes them. Acknowledged feeds must be
//! there, complete and without duplicates.

use super::*;
use crate::testing::Rng;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The environment variable with the path of the index.
const PLACE: &str = "FIRNDB_TEST_INDEX";
const SOURCES: [&str; 3] = ["a", "b", "c"];

fn open_real(dir: &Path) -> Indexer {
    let partitioning = Partitioning::by_field_and_hash("group", 4);
    Indexer::open(dir, schema(), partitioning, Options::default()).unwrap()
}

/// Version `n` of a source's feed. One document contains the number of the version.
fn version_of(source: &str, n: i64) -> Feed {
    let mut rng = Rng(n as u64 * 3 + source.as_bytes()[0] as u64);
    let mut feed = Feed::new();
    if n == 0 {
        return feed;
    }
    for _ in 0..rng.below(60) {
        let (key, group) = (format!("k{}", rng.below(80)), *rng.pick(&["red", "blue", "green"]));
        feed.insert(key, doc(group, rng.below(4) as i64));
    }
    feed.insert(format!("version-{source}"), doc("versions", n));
    feed
}

/// The child process: prints `n` once version `n` is applied. Does not publish every third version,
/// and repartitions after every seventh, by the same partitioning.
#[test]
#[ignore = "started by the test that kills it"]
fn child() {
    let dir = PathBuf::from(std::env::var_os(PLACE).unwrap());
    let mut indexer = open_real(&dir);
    indexer.publish().unwrap();
    let first = versions(&published(&indexer)).into_iter().max().unwrap_or(0) + 1;
    std::io::stdout().write_all(b"\nopen\n").unwrap();
    for n in first.. {
        let source = SOURCES[n as usize % SOURCES.len()];
        indexer.apply(source, items(&version_of(source, n))).unwrap();
        if std::io::stdout().write_all(format!("said {n}\n").as_bytes()).is_err() {
            return;
        }
        if n % 7 == 0 {
            indexer.repartition(indexer.partitioning().clone()).unwrap();
        }
        if n % 3 != 0 {
            indexer.publish().unwrap();
        }
    }
}

/// The published version of each source.
fn versions(content: &Content) -> [i64; 3] {
    let documents: Feed = content.values().flat_map(|feed| feed.clone()).collect();
    SOURCES.map(|source| documents.get(&format!("version-{source}")).map_or(0, |doc| doc.1))
}

/// Fails unless the content is that of these versions of the feeds.
fn check(content: &Content, label: &str) -> i64 {
    let versions = versions(content);
    let feeds = SOURCES.iter().zip(versions);
    let feeds = feeds.map(|(source, n)| (source.to_string(), version_of(source, n))).collect();
    let wanted = expected(&feeds, &Partitioning::by_field_and_hash("group", 4));
    assert_eq!(*content, wanted, "{label}: versions {versions:?}");
    versions.into_iter().max().unwrap_or(0)
}

/// Runs a child for a while and kills it. Returns the last version that it has acknowledged.
fn victim(dir: &Path, rest: Duration) -> i64 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["indexer::tests::kill::child", "--exact", "--ignored", "--nocapture"]);
    command.env(PLACE, dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut said = 0;
    let (sender, opened) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if line == "open" {
                    let _ = sender.send(());
                }
                said = line.strip_prefix("said ").and_then(|n| n.parse().ok()).unwrap_or(said);
            }
            said
        });
        let _ = opened.recv_timeout(Duration::from_secs(20));
        std::thread::sleep(rest);
        let _ = child.kill();
        child.wait().unwrap();
        reader.join().unwrap()
    })
}

/// The environment variable `FIRNDB_KILLS` sets the number of rounds.
#[test]
fn a_killed_process_loses_and_duplicates_nothing() {
    let dir = std::env::temp_dir().join(format!("firndb-index-kill-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let (kills, mut rng, mut last) = (setting("FIRNDB_KILLS", 10), Rng(7), 0);
    for round in 0..kills {
        let said = victim(&dir, Duration::from_millis(rng.below(80) as u64)).max(last);
        // The content that readers see before the index is opened and recovers.
        let collection = crate::search::Collection::open(dir.join("collection")).unwrap();
        check(&content(&collection.reader()), &format!("round {round}, as it was left"));
        let mut indexer = open_real(&dir);
        indexer.publish().unwrap();
        last = check(&published(&indexer), &format!("round {round}"));
        assert!(last >= said, "round {round}: said {said}, {last} is there");
        assert!(last <= said + 1, "round {round}: said {said}, {last} is there");
        indexer.close().unwrap();
    }
    println!("kill: kills={kills} feeds={last} lost=0 doubled=0");
    assert!(last > 0);
    std::fs::remove_dir_all(&dir).unwrap();
}
