//! Payloads while documents come in: in memory up to a budget, then in a temporary file that only
//! grows.

use crate::disk::{Append, DiskRef, Map};
use crate::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Collects payloads.
pub(crate) struct Spill {
    budget: usize,
    place: Option<(DiskRef, PathBuf)>,
    file: Option<(Box<dyn Append>, TemporaryFile)>,
    /// Bytes in the file; what came after is in `memory`.
    spilled: u64,
    memory: Vec<u8>,
    offsets: Vec<u64>,
}

/// Number of the next temporary file of this process.
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// So many names are tried for a file.
const NAMES: u32 = 1000;

/// Removes its file when dropped.
struct TemporaryFile(DiskRef, PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // Nothing depends on it: at worst a temporary file is left over.
        let _ = self.0.remove(&self.1);
    }
}

/// Creates a temporary file. A process that was killed leaves its own behind, and a later one may
/// have its id: names that are taken are passed over.
fn create(disk: DiskRef, folder: &Path) -> Result<(Box<dyn Append>, TemporaryFile)> {
    let mut tried = 0;
    loop {
        tried += 1;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(file_name(number));
        match disk.create(&path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists && tried < NAMES => {}
            Err(e) => return Err(e),
            Ok(file) => return Ok((file, TemporaryFile(disk, path))),
        }
    }
}

fn file_name(number: u64) -> String {
    format!("firndb-payloads-{}-{number}.spill", std::process::id())
}

impl Spill {
    pub(crate) fn new(budget: usize) -> Spill {
        Spill { budget, place: None, file: None, spilled: 0, memory: Vec::new(), offsets: vec![0] }
    }

    pub(crate) fn set_budget(&mut self, budget: usize) {
        self.budget = budget;
    }

    pub(crate) fn set_folder(&mut self, disk: DiskRef, folder: &Path) {
        self.place = Some((disk, folder.to_path_buf()));
    }

    pub(crate) fn push(&mut self, payload: &[u8]) -> Result<()> {
        if self.memory.len() + payload.len() > self.budget && !self.memory.is_empty() {
            self.flush()?;
        }
        self.memory.extend_from_slice(payload);
        self.offsets.push(self.spilled + self.memory.len() as u64);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.file.is_none() {
            let (disk, folder) =
                self.place.clone().unwrap_or_else(|| (crate::disk::os(), std::env::temp_dir()));
            self.file = Some(create(disk, &folder)?);
        }
        if let Some((file, _)) = &mut self.file {
            file.append(&self.memory)?;
        }
        self.spilled += self.memory.len() as u64;
        self.memory.clear();
        Ok(())
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.memory.len() + 8 * self.offsets.len()
    }

    /// Ends collecting.
    pub(crate) fn finish(self) -> Result<Spilled> {
        let Spill { file, spilled, memory, offsets, .. } = self;
        let mut spill = Spilled { map: None, spilled, memory, offsets };
        if let Some((append, file)) = file {
            drop(append);
            spill.map = Some((file.0.map(&file.1)?, file));
        }
        Ok(spill)
    }
}

/// The payloads of all documents, by number.
pub(crate) struct Spilled {
    map: Option<(Map, TemporaryFile)>,
    spilled: u64,
    memory: Vec<u8>,
    offsets: Vec<u64>,
}

impl Spilled {
    /// Appends the payload of a document to `out`.
    pub(crate) fn get(&self, doc: u32, out: &mut Vec<u8>) -> Result<()> {
        let (start, end) = (self.offsets[doc as usize], self.offsets[doc as usize + 1]);
        let bytes = match &self.map {
            Some((map, _)) if start < self.spilled => map.get(start as usize..end as usize),
            _ => self.memory.get((start - self.spilled) as usize..(end - self.spilled) as usize),
        };
        out.extend_from_slice(bytes.ok_or_else(|| Error::corrupt("spilled payloads are cut"))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, SimDisk};

    #[test]
    fn files_left_over_from_a_killed_process_are_passed_over() {
        let disk = SimDisk::new();
        let folder = Path::new("/spill");
        disk.create_dir_all(folder).unwrap();
        // Tests beside this one take numbers, too.
        let next = NUMBER.load(Ordering::Relaxed);
        for number in next..next + 100 {
            disk.write_raw(&folder.join(file_name(number)), b"left over");
        }
        let mut spill = Spill::new(4);
        spill.set_folder(disk.clone() as DiskRef, folder);
        for payload in ["one", "two", "three"] {
            spill.push(payload.as_bytes()).unwrap();
        }
        let (spilled, mut payload) = (spill.finish().unwrap(), Vec::new());
        spilled.get(1, &mut payload).unwrap();
        assert_eq!(payload, b"two");
        drop(spilled);
        assert_eq!(disk.files().len(), 100, "only its own file is removed");
    }
}
