//! Real crashes: a process that writes with four threads is killed repeatedly, and a file system
//! loses power. Every acknowledged write is there, and anything else is the write that followed:
//! when the store is opened, and when a standby takes over.

use super::{Rng, setting};
use crate::ErrorKind;
use crate::log::{Batch, Durability, LogStore, Options, Snapshot, WriteOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const THREADS: u64 = 4;
/// Keys per thread.
const RING: u64 = 16;
/// Names the directory for the child, and whether it syncs.
const PLACE: &str = "FIRNDB_TEST_KILLED";
const SYNC: &str = "FIRNDB_TEST_SYNC";

fn options() -> Options {
    Options {
        segment_bytes: 64 << 10,
        checkpoint_bytes: 256 << 10,
        compaction_threshold: 0.3,
        index_bits: 4,
        ..Options::default()
    }
}

fn key(thread: u64, n: u64) -> Vec<u8> {
    format!("thread {thread} key {}", n % RING).into_bytes()
}

/// Each key has a partner that is written in the same batch.
fn twin(thread: u64, n: u64) -> Vec<u8> {
    format!("thread {thread} twin {}", n % RING).into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    let mut value = n.to_le_bytes().to_vec();
    value.resize(8 + (n * 37 % 900) as usize, n as u8);
    value
}

/// Whether write `n` deletes its keys.
fn is_delete(n: u64) -> bool {
    n % 7 == 6
}

/// The process that is killed. Prints `thread n` when a thread's write `n` was acknowledged.
#[test]
#[ignore = "started by the tests that kill it"]
fn child() {
    let dir = PathBuf::from(std::env::var_os(PLACE).unwrap());
    let is_sync = std::env::var_os(SYNC).is_some();
    let durability = if is_sync { Durability::Sync } else { Durability::Os };
    let store = LogStore::open_with(&dir, options()).unwrap();
    std::io::stdout().write_all(b"\nopen\n").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let first = last_of(store, thread).map_or(0, |last| last + 1);
                for n in first.. {
                    let mut batch = match is_delete(n) {
                        true => Batch::new().delete(key(thread, n)).delete(twin(thread, n)),
                        false => {
                            let value = value(n);
                            let batch = Batch::new().put(key(thread, n), &value);
                            batch.put(twin(thread, n), &value)
                        }
                    };
                    // Records the thread's progress, so that deletes are visible too.
                    batch.push_put(format!("thread {thread}").as_bytes(), n.to_le_bytes());
                    let options = WriteOptions::default().durability(durability);
                    if store.write_with(&batch, options).is_err() {
                        return; // The file system is shut down.
                    }
                    let said = format!("{thread} {n}\n");
                    if std::io::stdout().write_all(said.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// The number of the last write of a thread that is in the store.
fn last_of(store: &LogStore, thread: u64) -> Option<u64> {
    let value = store.get(format!("thread {thread}").as_bytes()).unwrap()?;
    Some(u64::from_le_bytes(value.try_into().unwrap()))
}

/// The child, and the last acknowledged write of each thread.
struct Victim {
    child: Child,
    said: Arc<Mutex<[Option<u64>; THREADS as usize]>>,
    reader: std::thread::JoinHandle<bool>,
}

impl Victim {
    fn start(dir: &Path, is_sync: bool) -> Victim {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["log::tests::proof::kill::child", "--exact", "--ignored", "--nocapture"]);
        command.env(PLACE, dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        if is_sync {
            command.env(SYNC, "1");
        }
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let said = Arc::new(Mutex::new([None; THREADS as usize]));
        let notes = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            let mut is_open = false;
            for line in output.lines().map_while(Result::ok) {
                is_open |= line == "open";
                let words = line.split_once(' ');
                let numbers =
                    words.and_then(|(t, n)| Some((t.parse::<usize>().ok()?, n.parse().ok()?)));
                if let Some((thread, n)) = numbers.filter(|_| is_open) {
                    notes.lock().unwrap()[thread] = Some(n);
                }
            }
            is_open
        });
        Victim { child, said, reader }
    }

    /// Waits until all threads have written, or the child has ended.
    fn wait(&mut self) {
        for _ in 0..2000 {
            let is_over = self.child.try_wait().unwrap().is_some();
            if is_over || self.said.lock().unwrap().iter().all(Option::is_some) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The last acknowledged write of each thread, after the process has ended.
    fn end(mut self) -> [Option<u64>; THREADS as usize] {
        let _ = self.child.kill();
        self.child.wait().unwrap();
        assert!(self.reader.join().unwrap(), "the other process could not open the store");
        *self.said.lock().unwrap()
    }
}

/// A prefix of each thread's writes is there, including all acknowledged ones, and no other write.
fn check(dir: &Path, said: &[Option<u64>], label: &str) -> u64 {
    let store = LogStore::open_with(dir, options()).unwrap_or_else(|e| panic!("{label}: {e}"));
    let found = check_store(&store, said, label);
    store.close().unwrap();
    found
}

fn check_store(store: &LogStore, said: &[Option<u64>], label: &str) -> u64 {
    let mut found = 0;
    for (thread, said) in (0..THREADS).zip(said) {
        let last = last_of(store, thread);
        assert!(last >= *said, "{label}: thread {thread} said {said:?}, {last:?} is there");
        let Some(last) = last else { continue };
        for n in last.saturating_sub(RING - 1)..=last {
            let expected = (!is_delete(n)).then(|| value(n));
            assert_eq!(store.get(key(thread, n)).unwrap(), expected, "{label}: {thread} {n}");
            assert_eq!(store.get(twin(thread, n)).unwrap(), expected, "{label}: {thread} {n}");
        }
        found += last + 1;
    }
    store.verify().unwrap_or_else(|e| panic!("{label}: {e}"));
    found
}

/// `FIRNDB_KILLS` sets the number of rounds.
#[test]
fn a_killed_process_loses_no_acknowledged_write() {
    let dir = std::env::temp_dir().join(format!("firndb-kill-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let (rounds, mut random, mut writes) = (setting("FIRNDB_KILLS", 30), Rng(3), 0);
    for round in 0..rounds {
        let mut victim = Victim::start(&dir, round % 3 == 2);
        victim.wait();
        std::thread::sleep(Duration::from_millis(random.below(60)));
        let said = victim.end();
        writes = check(&dir, &said, &format!("round {round}"));
    }
    println!("kill: kills={rounds} writes={writes} lost=0");
    assert!(writes > rounds);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A reader follows the process, in every third round with a snapshot, and is promoted when the
/// process was killed. `FIRNDB_KILLS` sets the number of rounds.
#[test]
fn a_standby_takes_over_from_a_killed_process() {
    let dir = std::env::temp_dir().join(format!("firndb-standby-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let (rounds, mut random, mut writes) = (setting("FIRNDB_KILLS", 20), Rng(5), 0);
    let mut seconds = Vec::new();
    for round in 0..rounds {
        let label = format!("round {round}");
        let mut victim = Victim::start(&dir, round % 3 == 2);
        victim.wait();
        let options = options().read_only(true);
        let standby = LogStore::open_with(&dir, options).unwrap_or_else(|e| panic!("{label}: {e}"));
        for _ in 0..random.below(10u64) {
            assert_eq!(standby.promote().unwrap_err().kind(), ErrorKind::Locked, "{label}");
            standby.refresh().unwrap_or_else(|e| panic!("{label}: {e}"));
            std::thread::sleep(Duration::from_millis(random.below(8)));
        }
        let snapshot = (round % 3 == 1).then(|| standby.snapshot());
        let content = |snapshot: &Snapshot| snapshot.iter().map(Result::unwrap).collect::<Vec<_>>();
        let old = snapshot.as_ref().map(content);
        let said = victim.end();
        standby.promote().unwrap_or_else(|e| panic!("{label}: {e}"));
        seconds.push(standby.stats().recovery.seconds);
        writes = check_store(&standby, &said, &label);
        // It goes on from there, with threads that compact.
        for n in 0..2000u64 {
            standby.put(format!("standby {}", n % 100), n.to_le_bytes()).unwrap();
        }
        standby.compact(0.2).unwrap();
        assert_eq!(check_store(&standby, &said, &label), writes, "{label}");
        assert!(snapshot.as_ref().map(content) == old, "{label}: the snapshot");
        drop(snapshot);
        standby.close().unwrap();
        assert_eq!(check(&dir, &said, &label), writes, "{label}: after a close");
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2] * 1e3;
    println!("standby: kills={rounds} writes={writes} lost=0 promotion={median:.2} ms (median)");
    assert!(writes > rounds);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Shuts a file system down without flushing its journal, which leaves the state of a power cut.
const SHUTDOWN: &str = "import fcntl, os, struct, sys; \
     fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";

/// Shuts down the file system that is mounted here.
pub(crate) fn shut_down(at: &Path) -> Result<(), String> {
    system("python3", &["-c".as_ref(), SHUTDOWN.as_ref(), at.as_os_str()])
}

/// Runs a system program. Returns its output if it failed.
pub(crate) fn system(program: &str, args: &[&std::ffi::OsStr]) -> Result<(), String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{program}: {said}")) }
}

/// A file system in a file, mounted.
pub(crate) struct Mount {
    image: PathBuf,
    pub(crate) at: PathBuf,
}

impl Mount {
    /// An ext4 file system of 64 MiB.
    pub(crate) fn new(dir: &Path) -> Result<Mount, String> {
        Mount::made_by(&["mkfs.ext4", "-q", "-F"], 64 << 20, dir)
    }

    /// The file system that this command makes in a file of this many bytes.
    pub(crate) fn made_by(mkfs: &[&str], bytes: u64, dir: &Path) -> Result<Mount, String> {
        let (image, at) = (dir.join("image"), dir.join("mounted"));
        std::fs::create_dir_all(&at).map_err(|e| e.to_string())?;
        let file = std::fs::File::create(&image).map_err(|e| e.to_string())?;
        file.set_len(bytes).map_err(|e| e.to_string())?;
        let mount = Mount { image, at };
        let arguments = mkfs[1..].iter().map(|argument| argument.as_ref());
        let arguments: Vec<_> = arguments.chain([mount.image.as_os_str()]).collect();
        system(mkfs[0], &arguments)?;
        mount.mount()?;
        Ok(mount)
    }

    pub(crate) fn mount(&self) -> Result<(), String> {
        system("mount", &["-o".as_ref(), "loop".as_ref(), self.image.as_ref(), self.at.as_ref()])
    }

    pub(crate) fn unmount(&self) -> Result<(), String> {
        system("umount", &[self.at.as_os_str()])
    }

    pub(crate) fn shut_down(&self) -> Result<(), String> {
        shut_down(&self.at)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.unmount();
    }
}

/// `FIRNDB_POWER_CUTS` sets the number of cuts.
#[test]
#[ignore = "cuts the power of an ext4 file system: needs root, loop devices and mkfs.ext4"]
fn a_file_system_that_loses_power_keeps_synced_writes() {
    let dir = std::env::temp_dir().join(format!("firndb-power-{}", std::process::id()));
    let mount = match Mount::new(&dir) {
        Ok(mount) => mount,
        Err(e) => panic!("cannot cut the power here ({e}): run as root, where loop devices are"),
    };
    let (cuts, mut random, mut writes) = (setting("FIRNDB_POWER_CUTS", 500), Rng(9), 0);
    for cut in 0..cuts {
        let is_sync = cut % 4 != 3;
        let mut victim = Victim::start(&mount.at.join("store"), is_sync);
        victim.wait();
        std::thread::sleep(Duration::from_millis(random.below(40)));
        // Acknowledgements during the shutdown do not count: the file system may have given them
        // after it was shut down.
        let said = *victim.said.lock().unwrap();
        mount.shut_down().unwrap();
        victim.end();
        mount.unmount().unwrap();
        mount.mount().unwrap();
        // Without sync the only guarantee is that each thread's writes are a prefix.
        let promised = if is_sync { said } else { [None; THREADS as usize] };
        writes = check(&mount.at.join("store"), &promised, &format!("cut {cut}"));
    }
    println!("power: cuts={cuts} writes={writes} lost=0");
    drop(mount);
    std::fs::remove_dir_all(&dir).unwrap();
}
