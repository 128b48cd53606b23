//! Append maps of the simulated disk. Each has a real file without a name, so that stores and
//! writes show in its map as on the real disk.

use crate::disk::append_map::{AppendMap, AppendMapFile, AppendMapWriter, AppendMode};
#[cfg(not(target_os = "linux"))]
use crate::disk::os::anonymous;
use crate::disk::sim::state::{Fault, Faults, State};
use crate::{Error, Result};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Creates both sides of an append map over a copy of the file. Appends go to both.
pub(super) fn append_map(
    all: &Arc<Mutex<State>>,
    state: &State,
    id: usize,
    end: usize,
    mode: AppendMode,
    path: &Path,
) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
    let mode = match mode {
        AppendMode::Auto if state.is_sparse => AppendMode::Write,
        AppendMode::Auto => AppendMode::Map,
        mode => mode,
    };
    let whole = state.files[id].whole();
    let failed = |e: io::Error| Error::io("map", path, e);
    let copy = memory_file().map_err(failed)?;
    copy.write_all_at(&whole, 0).and_then(|()| copy.set_len(whole.len() as u64)).map_err(failed)?;
    let map = MmapOptions::new().len(whole.len()).map_raw(&copy).map_err(failed)?;
    let file = SimAppendMap { state: Arc::clone(all), id, path: path.into(), copy };
    Ok(AppendMap::new(map, end, Box::new(file), mode, path))
}

/// A file in memory where the system has such files, in the directory for temporary files
/// otherwise.
fn memory_file() -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{MemfdFlags, memfd_create};
        Ok(memfd_create("simulated append map", MemfdFlags::CLOEXEC)?.into())
    }
    #[cfg(not(target_os = "linux"))]
    anonymous(&std::env::temp_dir())
}

struct SimAppendMap {
    state: Arc<Mutex<State>>,
    id: usize,
    path: PathBuf,
    /// The mapped file.
    copy: File,
}

impl AppendMapFile for SimAppendMap {
    fn stored(&self, bytes: &[u8]) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        state.step("store", &self.path)?;
        let file = &state.files[self.id];
        let (old, new) = (file.taken(), file.bytes.len() + bytes.len());
        if file.is_sparse && state.fit("store", &self.path, old, new).is_err() {
            drop(state);
            panic!("SIGBUS: a store into a map of a file that has no space for it");
        }
        state.files[self.id].append(bytes);
        Ok(())
    }

    fn prepare(&self, _: usize, _: usize) -> Result<()> {
        self.state.lock().unwrap().step("prepare", &self.path)
    }

    fn write(&self, bytes: &[u8], at: usize, written: &mut usize) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        let failed = state.begin("write", &self.path)?;
        let file = &state.files[self.id];
        let (old, new) = (file.taken(), file.taken().max(at + bytes.len()));
        let failed = failed.or_else(|| state.fit("write", &self.path, old, new).err());
        let short = matches!(&state.faults, Some(Faults { fault: Fault::Short, .. }));
        let taken = match failed {
            None => bytes,
            Some(_) if short => &bytes[..bytes.len() / 2],
            Some(_) => &[],
        };
        *written += taken.len();
        state.files[self.id].write(taken, at);
        self.copy.write_all_at(taken, at as u64).expect("memory for the copy of an append map");
        failed.map_or(Ok(()), Err)
    }

    fn sync(&self, _: &MmapRaw, _: usize, to: usize, _: AppendMode) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        let failed = state.begin("sync", &self.path)?;
        let is_lie = state.is_lie("sync", &self.path);
        let is_dropped = matches!(&state.faults, Some(Faults { fault: Fault::Dropped, .. }));
        let file = &mut state.files[self.id];
        if let Some(error) = failed {
            file.doomed = true;
            if is_dropped {
                let mut lost = vec![0; file.bytes.len() - file.synced];
                let under = file.under.get(file.synced..file.bytes.len()).unwrap_or(&[]);
                lost[..under.len()].copy_from_slice(under);
                self.copy
                    .write_all_at(&lost, file.synced as u64)
                    .expect("the copy of an append map");
                file.bytes.truncate(file.synced);
            }
            return Err(error);
        }
        if !file.doomed && !is_lie {
            file.settle(to);
            file.reserved = file.capacity;
        }
        Ok(())
    }
}
