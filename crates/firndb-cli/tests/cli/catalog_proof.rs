//! Publishers, rollbacks, `gc`, pins and a reader in processes of their own, some of which are
//! killed: every version that must exist does. `FIRNDB_CATALOG_ROUNDS` sets how often each of them
//! runs.

use super::Sandbox;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const SEED: u64 = 20_261_128;

/// Number of tables that are published, each with different records.
const TABLES: u64 = 5;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % n
    }
}

/// The result of a run.
enum End {
    Killed,
    /// Its exit code and its output.
    Code(i32, String, String),
}

/// Runs `firn`, and kills one in four runs within a few milliseconds.
fn run(sandbox: &Sandbox, random: &mut Random, line: &str) -> End {
    let mut child = sandbox.start(&[], line);
    if random.below(4) == 0 {
        std::thread::sleep(Duration::from_micros(random.below(12_000)));
        child.kill().unwrap();
    }
    let run = Sandbox::ended(child, b"");
    match run.code {
        -1 => End::Killed,
        code => End::Code(code, run.out, run.err),
    }
}

/// The output of a run that was neither killed nor refused with one of these exit codes.
fn output(sandbox: &Sandbox, random: &mut Random, line: &str, refusals: &[i32]) -> Option<String> {
    match run(sandbox, random, line) {
        End::Code(0, out, _) => Some(out),
        End::Code(code, _, err) => {
            assert!(refusals.contains(&code), "{line}: exit code {code}: {err}");
            None
        }
        End::Killed => None,
    }
}

fn versions(sandbox: &Sandbox) -> Vec<(u64, String)> {
    let listed = sandbox.firn("catalog ls c words --json").ok().json();
    listed.iter().map(number_and_id).collect()
}

fn number_and_id(line: &Json) -> (u64, String) {
    (line["version"].as_u64().unwrap(), line["id"].as_str().unwrap().to_string())
}

/// State shared by all threads.
struct World<'a> {
    sandbox: &'a Sandbox,
    rounds: u64,
    /// The ids of versions whose publication was acknowledged.
    published: Mutex<BTreeMap<u64, String>>,
}

impl World<'_> {
    fn publish(&self, random: &mut Random) {
        for round in 0..self.rounds {
            let table = random.below(TABLES);
            let verify = if random.below(8) == 0 { "--verify" } else { "" };
            let line = match round % 7 {
                6 => {
                    let known = versions(self.sandbox);
                    let to = known[random.below(known.len() as u64) as usize].0;
                    format!("catalog rollback c words {to} --json")
                }
                _ => format!("catalog publish c words t{table}.table --json {verify}"),
            };
            // Another publisher was faster, or `gc` has removed the version to roll back to.
            let refusals: &[i32] = if round % 7 == 6 { &[3, 4] } else { &[4] };
            let Some(out) = output(self.sandbox, random, &line, refusals) else { continue };
            let (number, id) = number_and_id(&serde_json::from_str(&out).unwrap());
            let before = self.published.lock().unwrap().insert(number, id);
            assert_eq!(before, None, "version {number} was acknowledged twice");
        }
    }

    fn clean(&self, random: &mut Random) {
        for _ in 0..self.rounds {
            output(self.sandbox, random, "catalog gc c words --keep 2 --grace 0s", &[]);
        }
    }

    /// Pins versions, and reads them while they are pinned.
    fn pin(&self, random: &mut Random) {
        let mut held: Vec<u64> = Vec::new();
        let check_intact = |number: u64| {
            self.sandbox.firn(&format!("catalog verify c words {number}")).ok();
        };
        for _ in 0..self.rounds {
            let known = versions(self.sandbox);
            let number = known[random.below(known.len() as u64) as usize].0;
            let line = format!("catalog pin c words {number}");
            if !held.contains(&number) && output(self.sandbox, random, &line, &[3, 4]).is_some() {
                held.push(number);
            }
            held.iter().for_each(|&number| check_intact(number));
            if held.len() > 3 {
                let number = held.remove(random.below(held.len() as u64) as usize);
                self.sandbox.firn(&format!("catalog pin c words {number} --remove")).ok();
            }
        }
        held.iter().for_each(|&number| check_intact(number));
    }

    /// A reader that is killed over and over never goes back to an older version.
    fn read(&self, random: &mut Random, is_done: &AtomicBool) {
        let mut seen = 0;
        while !is_done.load(Relaxed) {
            let line = "catalog watch c words -o cache --every 5ms --versions 3 --json";
            let mut child = self.sandbox.start(&[], line);
            std::thread::sleep(Duration::from_millis(10 + random.below(60)));
            child.kill().unwrap();
            for line in Sandbox::ended(child, b"").out.lines() {
                // The last line may be truncated.
                let Ok(line) = serde_json::from_str(line) else { continue };
                let (number, _) = number_and_id(&line);
                assert!(number >= seen, "version {number} after {seen}");
                seen = number;
            }
        }
    }
}

#[test]
fn required_versions_survive_killed_processes() {
    let rounds = std::env::var("FIRNDB_CATALOG_ROUNDS").map_or(25, |n| n.parse().unwrap());
    println!("seed {SEED}, {rounds} rounds");
    let sandbox = Sandbox::new();
    for table in 0..TABLES {
        sandbox.write("words.txt", format!("one {table}\ntwo {table}\n"));
        sandbox.firn(&format!("table build -i words.txt -o t{table}.table")).ok();
    }
    sandbox.firn("catalog publish c words t0.table").ok();
    let world = World { sandbox: &sandbox, rounds, published: Mutex::default() };
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (world, is_done) = (&world, &is_done);
        let random = |n: u64| Random(SEED.wrapping_mul(n + 1));
        let workers = [
            scope.spawn(move || world.publish(&mut random(1))),
            scope.spawn(move || world.publish(&mut random(2))),
            scope.spawn(move || world.clean(&mut random(3))),
            scope.spawn(move || world.clean(&mut random(4))),
            scope.spawn(move || world.pin(&mut random(5))),
        ];
        let reader = scope.spawn(move || world.read(&mut random(6), is_done));
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        is_done.store(true, Relaxed);
        reader.join().unwrap();
        ends.into_iter().for_each(|end| end.unwrap());
    });
    sandbox.firn("catalog gc c words --keep 2 --grace 0s").ok();
    let there = versions(&sandbox);
    let newest = there.last().unwrap().0;
    let published = world.published.into_inner().unwrap();
    println!("{} acknowledged, {newest} is the newest, {} are there", published.len(), there.len());
    assert!(published.len() as u64 > rounds / 4 && *published.keys().last().unwrap() <= newest);
    // The two newest versions and the pinned ones exist, complete and unchanged.
    assert!(there.iter().any(|(number, _)| *number == newest - 1));
    for (number, id) in &there {
        sandbox.firn(&format!("catalog verify c words {number}")).ok();
        assert!(published.get(number).is_none_or(|known| known == id), "version {number}");
    }
    let reader = sandbox.firn("catalog watch c words -o cache --versions 1 --json").ok();
    assert_eq!(number_and_id(&reader.json()[0]).0, newest);
    assert_eq!(reader.err, "");
}
