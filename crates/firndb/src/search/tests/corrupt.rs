//! Every byte of a collection damaged in three ways, every length cut, files swapped and lost: each
//! answer is right or an error that says so.

use super::shelf::{BATTERY, Files, answers, files, large_files};
use crate::search::testing::Rng;
use crate::{ErrorKind, Result};
use std::path::PathBuf;

const SEED: u64 = 0xBAD_B17E;

/// Documents of larger partitions and how often each is damaged.
const LARGE: [(u64, usize); 2] = [(5_000, 1_000), (66_000, 80)];

/// What became of the questions to damaged collections.
#[derive(Debug, Default)]
struct Tally {
    collections: u64,
    right: u64,
    errors: u64,
}

/// A collection and its right answers.
struct Exam {
    files: Files,
    expected: Vec<String>,
    tally: Tally,
}

impl Exam {
    fn new(files: Files) -> Exam {
        let expected: Vec<String> = answers(&files).into_iter().map(Result::unwrap).collect();
        assert_eq!(expected.len(), BATTERY.len());
        let bytes: usize = files.values().map(Vec::len).sum();
        println!("{} files, {bytes} bytes, seed {SEED:#x}", files.len());
        Exam { files, expected, tally: Tally::default() }
    }

    /// Asks everything of a damaged collection.
    fn judge(&mut self, files: &Files, damage: impl Fn() -> String) {
        self.tally.collections += 1;
        for (i, answer) in answers(files).into_iter().enumerate() {
            let kind = match answer {
                Ok(answer) if answer == self.expected[i] => {
                    self.tally.right += 1;
                    continue;
                }
                Ok(answer) => panic!(
                    "{}: wrong answer to {:?}: {answer}\nexpected {}",
                    damage(),
                    BATTERY[i].0,
                    self.expected[i]
                ),
                Err(e) => e,
            };
            self.tally.errors += 1;
            let apt = [ErrorKind::Corrupt, ErrorKind::NotFound, ErrorKind::UnsupportedVersion];
            assert!(apt.contains(&kind.kind()), "{}: {kind:?}", damage());
            assert!(kind.file().is_some(), "{}: no file in {kind:?}", damage());
        }
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.files.keys().cloned().collect()
    }

    fn report(&self, what: &str) {
        println!("{what}: {:?}, wrong answers: 0, panics: 0", self.tally);
        assert!(self.tally.errors > 0);
    }
}

#[test]
fn every_damaged_byte_is_an_error_or_no_matter() {
    let mut exam = Exam::new(files());
    let mut rng = Rng(SEED);
    let mut damaged = exam.files.clone();
    for path in exam.paths() {
        for at in 0..exam.files[&path].len() {
            let old = exam.files[&path][at];
            for new in [old ^ 0xFF, 0, old ^ 1 << rng.below(8)] {
                if new != old {
                    damaged.get_mut(&path).unwrap()[at] = new;
                    exam.judge(&damaged, || format!("{path:?}, byte {at}, {old} -> {new}"));
                }
            }
            damaged.get_mut(&path).unwrap()[at] = old;
        }
    }
    exam.report("bytes");
}

#[test]
fn damage_in_larger_partitions_is_an_error_or_no_matter() {
    for (documents, damages) in LARGE {
        let mut exam = Exam::new(large_files(documents));
        let mut rng = Rng(SEED);
        let path = exam.paths().into_iter().max_by_key(|path| exam.files[path].len()).unwrap();
        let mut damaged = exam.files.clone();
        for _ in 0..damages {
            let bytes = damaged.get_mut(&path).unwrap();
            let at = rng.below(bytes.len());
            let old = std::mem::replace(&mut bytes[at], rng.next() as u8);
            exam.judge(&damaged, || format!("{path:?}, byte {at}, which was {old}"));
            damaged.get_mut(&path).unwrap()[at] = old;
        }
        exam.report(&format!("bytes of {documents} documents"));
    }
}

#[test]
fn every_other_length_is_an_error() {
    let mut exam = Exam::new(files());
    let mut damaged = exam.files.clone();
    for path in exam.paths() {
        let whole = exam.files[&path].clone();
        for len in 0..whole.len() {
            damaged.insert(path.clone(), whole[..len].to_vec());
            exam.judge(&damaged, || format!("{path:?}, cut to {len} bytes"));
        }
        for more in [1, 7, 512] {
            for byte in [0, 0xFF, b'\n'] {
                let longer = [&whole[..], &vec![byte; more]].concat();
                damaged.insert(path.clone(), longer);
                exam.judge(&damaged, || format!("{path:?}, {more} bytes more"));
            }
        }
        damaged.insert(path, whole);
    }
    exam.report("lengths");
}

#[test]
fn swapped_and_missing_files_are_errors() {
    let mut exam = Exam::new(files());
    let paths = exam.paths();
    for a in &paths {
        let mut damaged = exam.files.clone();
        damaged.remove(a);
        exam.judge(&damaged, || format!("{a:?} is missing"));
        for b in paths.iter().filter(|b| *b != a) {
            let mut damaged = exam.files.clone();
            damaged.insert(a.clone(), exam.files[b].clone());
            exam.judge(&damaged, || format!("{a:?} is a copy of {b:?}"));
            damaged.insert(b.clone(), exam.files[a].clone());
            exam.judge(&damaged, || format!("{a:?} and {b:?} are swapped"));
        }
    }
    exam.report("files");
}
