//! Collects payloads while documents are added. Payloads that exceed a memory budget are appended
//! to a temporary file.

use crate::disk::{Append, DiskRef, Map, ReadAt};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Collects payloads in memory, and spills them to a temporary file beyond a budget.
pub(crate) struct PayloadSpill {
    budget: usize,
    /// Disk and directory of the temporary file; the system's temporary directory by default.
    location: Option<(DiskRef, PathBuf)>,
    /// The temporary file, once payloads have been spilled.
    file: Option<(Box<dyn Append>, Box<dyn ReadAt>)>,
    /// Bytes in the file. Later payloads are in `memory`.
    spilled: u64,
    memory: Vec<u8>,
    /// Where each payload starts, counted over file and memory, and the end of the last.
    offsets: Vec<u64>,
}

impl PayloadSpill {
    pub(crate) fn new(budget: usize) -> PayloadSpill {
        PayloadSpill {
            budget,
            location: None,
            file: None,
            spilled: 0,
            memory: Vec::new(),
            offsets: vec![0],
        }
    }

    pub(crate) fn set_budget(&mut self, budget: usize) {
        self.budget = budget;
    }

    pub(crate) fn set_folder(&mut self, disk: DiskRef, folder: &Path) {
        self.location = Some((disk, folder.to_path_buf()));
    }

    pub(crate) fn push(&mut self, payload: &[u8]) -> Result<()> {
        if self.memory.len() + payload.len() > self.budget && !self.memory.is_empty() {
            self.flush()?;
        }
        self.memory.extend_from_slice(payload);
        self.offsets.push(self.spilled + self.memory.len() as u64);
        Ok(())
    }

    /// Appends the payloads in memory to the file.
    fn flush(&mut self) -> Result<()> {
        if self.file.is_none() {
            let (disk, folder) =
                self.location.clone().unwrap_or_else(|| (crate::disk::os(), std::env::temp_dir()));
            self.file = Some(disk.create_unnamed(&folder)?);
        }
        if let Some((file, _)) = &mut self.file {
            file.append(&self.memory)?;
        }
        self.spilled += self.memory.len() as u64;
        self.memory.clear();
        Ok(())
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory.len() + 8 * self.offsets.len()
    }

    /// Makes the payloads readable.
    pub(crate) fn finish(self) -> Result<Spilled> {
        let PayloadSpill { file, spilled, memory, offsets, .. } = self;
        let map = file.map(|(_, read)| read.map()).transpose()?;
        Ok(Spilled { map, spilled, memory, offsets })
    }
}

/// The payloads of all documents, by document number.
pub(crate) struct Spilled {
    map: Option<Map>,
    spilled: u64,
    memory: Vec<u8>,
    offsets: Vec<u64>,
}

impl Spilled {
    /// Appends the payload of a document to `out`.
    pub(crate) fn get(&self, doc: u32, out: &mut Vec<u8>) -> Result<()> {
        let (start, end) = (self.offsets[doc as usize], self.offsets[doc as usize + 1]);
        let bytes = match &self.map {
            Some(map) if start < self.spilled => map.get(start as usize..end as usize),
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
    use std::path::Path;

    #[test]
    fn spilled_payloads_are_read_back_and_the_file_is_removed() {
        let disk = SimDisk::new();
        let folder = Path::new("/spill");
        disk.create_dir_all(folder).unwrap();
        let mut spill = PayloadSpill::new(4);
        spill.set_folder(disk.clone() as DiskRef, folder);
        for payload in ["one", "two", "three"] {
            spill.push(payload.as_bytes()).unwrap();
        }
        assert_eq!(disk.files().len(), 1, "nothing was spilled");
        assert!(disk.list(folder).unwrap().is_empty(), "the temporary file is unnamed");
        let spilled = spill.finish().unwrap();
        for (doc, expected) in (0..).zip(["one", "two", "three"]) {
            let mut payload = Vec::new();
            spilled.get(doc, &mut payload).unwrap();
            assert_eq!(payload, expected.as_bytes());
        }
        drop(spilled);
        assert!(disk.files().is_empty());
    }
}
