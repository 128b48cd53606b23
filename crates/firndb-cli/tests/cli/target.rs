//! Output paths of commands: a file that is not FirnDB's is never replaced.

use super::Place;
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::process::Command;

/// A store `s`, a table `t`, a collection `c`, and files that are not FirnDB's.
fn place() -> Place {
    let place = Place::new();
    place.write("in.csv", "key,value\na,1\nb,2\n");
    place.firn("log load s in.csv").ok();
    place.firn("table build -i in.csv -k key -o t").ok();
    place.firn("search build in.csv -o c").ok();
    place.write("text", "precious");
    place.write("empty", "");
    fs::create_dir(place.path("dir")).unwrap();
    place.write("dir/thesis", "precious");
    symlink("t", place.path("link")).unwrap();
    symlink("text", place.path("text-link")).unwrap();
    symlink("nowhere", place.path("dangling")).unwrap();
    symlink("dir", place.path("dir-link")).unwrap();
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    place
}

fn check_untouched(place: &Place, line: &str) {
    let text = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    let kept = (text("text"), text("empty"), text("dir/thesis"));
    assert_eq!(kept, ("precious".to_string(), String::new(), "precious".to_string()), "{line}");
    for link in ["link", "text-link", "dangling", "dir-link"] {
        assert!(place.path(link).is_symlink(), "{line}: {link}");
    }
    assert!(fs::metadata(place.path("pipe")).unwrap().file_type().is_fifo(), "{line}");
    assert_eq!(place.firn("table get t a").ok().out, "1\n", "{line}");
    assert_eq!(place.firn("log get s a").ok().out, "1\n", "{line}");
    assert_eq!(place.firn("search count c").ok().out.trim(), "2", "{line}");
    let entries = fs::read_dir(&place.0).unwrap().flatten();
    let left = entries.map(|entry| entry.file_name().into_string().unwrap());
    let left: Vec<_> = left.filter(|name| name.contains("part") || name.contains("tmp")).collect();
    assert!(left.is_empty(), "{line} left {left:?}");
}

#[test]
fn tables_replace_tables_only() {
    let place = place();
    let segment = {
        let entries = fs::read_dir(place.path("s")).unwrap().flatten();
        let mut names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.find(|name| name.ends_with(".log")).unwrap()
    };
    fs::copy(place.path("s").join(&segment), place.path("segment-copy")).unwrap();
    let commands = ["log freeze s -o", "table build -i in.csv -k key -o"];
    for command in commands {
        let all = [
            ("text", "use --force", "no table"),
            ("empty", "use --force", "no table"),
            ("segment-copy", "use --force", "log segment"),
            ("dir", "directory", "directory"),
            ("c", "directory", "directory"),
            ("dir-link", "directory", "directory"),
            ("link", "symbolic link", "symbolic link"),
            ("text-link", "symbolic link", "symbolic link"),
            ("dangling", "symbolic link", "symbolic link"),
            ("pipe", "not a regular file", "not a regular file"),
            ("/dev/null", "not a regular file", "not a regular file"),
            ("s/new", "is a log store", "is a log store"),
            ("c/new", "is a collection", "is a collection"),
        ];
        for (to, without, with) in all {
            place.firn(&format!("{command} {to}")).fails(4, without);
            let line = format!("{command} {to} --force");
            place.firn(&line).fails(4, with);
            check_untouched(&place, &line);
        }
        place.firn(&format!("{command} s/{segment} --force")).fails(4, "log segment");
        place.firn(&format!("{command} t")).fails(4, "use --force");
        place.firn(&format!("{command} t --force")).ok();
        // A damaged table still counts as a table.
        let bytes = fs::read(place.path("t")).unwrap();
        place.write("damaged", &bytes[..bytes.len() / 2]);
        place.firn(&format!("{command} damaged --force")).ok();
        check_untouched(&place, command);
    }
}

#[test]
fn dumps_replace_other_files_but_never_those_of_firndb() {
    let place = place();
    for (to, why) in [
        ("t", "table of FirnDB"),
        ("c", "directory"),
        ("s", "directory"),
        ("dir", "directory"),
        ("dir-link", "directory"),
        ("link", "symbolic link"),
        ("text-link", "symbolic link"),
        ("dangling", "symbolic link"),
        ("pipe", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("s/dump.jsonl", "is a log store"),
        ("s/lock", "is a log store"),
        ("c/lock", "is a collection"),
    ] {
        let line = format!("log dump s -o {to} --force");
        place.firn(&line).fails(4, why);
        check_untouched(&place, &line);
    }
    place.firn("log dump s -o text").fails(4, "use --force");
    place.write("dump", "an older dump");
    place.firn("log dump s -o dump --force").ok();
    assert!(fs::read_to_string(place.path("dump")).unwrap().contains("\"a\""));
    check_untouched(&place, "log dump");
}

#[test]
fn stores_are_created_in_free_directories_only() {
    let place = place();
    place.firn("log backup s b").ok();
    place.firn("catalog publish cat c c").ok();
    place.write("schema.toml", "[fields]\nkey = \"string full\"\n");
    let commands = [
        "log repair s --to",
        "log restore b",
        "log backup s",
        "log bench --records 10 --ops 1 --syncs 1",
        "index init --schema schema.toml",
        "search build in.csv -o",
        "catalog pull cat c",
    ];
    for command in commands {
        for to in ["dir", "dir-link", "t", "text", "pipe", "s", "c", "dangling"] {
            if command.starts_with("catalog pull") && to == "c" {
                continue; // A pull may write over the version that was published from here.
            }
            let line = format!("{command} {to}");
            let run = place.firn(&line);
            let is_refused = [2, 3, 4, 8].contains(&run.code);
            assert!(is_refused && !run.err.is_empty(), "{line}: {} {}", run.code, run.err);
            check_untouched(&place, &line);
        }
        let run = place.firn(&format!("{command} dir"));
        assert_eq!(run.code, 4, "{command}: {}", run.err);
    }
    assert_eq!(fs::read_dir(place.path("dir")).unwrap().count(), 1);
}

#[test]
fn a_pull_resumes_only_a_pull() {
    let place = place();
    place.firn("catalog publish cat words t").ok();
    place.firn("catalog pull cat words out").ok();
    place.firn("catalog pull cat words out").ok();
    type Case = (&'static str, fn(&Place));
    let cases: [Case; 6] = [
        ("hidden", |place| place.write("p/.profile", "mine")),
        ("named", |place| place.write("p/t", "mine")),
        ("lock", |place| place.write("p/lock", "mine")),
        ("folder", |place| fs::create_dir(place.path("p/folder")).unwrap()),
        ("link", |place| symlink("/etc/passwd", place.path("p/t")).unwrap()),
        ("nearly", |place| place.write(&format!("p/{}.firn", "x".repeat(64)), "mine")),
    ];
    for (name, prepare) in cases {
        let _ = fs::remove_dir_all(place.path("p"));
        fs::create_dir(place.path("p")).unwrap();
        prepare(&place);
        place.firn("catalog pull cat words p").fails(4, "choose another one");
        let left = fs::read_dir(place.path("p")).unwrap().flatten().collect::<Vec<_>>();
        assert_eq!(left.len(), 1, "{name}: {left:?}");
        let bytes = fs::read(left[0].path()).unwrap_or_default();
        assert!(name == "folder" || name == "link" || bytes == b"mine", "{name}");
    }
}

#[test]
fn a_catalog_is_not_created_among_other_files() {
    let place = place();
    for to in ["dir", "s", "c", "dir-link"] {
        let run = place.firn(&format!("catalog publish {to} words t"));
        run.fails(4, "choose another one");
        check_untouched(&place, to);
        assert!(!place.path(to).join("words").exists(), "{to}");
    }
    fs::create_dir(place.path("new")).unwrap();
    place.firn("catalog publish new words t").ok();
    // An existing catalog may have other files in its directory.
    place.write("new/README", "what this is");
    place.firn("catalog publish new others t").ok();
}
