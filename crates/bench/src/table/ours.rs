//! FirnDB's Table as an engine of the benchmark.

use firndb::table::{Access, BuildOptions, Compression, KeyFilter, Table, TableBuilder};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Engine, Handle, Key, Records, Store};
use std::path::Path;

/// FirnDB with some options.
pub struct Ours {
    access: Access,
    filter: KeyFilter,
    compression: Compression,
    block_size: usize,
    /// Builds with memory for a tenth of the records.
    tenth: bool,
    /// Maps with pages of 4 KiB, as for files that were read from disk rather than just written.
    small_pages: bool,
}

/// The same as BSDB's.
const LEVEL: i32 = 6;
const FILE: &str = "records.table";

impl Ours {
    /// Parses `firndb` followed by its deviations from the defaults.
    pub fn parse(name: &str) -> Option<Ours> {
        let mut words = name.split('-');
        let (filter, compression, block_size) = (KeyFilter::None, Compression::None, 4096);
        let (access, tenth, small_pages) = (Access::Map, false, false);
        let mut ours = Ours { access, filter, compression, block_size, tenth, small_pages };
        if words.next() != Some("firndb") {
            return None;
        }
        for word in words {
            match word {
                "resident" => ours.access = Access::Resident,
                "direct" => ours.access = Access::Direct,
                "tenth" => ours.tenth = true,
                "smallpages" => ours.small_pages = true,
                "filter8" => ours.filter = KeyFilter::Bits8,
                "zstd" => ours.compression = Compression::Records { level: LEVEL },
                "zstdblocks" => {
                    ours.compression = Compression::Blocks { level: LEVEL };
                    ours.block_size = 16 << 10;
                }
                _ => return None,
            }
        }
        Some(ours)
    }
}

impl Engine for Ours {
    type Store = Opened;

    fn version(&self) -> String {
        let Ours { access, filter, compression, .. } = self;
        let version = env!("CARGO_PKG_VERSION");
        let tenth = if self.tenth { ", built in a tenth of the memory" } else { "" };
        let pages = if self.small_pages { ", in pages of 4 KiB" } else { "" };
        let what = format!("access {access:?}{pages}, filter {filter:?}, {compression:?}{tenth}");
        format!("FirnDB {version}, {what}").replace("None", "none")
    }

    fn build(&self, records: &Records, dir: &Path) -> Result<()> {
        let tenth = (records.count * records.workload.mean() / 10) as usize;
        let mut options = BuildOptions::new()
            .filter(self.filter)
            .compression(self.compression)
            .block_size(self.block_size);
        if self.tenth {
            options = options.memory_limit(tenth.max(16 << 20));
        }
        let mut builder = TableBuilder::create_with(dir.join(FILE), options)?;
        records.each(|key, value| Ok(builder.add(key, value)?))?;
        builder.finish()?;
        Ok(())
    }

    fn open(&self, _: &Records, dir: &Path) -> Result<Opened> {
        if self.small_pages {
            // Sets an option of this process, which runs nothing else.
            rustix::thread::disable_transparent_huge_pages(true)?;
        }
        Ok(Opened(Table::open_with(dir.join(FILE), self.access)?))
    }
}

/// An open table.
pub struct Opened(Table);

impl Store for Opened {
    type Handle<'a> = &'a Opened;
    const BATCHES: bool = true;

    fn handle(&self) -> Result<&Opened> {
        Ok(self)
    }
}

impl Handle for &Opened {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let value = self.0.get(key)?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn get_many(&mut self, keys: &[Key], mut found: impl FnMut(usize, &[u8])) -> Result<()> {
        for (place, value) in self.0.get_many(keys)?.into_iter().enumerate() {
            if let Some(value) = value {
                found(place, &value);
            }
        }
        Ok(())
    }

    fn read_many(&mut self, keys: &[Key], mut found: impl FnMut(usize, &[u8])) -> Result<()> {
        self.0.read_many(keys, |place, value| {
            value.into_iter().for_each(|value| found(place, value));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_the_options() {
        let ours = Ours::parse("firndb-resident-filter8").unwrap();
        assert!(ours.access == Access::Resident && ours.filter == KeyFilter::Bits8);
        assert!(Ours::parse("firndb").unwrap().access == Access::Map);
        assert!(Ours::parse("firndb-fast").is_none() && Ours::parse("cdb").is_none());
    }
}
