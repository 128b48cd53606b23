//! `firn demo` on a small generated set.

use super::Sandbox;

#[test]
fn the_demo_queries_and_replaces() {
    let sandbox = Sandbox::new();
    let run = sandbox.firn("demo --generated --flights 20000 --dir d --json").ok();
    let lines = run.json();
    assert_eq!((&lines[0]["documents"], &lines[0]["partitions"]), (&20000.into(), &12.into()));
    assert!(lines.iter().filter(|line| line["question"].is_string()).count() >= 12);
    let replaced = lines.iter().find(|line| line["replaced"].is_string()).unwrap();
    assert_eq!((&replaced["failed"], &replaced["wrong"]), (&0.into(), &0.into()));
    assert!(replaced["before_answers"].as_u64() > Some(0), "{replaced}");
    assert!(replaced["after_answers"].as_u64() > Some(0), "{replaced}");
    let fell =
        replaced["before_average"].as_f64().unwrap() - replaced["after_average"].as_f64().unwrap();
    assert!((fell - 10.0).abs() < 1e-9, "{replaced}");
    assert!(!sandbox.path("d/flights").exists());
    let fed = lines.last().unwrap();
    let count = |name: &str| fed[name].as_u64().unwrap();
    assert_eq!((count("feed_failed"), count("catalog_version")), (0, 2), "{fed}");
    assert!(count("added") > 0 && count("updated") > 0 && count("removed") > 0, "{fed}");
    assert_eq!(fed["dirty"].as_array().unwrap().len(), 2, "{fed}");
    assert!(0 < count("sent_bytes") && count("sent_bytes") < count("version_bytes"), "{fed}");
    assert!(!sandbox.path("d/pipeline").exists());
}

#[test]
fn the_demo_prints_text_and_keeps_its_collection() {
    let sandbox = Sandbox::new();
    let out = sandbox.firn("demo --generated --flights 5000 --dir d --keep").ok().out;
    assert!(out.contains("1. The latest Delta flights to Atlanta"), "{out}");
    assert!(out.contains("0 failed") && out.contains("the same page"), "{out}");
    assert_eq!(sandbox.firn("search count d/flights").ok().out, "5000\n");
    // The demo refuses a directory with other files in it.
    sandbox.write("d/flights/notes", "x");
    sandbox.firn("demo --generated --flights 5000 --dir d").fails(4, "another directory");
    std::fs::remove_file(sandbox.path("d/flights/notes")).unwrap();
    // A second run finds the first one's collection and starts over.
    sandbox.firn("demo --generated --flights 5000 --dir d").ok();
    std::fs::create_dir_all(sandbox.path("d/flights")).unwrap();
    sandbox.write("d/flights/mine", "x");
    sandbox.firn("demo --generated --flights 5000 --dir d").fails(4, "another directory");
    std::fs::create_dir_all(sandbox.path("e/pipeline")).unwrap();
    sandbox.write("e/pipeline/main.py", "mine");
    sandbox.firn("demo --generated --flights 2000 --dir e").fails(4, "it has `main.py`");
    assert!(sandbox.path("e/pipeline/main.py").exists());
}
