//! Appends on a separate thread.
//!
//! The thread that produces a large file does not wait while the kernel copies the bytes and
//! allocates page cache for them, which takes about as long as producing them.

use crate::disk::traits::Append;
use crate::{Error, ErrorKind, Result};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Capacity of the queue of pieces, chosen so that neither thread waits often. One more piece is
/// being filled and one more written.
const QUEUE: usize = 4;
/// Writeback starts after this number of pieces.
const PIECES_PER_WRITEBACK: usize = 8;

/// Runs `write` with a proxy of `out`; a second thread appends the bytes to `out`, in the same
/// order. All bytes have been appended when this returns without an error.
pub(crate) fn write_behind<T>(
    out: &mut dyn Append,
    write: impl FnOnce(&mut dyn Append) -> Result<T>,
) -> Result<T> {
    let (jobs, todo) = sync_channel(QUEUE);
    let (give_back, empty) = channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || append_all(out, &todo, &give_back));
        let mut writer = WriteBehind { jobs, empty };
        let written = write(&mut writer);
        drop(writer);
        match thread.join() {
            // The first error is the one to report; the writer then only saw a closed channel.
            Ok(appended) => appended.and(written),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

enum Job {
    Append(Vec<u8>),
    Sync(SyncSender<()>),
}

fn append_all(
    out: &mut dyn Append,
    todo: &Receiver<Job>,
    give_back: &Sender<Vec<u8>>,
) -> Result<()> {
    let mut pieces = 0;
    for job in todo {
        match job {
            Job::Append(mut piece) => {
                out.append(&piece)?;
                pieces += 1;
                if pieces == PIECES_PER_WRITEBACK {
                    out.begin_writing();
                    pieces = 0;
                }
                piece.clear();
                // The writer may have finished.
                let _ = give_back.send(piece);
            }
            Job::Sync(done) => {
                out.sync()?;
                let _ = done.send(());
            }
        }
    }
    Ok(())
}

/// The writer's proxy of the file.
struct WriteBehind {
    jobs: SyncSender<Job>,
    empty: Receiver<Vec<u8>>,
}

impl WriteBehind {
    fn send(&self, job: Job) -> Result<()> {
        self.jobs.send(job).map_err(|_| ended())
    }
}

impl Append for WriteBehind {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.append_piece(&mut bytes.to_vec())
    }

    fn append_piece(&mut self, piece: &mut Vec<u8>) -> Result<()> {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(piece.capacity()));
        self.send(Job::Append(std::mem::replace(piece, next)))
    }

    fn sync(&mut self) -> Result<()> {
        let (done, wait) = sync_channel(1);
        self.send(Job::Sync(done))?;
        wait.recv().map_err(|_| ended())
    }
}

/// Never reported: the thread that ended returns the cause.
fn ended() -> Error {
    Error::new(ErrorKind::Failed, "the appending thread has ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::SimDisk;
    use crate::disk::traits::Disk;
    use std::path::Path;

    fn write(out: &mut dyn Append) -> Result<()> {
        let mut piece = Vec::new();
        for n in 0..100u8 {
            piece.extend_from_slice(&[n; 50]);
            out.append_piece(&mut piece)?;
            assert!(piece.is_empty());
            if n % 10 == 0 {
                out.append(b"short")?;
                out.sync()?;
            }
        }
        Ok(())
    }

    #[test]
    fn appends_the_same_bytes_and_returns_the_first_error() {
        let disk = SimDisk::new();
        let [here, there] = ["/here", "/there"].map(Path::new);
        write(&mut *disk.create(here).unwrap()).unwrap();
        write_behind(&mut *disk.create(there).unwrap(), write).unwrap();
        let bytes = |path| disk.map(path).unwrap().to_vec();
        assert!(bytes(here) == bytes(there) && bytes(here).len() == 5050);

        let mut out = disk.create(Path::new("/own")).unwrap();
        let own = write_behind(&mut *out, |out| {
            out.append(b"a")?;
            Err::<(), _>(Error::invalid("an error of the writer's"))
        });
        assert!(own.unwrap_err().to_string().contains("of the writer's"));
        struct Full(usize);
        impl Append for Full {
            fn append(&mut self, bytes: &[u8]) -> Result<()> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| Error::invalid("full"))?;
                Ok(())
            }
            fn sync(&mut self) -> Result<()> {
                Ok(())
            }
        }
        for room in [0, 1, 54, 55, 60, 3000, 5049] {
            let error = write_behind(&mut Full(room), write).unwrap_err();
            assert!(error.to_string().contains("full"), "{room}: {error}");
        }
        write_behind(&mut Full(5050), write).unwrap();
    }

    #[test]
    fn writeback_starts_before_the_sync() {
        #[derive(Default)]
        struct Seen(String);
        impl Append for Seen {
            fn append(&mut self, _: &[u8]) -> Result<()> {
                self.0.push('a');
                Ok(())
            }
            fn begin_writing(&mut self) {
                self.0.push('b');
            }
            fn sync(&mut self) -> Result<()> {
                self.0.push('s');
                Ok(())
            }
        }
        let mut seen = Seen::default();
        write_behind(&mut seen, |out| {
            (0..20).try_for_each(|_| out.append(b"a piece"))?;
            out.sync()
        })
        .unwrap();
        assert_eq!(seen.0, "aaaaaaaabaaaaaaaabaaaas");
    }
}
