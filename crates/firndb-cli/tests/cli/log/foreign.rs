//! `firn log import` of directories that HaloDB and HaloDB Revive wrote: the content is what their
//! own readers returned, or what the table says. `tests/data/halodb/README.md` describes how the
//! directories were generated.

use super::{Sandbox, content};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// A directory, a change applied to it, and the expected result of its import.
struct Case {
    name: &'static str,
    change: fn(&Path),
    /// Exit code without and with `--on-error skip`.
    codes: [i32; 2],
    /// Parts of the expected messages.
    message: &'static str,
    /// Changes the recorded content into the expected one.
    wanted: fn(&mut Content),
}

const INTACT: Case = Case { name: "", change: |_| {}, codes: [0, 0], message: "", wanted: |_| {} };

fn intact() -> Vec<Case> {
    vec![
        Case { name: "keys", ..INTACT },
        Case { name: "ver", ..INTACT },
        Case { name: "revive_one_file", ..INTACT },
        Case { name: "kill_mix", message: "HaloDB did not close", ..INTACT },
        // HaloDB's repair stops at the empty value. All records are intact.
        Case {
            name: "emptyvals_unclean",
            message: "HaloDB did not close",
            wanted: |content| {
                assert_eq!(content.len(), 50);
                for n in 0..100u64 {
                    let value = if n == 50 { String::new() } else { format!("v{n}") };
                    let known = content.insert(key(n), value.clone().into_bytes());
                    assert!(known.is_none_or(|known| known == value.into_bytes()), "{n}");
                }
                assert_eq!(content.len(), 100);
            },
            ..INTACT
        },
        Case { name: "keys", change: |dir| remove_all(dir, "index"), ..INTACT },
        Case { name: "revive_one_file", change: |dir| remove_all(dir, "index"), ..INTACT },
        Case {
            name: "keys",
            change: |dir| {
                ["META", "LOCK"].iter().for_each(|f| fs::remove_file(dir.join(f)).unwrap())
            },
            ..INTACT
        },
    ]
}

fn incomplete() -> Vec<Case> {
    vec![
        // HaloDB returns what is left without the lost keys, which had no older version.
        Case {
            name: "ver_nodata",
            codes: [6, 0],
            message: "`key56`, `key57`, `key58`, `key59`",
            ..INTACT
        },
        Case {
            name: "ver",
            change: |dir| fs::write(files(dir, "data").pop().unwrap(), b"").unwrap(),
            codes: [6, 0],
            message: "`key56`, `key57`, `key58`, `key59`",
            wanted: |content| {
                let lost = [b"key56", b"key57", b"key58", b"key59"];
                lost.iter().for_each(|key| assert!(content.remove(&key[..]).is_some()));
            },
        },
        Case {
            name: "kill_mix",
            change: |dir| cut(&files(dir, "tombstone")[0], 3),
            message: "a crash interrupted",
            // The last delete is lost, as it is with HaloDB.
            wanted: |content| {
                let key = 0x3499_58b1_3d62_8953_u64.to_be_bytes().to_vec();
                assert!(content.insert(key, b"j4599-455-xxxxxxxxxxxxxxxxxx".to_vec()).is_none());
            },
            ..INTACT
        },
        Case {
            name: "revive_one_file",
            change: |dir| cut(&files(dir, "data")[0], 1),
            codes: [6, 0],
            message: "META says that HaloDB closed the directory",
            wanted: |content| assert!(content.remove(&key(99)).is_some()),
        },
    ]
}

/// The key of a number, computed as by the programs that wrote the directories.
fn key(n: u64) -> Vec<u8> {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec()
}

fn remove_all(dir: &Path, extension: &str) {
    files(dir, extension).iter().for_each(|path| fs::remove_file(path).unwrap());
}

/// The files of a directory with this extension, ordered by number.
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    files
}

fn cut(path: &Path, bytes: usize) {
    let all = fs::read(path).unwrap();
    fs::write(path, &all[..all.len() - bytes]).unwrap();
}

fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/halodb").join(name);
    fs::read(path).unwrap()
}

/// Unpacks a directory, whatever its name in the archive is.
pub fn unpack(name: &str, to: &Path) {
    let packed = data(&format!("{name}.tar.gz"));
    fs::create_dir(to).unwrap();
    let mut archive = tar::Archive::new(GzDecoder::new(&packed[..]));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.header().entry_type().is_file() {
            let file = entry.path().unwrap().file_name().unwrap().to_os_string();
            entry.unpack(to.join(file)).unwrap();
        }
    }
}

fn truth(name: &str) -> Content {
    let packed = data(&format!("{name}.tsv.gz"));
    let text = std::io::read_to_string(GzDecoder::new(&packed[..])).unwrap();
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16);
    let bytes = |text: &str| text.as_bytes().chunks(2).map(|d| byte(d).unwrap()).collect();
    let pairs = text.lines().map(|line| line.split_once('\t').unwrap());
    pairs.map(|(key, value)| (bytes(key), bytes(value))).collect()
}

/// Names, lengths and bytes of the files of a directory.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn imports_equal_the_output_of_halodb() {
    for (number, case) in intact().into_iter().chain(incomplete()).enumerate() {
        let what = format!("case {number}, {}", case.name);
        let sandbox = Sandbox::new();
        let dir = sandbox.path("h");
        unpack(case.name, &dir);
        (case.change)(&dir);
        let before = snapshot(&dir);
        let run = sandbox.firn("log import h -o s");
        assert_eq!(run.code, case.codes[0], "{what}: {}", run.err);
        assert!(run.err.contains(case.message), "{what}: {}", run.err);
        assert_eq!(run.err.is_empty(), case.message.is_empty(), "{what}: {}", run.err);
        if run.code != 0 {
            let names: Vec<_> = fs::read_dir(&sandbox.0).unwrap().flatten().collect();
            assert_eq!(names.len(), 1, "{what}");
            let run = sandbox.firn("log import h -o s --on-error skip");
            assert_eq!(run.code, case.codes[1], "{what}: {}", run.err);
            assert!(run.out.contains(" lost") && run.err.contains(" lost"), "{what}: {}", run.err);
        }
        assert_eq!(before, snapshot(&dir), "{what}");
        let mut wanted = truth(case.name);
        (case.wanted)(&mut wanted);
        assert_eq!(content(&sandbox, "s"), wanted, "{what}");
    }
}
