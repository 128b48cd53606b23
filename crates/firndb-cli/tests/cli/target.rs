//! Output paths of commands: a file that is not FirnDB's is never replaced.

use super::Sandbox;
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::process::Command;

/// A store `s`, a table `t`, a collection `c`, and files that are not FirnDB's.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("in.csv", "key,value\na,1\nb,2\n");
    sandbox.firn("log load s in.csv").ok();
    sandbox.firn("table build -i in.csv -k key -o t").ok();
    sandbox.firn("search build in.csv -o c").ok();
    sandbox.write("text", "precious");
    sandbox.write("empty", "");
    fs::create_dir(sandbox.path("dir")).unwrap();
    sandbox.write("dir/thesis", "precious");
    symlink("t", sandbox.path("link")).unwrap();
    symlink("text", sandbox.path("text-link")).unwrap();
    symlink("nowhere", sandbox.path("dangling")).unwrap();
    symlink("dir", sandbox.path("dir-link")).unwrap();
    assert!(Command::new("mkfifo").arg(sandbox.path("pipe")).status().unwrap().success());
    sandbox
}

fn check_untouched(sandbox: &Sandbox, line: &str) {
    let text = |name: &str| fs::read_to_string(sandbox.path(name)).unwrap();
    let kept = (text("text"), text("empty"), text("dir/thesis"));
    assert_eq!(kept, ("precious".to_string(), String::new(), "precious".to_string()), "{line}");
    for link in ["link", "text-link", "dangling", "dir-link"] {
        assert!(sandbox.path(link).is_symlink(), "{line}: {link}");
    }
    assert!(fs::metadata(sandbox.path("pipe")).unwrap().file_type().is_fifo(), "{line}");
    assert_eq!(sandbox.firn("table get t a").ok().out, "1\n", "{line}");
    assert_eq!(sandbox.firn("log get s a").ok().out, "1\n", "{line}");
    assert_eq!(sandbox.firn("search count c").ok().out.trim(), "2", "{line}");
    let entries = fs::read_dir(&sandbox.0).unwrap().flatten();
    let left = entries.map(|entry| entry.file_name().into_string().unwrap());
    let left: Vec<_> = left.filter(|name| name.contains("part") || name.contains("tmp")).collect();
    assert!(left.is_empty(), "{line} left {left:?}");
}

#[test]
fn tables_replace_tables_only() {
    let sandbox = sandbox();
    let segment = {
        let entries = fs::read_dir(sandbox.path("s")).unwrap().flatten();
        let mut names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.find(|name| name.ends_with(".log")).unwrap()
    };
    fs::copy(sandbox.path("s").join(&segment), sandbox.path("segment-copy")).unwrap();
    let commands = ["log freeze s -o", "table build -i in.csv -k key -o"];
    for command in commands {
        let all = [
            ("text", "use --force", "is not a table"),
            ("empty", "use --force", "is not a table"),
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
            sandbox.firn(&format!("{command} {to}")).fails(4, without);
            let line = format!("{command} {to} --force");
            sandbox.firn(&line).fails(4, with);
            check_untouched(&sandbox, &line);
        }
        sandbox.firn(&format!("{command} s/{segment} --force")).fails(4, "log segment");
        sandbox.firn(&format!("{command} t")).fails(4, "use --force");
        sandbox.firn(&format!("{command} t --force")).ok();
        // A damaged table still counts as a table.
        let bytes = fs::read(sandbox.path("t")).unwrap();
        sandbox.write("damaged", &bytes[..bytes.len() / 2]);
        sandbox.firn(&format!("{command} damaged --force")).ok();
        check_untouched(&sandbox, command);
    }
}

#[test]
fn dumps_replace_other_files_but_never_those_of_firndb() {
    let sandbox = sandbox();
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
        sandbox.firn(&line).fails(4, why);
        check_untouched(&sandbox, &line);
    }
    sandbox.firn("log dump s -o text").fails(4, "use --force");
    sandbox.write("dump", "an older dump");
    sandbox.firn("log dump s -o dump --format jsonl --force").ok();
    assert!(fs::read_to_string(sandbox.path("dump")).unwrap().contains("\"a\""));
    check_untouched(&sandbox, "log dump");
}

#[test]
fn stores_are_created_in_free_directories_only() {
    let sandbox = sandbox();
    sandbox.firn("log backup s -o b").ok();
    sandbox.firn("catalog publish cat c c").ok();
    sandbox.write("schema.toml", "[fields]\nkey = \"string full\"\n");
    let commands = [
        "log repair s -o",
        "log restore b -o",
        "log backup s -o",
        "log bench --records 10 --ops 1 --syncs 1",
        "index init --schema schema.toml",
        "search build in.csv -o",
        "catalog pull cat c -o",
    ];
    for command in commands {
        for to in ["dir", "dir-link", "t", "text", "pipe", "s", "c", "dangling"] {
            if command.starts_with("catalog pull") && to == "c" {
                continue; // A pull may write over the version that was published from here.
            }
            let line = format!("{command} {to}");
            let run = sandbox.firn(&line);
            let is_refused = [2, 3, 4, 8].contains(&run.code);
            assert!(is_refused && !run.err.is_empty(), "{line}: {} {}", run.code, run.err);
            check_untouched(&sandbox, &line);
        }
        let run = sandbox.firn(&format!("{command} dir"));
        assert_eq!(run.code, 4, "{command}: {}", run.err);
    }
    assert_eq!(fs::read_dir(sandbox.path("dir")).unwrap().count(), 1);
}

#[test]
fn a_pull_resumes_only_a_pull() {
    let sandbox = sandbox();
    sandbox.firn("catalog publish cat words t").ok();
    sandbox.firn("catalog pull cat words -o out").ok();
    sandbox.firn("catalog pull cat words -o out").ok();
    type Case = (&'static str, fn(&Sandbox));
    let cases: [Case; 6] = [
        ("hidden", |sandbox| sandbox.write("p/.profile", "mine")),
        ("named", |sandbox| sandbox.write("p/t", "mine")),
        ("lock", |sandbox| sandbox.write("p/lock", "mine")),
        ("folder", |sandbox| fs::create_dir(sandbox.path("p/folder")).unwrap()),
        ("link", |sandbox| symlink("/etc/passwd", sandbox.path("p/t")).unwrap()),
        ("nearly", |sandbox| sandbox.write(&format!("p/{}.firn", "x".repeat(64)), "mine")),
    ];
    for (name, prepare) in cases {
        let _ = fs::remove_dir_all(sandbox.path("p"));
        fs::create_dir(sandbox.path("p")).unwrap();
        prepare(&sandbox);
        sandbox.firn("catalog pull cat words -o p").fails(4, "choose another one");
        let left = fs::read_dir(sandbox.path("p")).unwrap().flatten().collect::<Vec<_>>();
        assert_eq!(left.len(), 1, "{name}: {left:?}");
        let bytes = fs::read(left[0].path()).unwrap_or_default();
        assert!(name == "folder" || name == "link" || bytes == b"mine", "{name}");
    }
}

#[test]
fn a_catalog_is_not_created_among_other_files() {
    let sandbox = sandbox();
    for to in ["dir", "s", "c", "dir-link"] {
        let run = sandbox.firn(&format!("catalog publish {to} words t"));
        run.fails(4, "choose another one");
        check_untouched(&sandbox, to);
        assert!(!sandbox.path(to).join("words").exists(), "{to}");
    }
    fs::create_dir(sandbox.path("new")).unwrap();
    sandbox.firn("catalog publish new words t").ok();
    // An existing catalog may have other files in its directory.
    sandbox.write("new/README", "what this is");
    sandbox.firn("catalog publish new others t").ok();
}
