//! Damaged collections: every byte changed in three ways, files cut to every length, extended,
//! swapped and missing. Every answer is correct or an error that names the file.

use super::sample_files::{Files, QUESTIONS, answers, files, large_files};
use crate::search::testing::Rng;
use crate::{ErrorKind, Result};
use std::path::PathBuf;

const SEED: u64 = 0xBAD_B17E;

/// Larger partitions: their number of documents, and how often each is damaged.
const LARGE: [(u64, usize); 2] = [(5_000, 1_000), (66_000, 80)];

/// The outcomes of queries of damaged collections.
#[derive(Debug, Default)]
struct Tally {
    collections: u64,
    correct: u64,
    errors: u64,
}

/// A collection and its correct answers.
struct DamageTest {
    files: Files,
    expected: Vec<String>,
    tally: Tally,
}

impl DamageTest {
    fn new(files: Files) -> DamageTest {
        let expected: Vec<String> = answers(&files).into_iter().map(Result::unwrap).collect();
        assert_eq!(expected.len(), QUESTIONS.len());
        let bytes: usize = files.values().map(Vec::len).sum();
        println!("{} files, {bytes} bytes, seed {SEED:#x}", files.len());
        DamageTest { files, expected, tally: Tally::default() }
    }

    /// Runs all queries on a damaged collection.
    fn check(&mut self, files: &Files, damage: impl Fn() -> String) {
        self.tally.collections += 1;
        for (i, answer) in answers(files).into_iter().enumerate() {
            let kind = match answer {
                Ok(answer) if answer == self.expected[i] => {
                    self.tally.correct += 1;
                    continue;
                }
                Ok(answer) => panic!(
                    "{}: wrong answer to {:?}: {answer}\nexpected {}",
                    damage(),
                    QUESTIONS[i].0,
                    self.expected[i]
                ),
                Err(e) => e,
            };
            self.tally.errors += 1;
            let allowed = [ErrorKind::Corrupt, ErrorKind::NotFound, ErrorKind::UnsupportedVersion];
            assert!(allowed.contains(&kind.kind()), "{}: {kind:?}", damage());
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
fn a_damaged_byte_gives_an_error_or_correct_answers() {
    let mut test = DamageTest::new(files());
    let mut rng = Rng(SEED);
    let mut damaged = test.files.clone();
    for path in test.paths() {
        for at in 0..test.files[&path].len() {
            let old = test.files[&path][at];
            for new in [old ^ 0xFF, 0, old ^ 1 << rng.below(8)] {
                if new != old {
                    damaged.get_mut(&path).unwrap()[at] = new;
                    test.check(&damaged, || format!("{path:?}, byte {at}, {old} -> {new}"));
                }
            }
            damaged.get_mut(&path).unwrap()[at] = old;
        }
    }
    test.report("bytes");
}

#[test]
fn damage_in_a_larger_partition_gives_an_error_or_correct_answers() {
    for (documents, damages) in LARGE {
        let mut test = DamageTest::new(large_files(documents));
        let mut rng = Rng(SEED);
        let path = test.paths().into_iter().max_by_key(|path| test.files[path].len()).unwrap();
        let mut damaged = test.files.clone();
        for _ in 0..damages {
            let bytes = damaged.get_mut(&path).unwrap();
            let at = rng.below(bytes.len());
            let old = std::mem::replace(&mut bytes[at], rng.next() as u8);
            test.check(&damaged, || format!("{path:?}, byte {at}, which was {old}"));
            damaged.get_mut(&path).unwrap()[at] = old;
        }
        test.report(&format!("bytes of {documents} documents"));
    }
}

#[test]
fn a_file_of_another_length_gives_an_error_or_correct_answers() {
    let mut test = DamageTest::new(files());
    let mut damaged = test.files.clone();
    for path in test.paths() {
        let whole = test.files[&path].clone();
        for len in 0..whole.len() {
            damaged.insert(path.clone(), whole[..len].to_vec());
            test.check(&damaged, || format!("{path:?}, cut to {len} bytes"));
        }
        for more in [1, 7, 512] {
            for byte in [0, 0xFF, b'\n'] {
                let longer = [&whole[..], &vec![byte; more]].concat();
                damaged.insert(path.clone(), longer);
                test.check(&damaged, || format!("{path:?}, {more} bytes more"));
            }
        }
        damaged.insert(path, whole);
    }
    test.report("lengths");
}

#[test]
fn swapped_and_missing_files_give_errors_or_correct_answers() {
    let mut test = DamageTest::new(files());
    let paths = test.paths();
    for a in &paths {
        let mut damaged = test.files.clone();
        damaged.remove(a);
        test.check(&damaged, || format!("{a:?} is missing"));
        for b in paths.iter().filter(|b| *b != a) {
            let mut damaged = test.files.clone();
            damaged.insert(a.clone(), test.files[b].clone());
            test.check(&damaged, || format!("{a:?} is a copy of {b:?}"));
            damaged.insert(b.clone(), test.files[a].clone());
            test.check(&damaged, || format!("{a:?} and {b:?} are swapped"));
        }
    }
    test.report("files");
}
